//! Names and texts as SQL writes them.

mod keywords;

use keywords::KEYWORDS;

/// Longest name in bytes; longer ones are cut.
const NAME_BYTES_MAX: usize = 63;

/// What of a text a name keeps.
pub fn cut_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// A name as it must be written: between quotes where it is no plain word, or one that means something else.
pub fn identifier(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match plain && KEYWORDS.binary_search(&text).is_err() {
        true => text.to_string(),
        false => name(text),
    }
}

/// A name between quotes.
pub fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A text between quotes.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{identifier, literal};

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(identifier("line_item2"), "line_item2");
        assert_eq!(identifier("Line\"x"), "\"Line\"\"x\"");
        assert_eq!(identifier("2x"), "\"2x\"");
        assert_eq!(identifier("select"), "\"select\"");
        assert_eq!(identifier("year"), "year");
    }

    #[test]
    fn quotes_in_texts_are_doubled() {
        assert_eq!(literal("it's"), "'it''s'");
    }
}
