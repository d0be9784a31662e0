//! Letters in upper and in lower case as PostgreSQL has them from the system: one letter for each. DataFusion's functions know
//! those of Unicode that become several.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use std::sync::Arc;

/// A letter's upper case, where that is one letter.
pub(super) fn upper(c: char) -> char {
    match c {
        // Their titles stand alone, what Unicode makes of them in full does not.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            char::from_u32(c as u32 + 8).unwrap_or(c)
        }
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
        _ => only(c.to_uppercase(), c),
    }
}

/// A letter's lower case; that of the dotted I has two in full.
pub(super) fn lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        _ => only(c.to_lowercase(), c),
    }
}

fn only(mut letters: impl Iterator<Item = char>, otherwise: char) -> char {
    match (letters.next(), letters.next()) {
        (Some(one), None) => one,
        _ => otherwise,
    }
}

/// The texts of an array in one case; None where they are ASCII, which is all the same to those of DataFusion.
pub(crate) fn converted(texts: &ArrayRef, to_upper: bool) -> Option<ArrayRef> {
    if texts.data_type() != &DataType::Utf8View {
        return None;
    }
    let texts = texts.as_string_view();
    if texts.is_ascii() {
        return None;
    }
    let convert = |text: &str| -> String {
        match to_upper {
            true => text.chars().map(upper).collect(),
            false => text.chars().map(lower).collect(),
        }
    };
    let made: StringViewArray = texts.iter().map(|text| text.map(convert)).collect();
    Some(Arc::new(made))
}
