//! PostgreSQL's lexical rules: SQL text to the tokens of the parser.
//!
//! The parser's own tokenizer reads operators, numbers and strings otherwise in places: `2>-1` is one operator to it, and
//! `'a'` on two lines are two strings. Here a text is cut as `scan.l` of PostgreSQL cuts it.

pub(crate) mod depth;
mod operators;
mod strings;

use crate::pg::error::{Result, SqlError, state};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Whitespace};
use tenon_storage::quote::cut_name;

/// Cuts a text into tokens. Where strings do not conform to the standard, a backslash escapes in any of them. 54001 where
/// their tree would be deeper than the stacks bear.
pub(crate) fn tokenize(text: &str, conforming: bool) -> Result<Vec<TokenWithSpan>> {
    let mut lexer = Lexer {
        text,
        at: 0,
        place: Location { line: 1, column: 1 },
        conforming,
    };
    let mut tokens = Vec::new();
    loop {
        let start = lexer.place;
        let token = lexer.next()?;
        let end = token == Token::EOF;
        tokens.push(TokenWithSpan::new(token, Span::new(start, lexer.place)));
        if end {
            depth::check(&tokens)?;
            return Ok(tokens);
        }
    }
}

/// Words of other databases that mean nothing to PostgreSQL: names like any other (`SELECT max(x) top FROM t sample`).
const NAMES: [Keyword; 23] = [
    Keyword::ANTI,
    Keyword::ASOF,
    Keyword::CONNECT,
    Keyword::DISTRIBUTE,
    Keyword::DIV,
    Keyword::MATCH_CONDITION,
    Keyword::MATCH_RECOGNIZE,
    Keyword::MEMBER,
    Keyword::MINUS,
    Keyword::OPEN,
    Keyword::OUTPUT,
    Keyword::PIVOT,
    Keyword::PREWHERE,
    Keyword::QUALIFY,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SAMPLE,
    Keyword::SEMI,
    Keyword::SETTINGS,
    Keyword::SORT,
    Keyword::TOP,
    Keyword::UNPIVOT,
    Keyword::XOR,
];

fn word_of(text: &str) -> Token {
    let mut token = Token::make_word(text, None);
    if let Token::Word(word) = &mut token
        && NAMES.contains(&word.keyword)
    {
        word.keyword = Keyword::NoKeyword;
    }
    token
}

struct Lexer<'a> {
    text: &'a str,
    /// The byte of `text` that comes next, and the same as line and column.
    at: usize,
    place: Location,
    conforming: bool,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The byte that many bytes on; 0 past the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Consumes so many bytes.
    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = &self.rest()[..bytes];
        for c in taken.chars() {
            if c == '\n' {
                self.place.line += 1;
                self.place.column = 1;
            } else {
                self.place.column += 1;
            }
        }
        self.at += bytes;
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        self.take(rest.find(|c| !wanted(c)).unwrap_or(rest.len()))
    }

    /// A syntax error about the text from a byte on to where the lexer is.
    fn error(&self, message: &str, from: usize) -> SqlError {
        let position = self.text[..from].chars().count() + 1;
        let message = format!("{message} at or near \"{}\"", &self.text[from..self.at]);
        SqlError::new(state::SYNTAX_ERROR, message).position(position)
    }

    fn next(&mut self) -> Result<Token> {
        let Some(first) = self.rest().chars().next() else {
            return Ok(Token::EOF);
        };
        if self.skip_blank()? {
            return Ok(Token::Whitespace(Whitespace::Space));
        }
        if let Some(string) = self.string()? {
            return Ok(string);
        }
        let one = |lexer: &mut Self, token| {
            lexer.take(1);
            Ok(token)
        };
        match first {
            '0'..='9' => self.number(),
            '.' if self.byte(1).is_ascii_digit() => self.number(),
            '$' if self.byte(1).is_ascii_digit() => self.parameter(),
            c if is_name_start(c) => {
                let word = self.take_while(is_name_part);
                Ok(word_of(cut_name(word)))
            }
            c if operators::is_part(c) => Ok(self.operator()),
            ':' if self.byte(1) == b':' => {
                self.take(2);
                Ok(Token::DoubleColon)
            }
            ':' if self.byte(1) == b'=' => {
                self.take(2);
                Ok(Token::Assignment)
            }
            '.' if self.byte(1) == b'.' => {
                self.take(2);
                Ok(Token::Char('.'))
            }
            ',' => one(self, Token::Comma),
            '(' => one(self, Token::LParen),
            ')' => one(self, Token::RParen),
            '[' => one(self, Token::LBracket),
            ']' => one(self, Token::RBracket),
            '{' => one(self, Token::LBrace),
            '}' => one(self, Token::RBrace),
            '.' => one(self, Token::Period),
            ';' => one(self, Token::SemiColon),
            ':' => one(self, Token::Colon),
            '\\' => one(self, Token::Backslash),
            other => {
                self.take(other.len_utf8());
                Ok(Token::Char(other))
            }
        }
    }

    /// Skips blanks and comments; whether there were any.
    fn skip_blank(&mut self) -> Result<bool> {
        let start = self.at;
        loop {
            let before = self.at;
            self.take_while(is_blank);
            if self.rest().starts_with("--") {
                self.take_while(|c| c != '\n' && c != '\r');
            } else if self.rest().starts_with("/*") {
                self.skip_comment()?;
            }
            if self.at == before {
                return Ok(self.at > start);
            }
        }
    }

    fn skip_comment(&mut self) -> Result<()> {
        let (start, mut depth) = (self.at, 0);
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    self.take(2);
                    depth += 1;
                }
                (b'*', b'/') => {
                    self.take(2);
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => match self.rest().chars().next() {
                    Some(c) => drop(self.take(c.len_utf8())),
                    None => return Err(self.error("unterminated /* comment", start)),
                },
            }
        }
    }

    fn number(&mut self) -> Result<Token> {
        let start = self.at;
        let digit = |c: char| c.is_ascii_digit();
        self.take_while(digit);
        // `1..2` are two integers.
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            self.take(1);
            self.take_while(digit);
        }
        let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
        if matches!(self.byte(0), b'e' | b'E') && self.byte(1 + sign).is_ascii_digit() {
            self.take(1 + sign);
            self.take_while(digit);
        }
        let digits = &self.text[start..self.at];
        self.no_junk("trailing junk after numeric literal", start)?;
        Ok(Token::Number(digits.to_string(), false))
    }

    fn parameter(&mut self) -> Result<Token> {
        let start = self.at;
        self.take(1);
        self.take_while(|c| c.is_ascii_digit());
        let name = &self.text[start..self.at];
        self.no_junk("trailing junk after parameter", start)?;
        Ok(Token::Placeholder(name.to_string()))
    }

    /// Refuses a name right behind a number.
    fn no_junk(&mut self, message: &str, start: usize) -> Result<()> {
        match self.rest().chars().next() {
            Some(c) if is_name_start(c) => {
                self.take(c.len_utf8());
                Err(self.error(message, start))
            }
            _ => Ok(()),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_name_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit() || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let tokens = tokenize(text, true).map(|tokens| {
            let solid = tokens
                .iter()
                .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            solid.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
        });
        tokens.unwrap_or_else(|error| error.message)
    }

    #[test]
    fn operators_end_where_postgres_ends_them() {
        assert_eq!(shown("2>-1"), "2 > - 1");
        assert_eq!(shown("x<>-1--rest"), "x <> - 1");
        assert_eq!(shown("a@-b"), "a @- b");
        assert_eq!(shown("1+/*x*/2"), "1 + 2");
        assert_eq!(shown("a<--b\n c"), "a < c");
    }

    #[test]
    fn numbers() {
        assert_eq!(shown("1..2"), "1 . 2");
        assert_eq!(shown("1.5e-3 .5"), "1.5e-3 .5");
        assert_eq!(
            shown("123abc"),
            "trailing junk after numeric literal at or near \"123a\""
        );
    }

    #[test]
    fn strings() {
        assert_eq!(shown("'a'\n 'b'"), "'ab'");
        assert_eq!(shown("'a' 'b'"), "'a' 'b'");
        assert_eq!(shown(r"E'a\x41\102\u0043\n'"), "'aABC\n'");
        assert_eq!(shown(r"U&'d!0061t' UESCAPE '!'"), "'dat'");
        assert_eq!(shown(r#"U&"d\0061t\+000061""#), "\"data\"");
        assert_eq!(shown("$x$a$$b$x$"), "$x$a$$b$x$");
        assert_eq!(shown("'open"), "unterminated quoted string at or near \"'open\"");
    }
}
