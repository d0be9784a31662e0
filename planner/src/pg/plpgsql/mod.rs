//! The part of PL/pgSQL that DO runs: blocks with handlers, IF, RAISE, PERFORM, EXECUTE and statements; no variables. And
//! functions that are one expression.
//!
//! More than 400 lines because it is one grammar.

mod conditions;

use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::lex;
use crate::pg::parse::byte_offset;
use conditions::state_of;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// `BEGIN ... [EXCEPTION WHEN ...] END`
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub steps: Vec<Step>,
    pub handlers: Vec<Handler>,
}

#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub conditions: Vec<Condition>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// All but cancellations and failed assertions.
    Others,
    State(String),
}

impl Condition {
    pub(crate) fn covers(&self, of: SqlState) -> bool {
        match self {
            Condition::Others => !matches!(of.0, "57014" | "P0004"),
            // A class's own state stands for the whole class.
            Condition::State(own) if own.ends_with("000") => own[..2] == of.0[..2],
            Condition::State(own) => own == of.0,
        }
    }
}

/// A statement, with the line of the block that it begins on.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub line: u64,
    pub kind: StepKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StepKind {
    Null,
    Return,
    Block(Block),
    /// Conditions with what they are of; what comes where none holds.
    If(Vec<(String, Vec<Step>)>, Vec<Step>),
    Raise(Box<Raise>),
    /// The query behind the word.
    Perform(String),
    /// An expression that gives the statement's text.
    Execute(String),
    Sql(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Raise {
    /// `EXCEPTION`, `WARNING` and so on; None: the error that is handled, once more.
    pub level: Option<&'static str>,
    pub format: Option<String>,
    pub arguments: Vec<String>,
    /// The condition, by its name or SQLSTATE: the name is the message where there is no other.
    pub condition: Option<(String, SqlState)>,
    /// Options and their expressions.
    pub options: Vec<(String, String)>,
}

/// A state that a client has made up. They live as long as the process.
pub(crate) fn made_up(code: &str) -> Result<SqlState> {
    use std::collections::BTreeSet;
    const STATES_MAX: usize = 10_000;
    static STATES: parking_lot::Mutex<BTreeSet<&'static str>> = parking_lot::Mutex::new(BTreeSet::new());
    let is_state = code.len() == 5 && code.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    if !is_state {
        let message = format!("unrecognized exception condition \"{code}\"");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    }
    let mut states = STATES.lock();
    if let Some(known) = states.get(code) {
        return Ok(SqlState(known));
    }
    if states.len() == STATES_MAX {
        return Err(SqlError::new(
            state::PROGRAM_LIMIT_EXCEEDED,
            "too many different SQLSTATEs",
        ));
    }
    let own: &'static str = Box::leak(code.to_string().into_boxed_str());
    states.insert(own);
    Ok(SqlState(own))
}

/// A state by a condition's name, or as it is.
pub(crate) fn named_state(name: &str) -> Result<SqlState> {
    match state_of(name) {
        Some(known) => Ok(known),
        None => made_up(name),
    }
}

const LEVELS: [&str; 6] = ["DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "EXCEPTION"];

/// Nested blocks and IFs, at most.
const DEPTH_MAX: usize = 50;

/// Parses the text of a DO block.
pub(crate) fn parse(text: &str) -> Result<Block> {
    let mut parser = Parser::of(text)?;
    let block = parser.block()?;
    let _ = parser.is_taken(&Token::SemiColon);
    match parser.token() {
        Token::EOF => Ok(block),
        _ => Err(parser.near()),
    }
}

/// The expression that a function returns whose body is `BEGIN RETURN expression; END`.
pub(crate) fn returned(text: &str) -> Option<String> {
    let mut parser = Parser::of(text).ok()?;
    let begins = parser.is_word_taken("begin") && parser.is_word_taken("return");
    if !begins || matches!(parser.word().as_str(), "query" | "next") {
        return None;
    }
    let expression = parser.until(&[], false).ok()?;
    let ends = parser.is_taken(&Token::SemiColon) && parser.is_word_taken("end");
    let _ = ends && parser.is_taken(&Token::SemiColon);
    (ends && parser.token() == &Token::EOF).then_some(expression)
}

fn is_solid(token: &TokenWithSpan) -> bool {
    !matches!(
        token.token,
        Token::Whitespace(
            Whitespace::Space
                | Whitespace::Newline
                | Whitespace::Tab
                | Whitespace::SingleLineComment { .. }
                | Whitespace::MultiLineComment(_)
        )
    )
}

struct Parser<'a> {
    text: &'a str,
    /// The last is the end.
    tokens: Vec<TokenWithSpan>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn of(text: &str) -> Result<Parser<'_>> {
        let tokens = lex::tokenize(text, true)?;
        Ok(Parser {
            text,
            tokens: tokens.into_iter().filter(is_solid).collect(),
            at: 0,
            depth: 0,
        })
    }

    fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].token
    }

    fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// The word at a token, in lower case; empty for what is none.
    fn word_at(&self, at: usize) -> String {
        match self.tokens.get(at).map(|own| &own.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_lowercase(),
            _ => String::new(),
        }
    }

    fn word(&self) -> String {
        self.word_at(self.at)
    }

    fn is_word_taken(&mut self, word: &str) -> bool {
        let is_it = self.word() == word;
        if is_it {
            self.next();
        }
        is_it
    }

    fn is_taken(&mut self, token: &Token) -> bool {
        let is_it = self.token() == token;
        if is_it {
            self.next();
        }
        is_it
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.is_word_taken(word) {
            true => Ok(()),
            false => Err(self.near()),
        }
    }

    fn semicolon(&mut self) -> Result<()> {
        match self.is_taken(&Token::SemiColon) {
            true => Ok(()),
            false => Err(self.near()),
        }
    }

    fn near(&self) -> SqlError {
        let message = match self.token() {
            Token::EOF => "syntax error at end of input".to_string(),
            other => format!("syntax error at or near \"{other}\""),
        };
        SqlError::new(state::SYNTAX_ERROR, message)
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(lex::depth::too_deep());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn block(&mut self) -> Result<Block> {
        if self.word() == "declare" {
            return Err(unsupported("DECLARE"));
        }
        self.expect_word("begin")?;
        let steps = self.steps(&["end", "exception"])?;
        let mut handlers = Vec::new();
        if self.is_word_taken("exception") {
            while self.is_word_taken("when") {
                let mut conditions = vec![self.condition()?];
                while self.is_word_taken("or") {
                    conditions.push(self.condition()?);
                }
                self.expect_word("then")?;
                let steps = self.steps(&["when", "end"])?;
                handlers.push(Handler { conditions, steps });
            }
            if handlers.is_empty() {
                return Err(self.near());
            }
        }
        self.expect_word("end")?;
        Ok(Block { steps, handlers })
    }

    fn condition(&mut self) -> Result<Condition> {
        let word = self.word();
        if word.is_empty() {
            return Err(self.near());
        }
        self.next();
        match word.as_str() {
            "others" => Ok(Condition::Others),
            "sqlstate" => Ok(Condition::State(made_up(&self.string()?)?.0.into())),
            name => match state_of(name) {
                Some(known) => Ok(Condition::State(known.0.into())),
                None => {
                    let message = format!("unrecognized exception condition \"{name}\"");
                    Err(SqlError::new(state::UNDEFINED_OBJECT, message))
                }
            },
        }
    }

    fn string(&mut self) -> Result<String> {
        let text = match self.token() {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
            Token::DollarQuotedString(text) => text.value.clone(),
            _ => return Err(self.near()),
        };
        self.next();
        Ok(text)
    }

    fn steps(&mut self, ends: &[&str]) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        while !ends.contains(&self.word().as_str()) {
            if self.token() == &Token::EOF {
                return Err(self.near());
            }
            steps.push(self.step()?);
        }
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step> {
        let line = self.tokens[self.at].span.start.line;
        let word = self.word();
        let is_sql = matches!(self.tokens.get(self.at + 1).map(|own| &own.token), Some(Token::Period));
        let kind = match word.as_str() {
            _ if is_sql => self.sql()?,
            "null" => {
                self.next();
                self.semicolon()?;
                StepKind::Null
            }
            "return" => {
                self.next();
                self.semicolon()?;
                StepKind::Return
            }
            "begin" | "declare" => {
                let block = self.deeper(Self::block)?;
                self.semicolon()?;
                StepKind::Block(block)
            }
            "if" => self.deeper(Self::branches)?,
            "raise" => {
                self.next();
                StepKind::Raise(Box::new(self.raise()?))
            }
            "perform" => {
                self.next();
                let query = self.until(&[], false)?;
                self.semicolon()?;
                StepKind::Perform(query)
            }
            "execute" => {
                self.next();
                let text = self.until(&["into", "using"], false)?;
                if self.token() != &Token::SemiColon {
                    return Err(unsupported("EXECUTE with INTO or USING"));
                }
                self.next();
                StepKind::Execute(text)
            }
            "loop" | "while" | "for" | "foreach" | "exit" | "continue" | "case" | "get" | "assert" | "open"
            | "move" | "fetch" | "close" | "call" | "commit" | "rollback" => {
                return Err(unsupported(&word.to_uppercase()));
            }
            "" => return Err(self.near()),
            _ => self.sql()?,
        };
        Ok(Step { line, kind })
    }

    fn sql(&mut self) -> Result<StepKind> {
        let next = self.tokens.get(self.at + 1).map(|own| own.token.to_string());
        if matches!(next.as_deref(), Some(":=" | ":" | "=")) {
            let message = format!("\"{}\" is not a known variable", self.word());
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let text = self.until(&[], false)?;
        self.semicolon()?;
        Ok(StepKind::Sql(text))
    }

    fn branches(&mut self) -> Result<StepKind> {
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        self.next();
        loop {
            let condition = self.until(&["then"], false)?;
            self.expect_word("then")?;
            branches.push((condition, self.steps(&["elsif", "elseif", "else", "end"])?));
            if self.is_word_taken("elsif") || self.is_word_taken("elseif") {
                continue;
            }
            if self.is_word_taken("else") {
                otherwise = self.steps(&["end"])?;
            }
            self.expect_word("end")?;
            self.expect_word("if")?;
            self.semicolon()?;
            return Ok(StepKind::If(branches, otherwise));
        }
    }

    fn raise(&mut self) -> Result<Raise> {
        let mut raise = Raise {
            level: Some("EXCEPTION"),
            format: None,
            arguments: Vec::new(),
            condition: None,
            options: Vec::new(),
        };
        if self.is_taken(&Token::SemiColon) {
            raise.level = None;
            return Ok(raise);
        }
        let word = self.word().to_uppercase();
        if let Some(level) = LEVELS.into_iter().find(|own| *own == word) {
            raise.level = Some(level);
            self.next();
        }
        let word = self.word();
        match word.as_str() {
            "using" => {}
            "sqlstate" => {
                self.next();
                let code = self.string()?;
                let state = made_up(&code)?;
                raise.condition = Some((code, state));
            }
            "" => {
                raise.format = Some(self.string()?);
                while self.is_taken(&Token::Comma) {
                    raise.arguments.push(self.until(&["using"], true)?);
                }
                raise.check_arguments()?;
            }
            name => {
                let Some(state) = state_of(name) else {
                    let message = format!("unrecognized exception condition \"{name}\"");
                    return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                };
                raise.condition = Some((name.into(), state));
                self.next();
            }
        }
        if self.is_word_taken("using") {
            loop {
                let name = self.word();
                const OPTIONS: [&str; 9] = [
                    "message",
                    "detail",
                    "hint",
                    "errcode",
                    "column",
                    "constraint",
                    "datatype",
                    "table",
                    "schema",
                ];
                if !OPTIONS.contains(&name.as_str()) {
                    let message = format!("unrecognized RAISE statement option at or near \"{}\"", self.token());
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
                self.next();
                if !self.is_taken(&Token::Eq) && !self.is_taken(&Token::Assignment) {
                    return Err(self.near());
                }
                raise.options.push((name, self.until(&[], true)?));
                if !self.is_taken(&Token::Comma) {
                    break;
                }
            }
        }
        self.semicolon()?;
        Ok(raise)
    }

    /// The text up to a semicolon, one of the words, or a comma, that stands in no parentheses; as in PostgreSQL, THEN of a
    /// CASE is one of the words too.
    fn until(&mut self, words: &[&str], comma: bool) -> Result<String> {
        let mut depth = 0_usize;
        let first = self.at;
        loop {
            let word = self.word();
            match self.token() {
                Token::EOF => return Err(self.near()),
                Token::SemiColon => break,
                Token::Comma if comma && depth == 0 => break,
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ if depth == 0 && words.contains(&word.as_str()) => break,
                _ => {}
            }
            self.next();
        }
        if self.at == first {
            return Err(self.near());
        }
        let start = byte_offset(self.text, self.tokens[first].span.start);
        let end = byte_offset(self.text, self.tokens[self.at - 1].span.end);
        Ok(self.text[start..end].to_string())
    }
}

impl Raise {
    /// A place of the format for each argument.
    fn check_arguments(&self) -> Result<()> {
        let places = self.format.as_ref().map_or(0, |format| pieces(format).1);
        let message = match places.cmp(&self.arguments.len()) {
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Less => "too many parameters specified for RAISE",
            std::cmp::Ordering::Greater => "too few parameters specified for RAISE",
        };
        Err(SqlError::new(state::SYNTAX_ERROR, message))
    }

    /// The format with values in its places.
    pub(crate) fn formatted(format: &str, values: &[Option<String>]) -> String {
        let (pieces, _) = pieces(format);
        let mut values = values.iter();
        let shown = pieces.into_iter().map(|piece| match piece {
            Some(text) => text,
            None => values.next().cloned().flatten().unwrap_or_else(|| "<NULL>".into()),
        });
        shown.collect()
    }
}

/// A format's texts and, as None, its places; how many of those there are.
fn pieces(format: &str) -> (Vec<Option<String>>, usize) {
    let (mut pieces, mut places) = (Vec::new(), 0);
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '%' if rest.peek() == Some(&'%') => {
                rest.next();
                text.push('%');
            }
            '%' => {
                pieces.push(Some(std::mem::take(&mut text)));
                pieces.push(None);
                places += 1;
            }
            other => text.push(other),
        }
    }
    pieces.push(Some(text));
    (pieces, places)
}

fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} in a DO block"))
}
