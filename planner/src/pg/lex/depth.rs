//! How deep the tree of a statement becomes, told from its tokens: before anything walks it, or drops it.
//!
//! Trees are walked and dropped by recursion, and a thread whose stack overflows takes the process with it. A pair of
//! brackets is a level, and so is each operator of a chain: `a + b + c` is as deep as it is long. What commas and clauses
//! set apart stands beside each other. Chains of AND and of OR are halved when they are parsed, see `parse::logic`, and
//! count for little.

use crate::pg::error::{Result, SqlError, state};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Levels of a statement's tree. The stacks of the threads that plan bear it without optimizations of the compiler.
const DEPTH_MAX: usize = 2_000;
/// Brackets, CASE and calls in each other.
const NESTING_MAX: usize = 100;
/// Conversions and accesses to parts of a value, each of what the one before gives: types are found anew at each, and each time
/// of all before it.
const CHAIN_MAX: usize = 200;
/// ANDs and ORs between two clauses: the optimizer makes one chain of conditions again.
const LOGIC_MAX: usize = 20_000;

/// What is open: a statement, brackets or CASE.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// Commas join tables.
    in_from: bool,
    /// Operators of the expression so far, and how deep what is in its brackets is.
    operators: usize,
    inner: usize,
    /// Conversions and accesses since the last other operator.
    chain: usize,
    /// ANDs and ORs of the clause so far.
    logic: usize,
    /// How deep the deepest expression before is.
    deepest: usize,
    /// Joins and set operations: chains that go through all clauses.
    relations: usize,
}

impl Level {
    fn separate(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inner);
        self.operators = 0;
        self.inner = 0;
        self.chain = 0;
    }

    fn clause(&mut self) {
        self.separate();
        self.logic = 0;
    }

    fn depth(&mut self) -> usize {
        self.separate();
        self.deepest + self.relations
    }
}

/// 54001 where a statement is deeper than the stacks bear.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut before = Keyword::NoKeyword;
    for token in tokens {
        let keyword = match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let opens_case = keyword == Keyword::CASE;
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                level.operators += usize::from(token.token == Token::LBracket);
                outer.push(std::mem::take(&mut level));
            }
            _ if opens_case => outer.push(std::mem::replace(
                &mut level,
                Level {
                    is_case: true,
                    ..Level::default()
                },
            )),
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut level, &mut outer),
            _ if keyword == Keyword::END && level.is_case => close(&mut level, &mut outer),
            Token::SemiColon if outer.is_empty() => {
                refuse(level.depth())?;
                level = Level::default();
            }
            Token::Comma if level.in_from => level.relations += 1,
            Token::Comma => level.separate(),
            Token::Word(_) => word(&mut level, keyword, before),
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) | Token::Period => {}
            Token::SemiColon | Token::EOF => {}
            Token::DoubleColon | Token::Arrow | Token::LongArrow | Token::HashArrow | Token::HashLongArrow => {
                level.operators += 1;
                level.chain += 1;
            }
            // Operators, and strings and the like that are none: few statements have thousands of those in one expression.
            _ => {
                level.operators += 1;
                level.chain = 0;
            }
        }
        if outer.len() > NESTING_MAX || level.chain > CHAIN_MAX || level.logic > LOGIC_MAX {
            return Err(too_deep());
        }
        before = keyword;
    }
    while !outer.is_empty() {
        close(&mut level, &mut outer);
    }
    refuse(level.depth())
}

fn close(level: &mut Level, outer: &mut Vec<Level>) {
    if let Some(around) = outer.pop() {
        let depth = 1 + level.depth();
        *level = around;
        level.inner = level.inner.max(depth);
    }
}

fn word(level: &mut Level, keyword: Keyword, before: Keyword) {
    match keyword {
        Keyword::AND | Keyword::OR => {
            level.separate();
            level.logic += 1;
        }
        Keyword::NOT
        | Keyword::IS
        | Keyword::NOTNULL
        | Keyword::IN
        | Keyword::LIKE
        | Keyword::ILIKE
        | Keyword::SIMILAR
        | Keyword::BETWEEN
        | Keyword::COLLATE
        | Keyword::AT
        | Keyword::OVERLAPS
        | Keyword::OPERATOR => level.operators += 1,
        Keyword::JOIN => level.relations += 1,
        Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
            level.clause();
            level.in_from = false;
            level.relations += 1;
        }
        Keyword::FROM if before != Keyword::DISTINCT => {
            level.clause();
            level.in_from = true;
        }
        Keyword::SELECT
        | Keyword::WHERE
        | Keyword::GROUP
        | Keyword::HAVING
        | Keyword::WINDOW
        | Keyword::ORDER
        | Keyword::LIMIT
        | Keyword::OFFSET
        | Keyword::VALUES
        | Keyword::SET
        | Keyword::RETURNING => {
            level.clause();
            level.in_from = false;
        }
        Keyword::WHEN | Keyword::THEN | Keyword::ELSE | Keyword::ON | Keyword::WITH | Keyword::AS => level.separate(),
        _ => {}
    }
}

fn refuse(depth: usize) -> Result<()> {
    match depth > DEPTH_MAX {
        true => Err(too_deep()),
        false => Ok(()),
    }
}

/// PostgreSQL's error of a stack that is used up.
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(state::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("Nest the statement less, or part its chains of operators.")
}
