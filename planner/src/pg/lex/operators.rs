//! Where an operator ends.

use super::Lexer;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

pub(super) fn is_part(c: char) -> bool {
    matches!(
        c,
        '~' | '!' | '@' | '#' | '^' | '&' | '|' | '`' | '?' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '='
    )
}

impl Lexer<'_> {
    /// A comment ends an operator; a `+` or `-` at its end belongs to what follows, unless the operator has a character that
    /// no operator of the SQL standard has.
    pub(super) fn operator(&mut self) -> Token {
        let rest = self.rest();
        let mut run = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        for comment in ["--", "/*"] {
            run = &run[..run.find(comment).unwrap_or(run.len())];
        }
        let own = |run: &str| run.contains(['~', '!', '@', '#', '^', '&', '|', '`', '?', '%']);
        while run.len() > 1 && run.ends_with(['+', '-']) && !own(&run[..run.len() - 1]) {
            run = &run[..run.len() - 1];
        }
        token(self.take(run.len()))
    }
}

fn token(operator: &str) -> Token {
    match operator {
        "=" => Token::Eq,
        "<" => Token::Lt,
        ">" => Token::Gt,
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "%" => Token::Mod,
        "<>" | "!=" => Token::Neq,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "=>" => Token::RArrow,
        "||" => Token::StringConcat,
        other => match Tokenizer::new(&PostgreSqlDialect {}, other).tokenize().as_deref() {
            Ok([known]) => known.clone(),
            _ => Token::CustomBinaryOperator(other.to_string()),
        },
    }
}
