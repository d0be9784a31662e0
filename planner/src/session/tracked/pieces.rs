//! A text's tokens and where they stand, as far as it must be known to tell constants from what is around them.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token {
    /// A word that no quotes are around.
    Word,
    Quoted,
    Number,
    /// With whatever stands before its quote.
    Literal,
    /// `$1`.
    Parameter,
    /// An operator, or one of `( ) [ ] , ; . :`.
    Sign,
}

/// A token's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// Whether a token is one of these words or signs.
pub(super) fn is(sql: &str, piece: Option<&Piece>, words: &[&str]) -> bool {
    piece.is_some_and(|piece| {
        let text = &sql[piece.start..piece.end];
        matches!(piece.token, Token::Word | Token::Sign) && words.iter().any(|word| text.eq_ignore_ascii_case(word))
    })
}

pub(super) fn before(pieces: &[Piece], at: usize) -> Option<&Piece> {
    at.checked_sub(1).and_then(|at| pieces.get(at))
}

/// The tokens of a text. What does not end goes on to the text's end.
pub(super) fn pieces(sql: &str) -> Vec<Piece> {
    let bytes = sql.as_bytes();
    let mut pieces = vec![];
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let rest = &sql[at..];
        let token = match bytes[at] {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'-' if rest.starts_with("--") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") => {
                at = end_of_comment(bytes, at);
                continue;
            }
            b'\'' => {
                at = end_of_quoted(bytes, at, b'\'', false);
                Token::Literal
            }
            b'"' => {
                at = end_of_quoted(bytes, at, b'"', false);
                Token::Quoted
            }
            b'$' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                at += 1 + bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                Token::Parameter
            }
            b'$' => match end_of_dollars(sql, at) {
                Some(end) => {
                    at = end;
                    Token::Literal
                }
                None => {
                    at += 1;
                    Token::Sign
                }
            },
            b'0'..=b'9' => {
                at = end_of_number(bytes, at);
                Token::Number
            }
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                at = end_of_number(bytes, at);
                Token::Number
            }
            b if b.is_ascii_alphabetic() || b == b'_' || !b.is_ascii() => {
                at += bytes[at..].iter().take_while(|byte| is_of_word(**byte)).count();
                // E'...', B'...', X'...', N'...' and U&'...'.
                let word = &sql[start..at];
                let of_literal = ["e", "b", "x", "n"]
                    .iter()
                    .any(|prefix| word.eq_ignore_ascii_case(prefix));
                match &bytes[at..] {
                    [b'\'', ..] if of_literal => {
                        at = end_of_quoted(bytes, at, b'\'', word.eq_ignore_ascii_case("e"));
                        Token::Literal
                    }
                    [b'&', b'\'', ..] if word.eq_ignore_ascii_case("u") => {
                        at = end_of_quoted(bytes, at + 1, b'\'', false);
                        Token::Literal
                    }
                    _ => Token::Word,
                }
            }
            b':' if rest.starts_with("::") => {
                at += 2;
                Token::Sign
            }
            b if is_operator(b) => {
                at += 1;
                while at < bytes.len()
                    && is_operator(bytes[at])
                    && !sql[at..].starts_with("--")
                    && !sql[at..].starts_with("/*")
                    // A sign after an operator: `=-1`.
                    && bytes[at] != b'-'
                {
                    at += 1;
                }
                Token::Sign
            }
            _ => {
                at += 1;
                Token::Sign
            }
        };
        pieces.push(Piece { token, start, end: at });
    }
    pieces
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn is_operator(byte: u8) -> bool {
    b"=<>!+-*/%|^~@#&`?".contains(&byte)
}

/// Behind a comment, with those in it.
fn end_of_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Behind the quote that ends what begins at `start`; a quote that stands twice is one of the text.
fn end_of_quoted(bytes: &[u8], start: usize, quote: u8, escapes: bool) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    bytes.len()
}

/// Behind `$tag$ ... $tag$`.
fn end_of_dollars(sql: &str, start: usize) -> Option<usize> {
    let length = sql[start + 1..].find('$')?;
    let tag = &sql[start..start + length + 2];
    let named = tag[1..tag.len() - 1]
        .bytes()
        .all(|byte| is_of_word(byte) && byte != b'$');
    if !named {
        return None;
    }
    let inner = start + tag.len();
    Some(sql[inner..].find(tag).map_or(sql.len(), |end| inner + end + tag.len()))
}

/// Behind a number, with its point and exponent, or its hexadecimal digits.
fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let of_number = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_';
    let mut at = start;
    while at < bytes.len() {
        let exponent = at > start && bytes[at - 1].eq_ignore_ascii_case(&b'e') && matches!(bytes[at], b'+' | b'-');
        if !(of_number(bytes[at]) || exponent) {
            break;
        }
        at += 1;
    }
    at
}
