//! From a jsonpath's text to its tree.

use super::lex::{Token, syntax, tokens};
use super::{Expr, Method, Operator, Path, PathError, Result, Step};
use crate::json::{Json, number};

/// Deepest nesting of a path, and most operators and steps that it has: each is a level of its tree.
const DEPTH_MAX: usize = 200;
const NODES_MAX: usize = 1_000;

impl Path {
    pub fn parse(text: &str) -> std::result::Result<Path, PathError> {
        if text.trim().is_empty() {
            let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
            return Err(PathError::Hard("22P02", message));
        }
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            nodes: 0,
            filters: 0,
            subscripts: 0,
        };
        let strict = parser.word("strict");
        if !strict {
            parser.word("lax");
        }
        let expr = parser.expr(0)?;
        match parser.peek() {
            Token::End => Ok(Path { strict, expr }),
            _ => parser.unexpected(),
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    nodes: usize,
    /// How many filters and subscripts are open.
    filters: usize,
    subscripts: usize,
}

/// How tightly the operators bind: `!` between 2 and 3, signs above all.
fn binary(token: &Token) -> Option<(u8, Operator)> {
    let Token::Symbol(symbol) = token else { return None };
    Some(match *symbol {
        "||" => (1, Operator::Or),
        "&&" => (2, Operator::And),
        "==" | "=" => (4, Operator::Equal),
        "!=" | "<>" => (4, Operator::NotEqual),
        "<" => (4, Operator::Less),
        "<=" => (4, Operator::LessEqual),
        ">" => (4, Operator::Greater),
        ">=" => (4, Operator::GreaterEqual),
        "+" => (5, Operator::Add),
        "-" => (5, Operator::Subtract),
        "*" => (6, Operator::Multiply),
        "/" => (6, Operator::Divide),
        "%" => (6, Operator::Modulo),
        _ => return None,
    })
}

impl Parser {
    /// One operator or step more.
    fn node(&mut self) -> Result<()> {
        self.nodes += 1;
        match self.nodes > NODES_MAX {
            true => Err(PathError::Hard("54001", "stack depth limit exceeded".into())),
            false => Ok(()),
        }
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn unexpected<T>(&self) -> Result<T> {
        let shown = match self.peek() {
            Token::Word(text) | Token::Text(text) | Token::Number(text) => text.clone(),
            Token::Variable(name) => format!("${name}"),
            Token::Symbol(symbol) => (*symbol).to_string(),
            Token::End => return syntax("syntax error at end of jsonpath input"),
        };
        syntax(format!("syntax error at or near \"{shown}\" of jsonpath input"))
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(own) if *own == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        match self.symbol(symbol) {
            true => Ok(()),
            false => self.unexpected(),
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(own) if own.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn expr(&mut self, least: u8) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(PathError::Hard("54001", "stack depth limit exceeded".into()));
        }
        let mut left = self.unary()?;
        loop {
            if least <= 4 && matches!(self.peek(), Token::Word(_)) {
                if self.word("starts") {
                    self.node()?;
                    if !self.word("with") {
                        return self.unexpected();
                    }
                    let initial = match self.next() {
                        Token::Text(text) => Expr::Literal(Json::String(text)),
                        Token::Variable(name) => Expr::Variable(name),
                        _ => {
                            self.at -= 1;
                            return self.unexpected();
                        }
                    };
                    left = Expr::StartsWith(Box::new(left), Box::new(initial));
                    continue;
                }
                if self.word("like_regex") {
                    self.node()?;
                    left = self.like_regex(left)?;
                    continue;
                }
            }
            let Some((binds, op)) = binary(self.peek()).filter(|(binds, _)| *binds > least) else {
                break;
            };
            self.node()?;
            let operator = self.at;
            self.at += 1;
            // Comparisons do not chain.
            let right = self.expr(binds)?;
            let logical = matches!(op, Operator::And | Operator::Or);
            if left.is_predicate() != logical || right.is_predicate() != logical {
                self.at = operator;
                return self.unexpected();
            }
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn like_regex(&mut self, left: Expr) -> Result<Expr> {
        let Token::Text(pattern) = self.next() else {
            self.at -= 1;
            return self.unexpected();
        };
        let mut flags = String::new();
        if self.word("flag") {
            let Token::Text(given) = self.next() else {
                self.at -= 1;
                return self.unexpected();
            };
            for c in given.chars() {
                if !"ismxq".contains(c) {
                    let message = "invalid input syntax for type jsonpath";
                    let detail = format!("Unrecognized flag character \"{c}\" in LIKE_REGEX predicate.");
                    return Err(PathError::Hard("42601", format!("{message}: {detail}")));
                }
            }
            flags = "ismxq".chars().filter(|c| given.contains(*c)).collect();
        }
        if flags.contains('x') && !flags.contains('q') {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(PathError::Hard("0A000", message.into()));
        }
        Ok(Expr::LikeRegex(Box::new(left), pattern, flags))
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.symbol("!") {
            self.node()?;
            let inner = self.unary()?;
            return match inner.is_predicate() && !matches!(inner, Expr::Not(_)) {
                true => Ok(Expr::Not(Box::new(inner))),
                false => self.unexpected(),
            };
        }
        for (symbol, negative) in [("+", false), ("-", true)] {
            if self.symbol(symbol) {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(PathError::Hard("54001", "stack depth limit exceeded".into()));
                }
                let inner = self.unary()?;
                self.depth -= 1;
                return Ok(match inner {
                    Expr::Literal(Json::Number(digits)) if !negative => Expr::Literal(Json::Number(digits)),
                    Expr::Literal(Json::Number(digits)) => {
                        Expr::Literal(Json::Number(match digits.strip_prefix('-') {
                            Some(positive) => positive.to_owned(),
                            None if digits.bytes().all(|digit| matches!(digit, b'0' | b'.')) => digits,
                            None => format!("-{digits}"),
                        }))
                    }
                    predicate if predicate.is_predicate() => return self.unexpected(),
                    other => Expr::Sign(negative, Box::new(other)),
                });
            }
        }
        let primary = self.primary()?;
        self.steps(primary)
    }

    fn primary(&mut self) -> Result<Expr> {
        let before = self.at;
        Ok(match self.next() {
            Token::Symbol("$") => Expr::Root,
            Token::Symbol("@") if self.filters > 0 => Expr::Current,
            Token::Symbol("@") => return syntax("@ is not allowed in root expressions"),
            Token::Symbol("(") => {
                let inner = self.expr(0)?;
                self.expect(")")?;
                if inner.is_predicate() && self.word("is") {
                    return match self.word("unknown") {
                        true => Ok(Expr::IsUnknown(Box::new(inner))),
                        false => self.unexpected(),
                    };
                }
                inner
            }
            Token::Variable(name) => Expr::Variable(name),
            Token::Text(text) => Expr::Literal(Json::String(text)),
            Token::Number(digits) => {
                let spelled = if digits.starts_with('.') {
                    format!("0{digits}")
                } else {
                    digits
                };
                let plain = number::plain(spelled.trim_end_matches('.'));
                let plain = plain.ok_or_else(|| PathError::Hard("22003", "value overflows numeric format".into()))?;
                Expr::Literal(Json::Number(plain))
            }
            Token::Word(word) => match word.as_str() {
                "true" => Expr::Literal(Json::Bool(true)),
                "false" => Expr::Literal(Json::Bool(false)),
                "null" => Expr::Literal(Json::Null),
                last if last.eq_ignore_ascii_case("last") && self.subscripts > 0 => Expr::Last,
                last if last.eq_ignore_ascii_case("last") => {
                    return syntax("LAST is allowed only in array subscripts");
                }
                exists if exists.eq_ignore_ascii_case("exists") => {
                    self.expect("(")?;
                    let inner = self.expr(0)?;
                    self.expect(")")?;
                    Expr::Exists(Box::new(inner))
                }
                _ => {
                    self.at = before;
                    return self.unexpected();
                }
            },
            _ => {
                self.at = before;
                return self.unexpected();
            }
        })
    }

    fn steps(&mut self, base: Expr) -> Result<Expr> {
        let mut steps = Vec::new();
        loop {
            if matches!(self.peek(), Token::Symbol("?" | "[" | ".")) {
                self.node()?;
            }
            if self.symbol("?") {
                self.expect("(")?;
                self.filters += 1;
                let condition = self.expr(0)?;
                self.filters -= 1;
                if !condition.is_predicate() {
                    return self.unexpected();
                }
                self.expect(")")?;
                steps.push(Step::Filter(condition));
            } else if self.symbol("[") {
                if self.symbol("*") {
                    steps.push(Step::AnyElement);
                } else {
                    self.subscripts += 1;
                    let mut ranges = Vec::new();
                    loop {
                        let from = self.expr(0)?;
                        let upto = if self.word("to") { Some(self.expr(0)?) } else { None };
                        ranges.push((from, upto));
                        if !self.symbol(",") {
                            break;
                        }
                    }
                    self.subscripts -= 1;
                    steps.push(Step::Index(ranges));
                }
                self.expect("]")?;
            } else if self.symbol(".") {
                steps.push(self.accessor()?);
            } else {
                break;
            }
        }
        Ok(match (steps.is_empty(), base) {
            (true, base) => base,
            (false, Expr::Steps(inner, mut own)) => {
                own.extend(steps);
                Expr::Steps(inner, own)
            }
            (false, base) => Expr::Steps(Box::new(base), steps),
        })
    }

    fn accessor(&mut self) -> Result<Step> {
        if self.symbol("**") {
            return self.any_depth();
        }
        if self.symbol("*") {
            return Ok(Step::AnyKey);
        }
        match self.next() {
            Token::Text(key) => Ok(Step::Key(key)),
            Token::Word(word) => {
                if !self.symbol("(") {
                    return Ok(Step::Key(word));
                }
                if word.eq_ignore_ascii_case("datetime") {
                    let template = match self.peek().clone() {
                        Token::Text(template) => {
                            self.at += 1;
                            Some(template)
                        }
                        _ => None,
                    };
                    self.expect(")")?;
                    return Ok(Step::Datetime(template));
                }
                let known = Method::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(&word));
                let Some((_, method)) = known else {
                    self.at -= 1;
                    return self.unexpected();
                };
                self.expect(")")?;
                Ok(Step::Method(*method))
            }
            _ => {
                self.at -= 1;
                self.unexpected()
            }
        }
    }

    fn any_depth(&mut self) -> Result<Step> {
        if !self.symbol("{") {
            return Ok(Step::AnyDepth(Some(0), None));
        }
        let from = self.level()?;
        let upto = if self.word("to") { self.level()? } else { from };
        self.expect("}")?;
        Ok(Step::AnyDepth(from, upto))
    }

    fn level(&mut self) -> Result<Option<u32>> {
        if self.word("last") {
            return Ok(None);
        }
        match self.next() {
            Token::Number(digits) if digits.parse::<u32>().is_ok() => Ok(digits.parse().ok()),
            _ => {
                self.at -= 1;
                self.unexpected()
            }
        }
    }
}
