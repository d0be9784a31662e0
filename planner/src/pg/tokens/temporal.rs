//! `RESET TIME ZONE`, and interval literals with digits: `interval(0) '1 day'`.

use super::{is, is_solid, name};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    if let [first, second, third, ..] = solid.as_slice()
        && is(&tokens[*first], &["reset"])
        && is(&tokens[*second], &["time"])
        && is(&tokens[*third], &["zone"])
    {
        tokens[*second] = name("timezone", tokens[*second].span);
        tokens.remove(*third);
        return;
    }
    // From the end, so that earlier places stay.
    for window in solid.windows(5).rev() {
        let [word, open, digits, close, text] = window else {
            continue;
        };
        let literal = is(&tokens[*word], &["interval"])
            && tokens[*open].token == Token::LParen
            && matches!(tokens[*digits].token, Token::Number(..))
            && tokens[*close].token == Token::RParen
            && matches!(tokens[*text].token, Token::SingleQuotedString(_));
        if literal {
            as_cast(tokens, *word, *text);
        }
    }
}

/// The literal between these places as `CAST('1 day' AS interval(0))`.
fn as_cast(tokens: &mut Vec<TokenWithSpan>, word: usize, text: usize) {
    let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
    let Ok(parts) = Tokenizer::new(&dialect, "CAST( AS )").tokenize() else {
        return;
    };
    let span = tokens[word].span;
    let part = |wanted: &str| {
        let found = parts.iter().find(|part| part.to_string().eq_ignore_ascii_case(wanted));
        found.map(|token| TokenWithSpan {
            token: token.clone(),
            span,
        })
    };
    let (Some(cast), Some(open), Some(of), Some(close)) = (part("cast"), part("("), part("as"), part(")")) else {
        return;
    };
    let blank = TokenWithSpan {
        token: Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space),
        span,
    };
    let mut literal = vec![cast, open, tokens[text].clone(), blank.clone(), of, blank];
    literal.extend(tokens[word..text].iter().cloned());
    literal.push(close);
    tokens.splice(word..=text, literal);
}
