//! How long the results of functions are that make more than they are given.

use super::arguments::{Lengths, Numbers, text};
use super::check_value;
use crate::pg::functions::array::FILL;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use memchr::memmem;

/// Bytes of a character, at most.
const CHARACTER_BYTES: u64 = 4;
/// What an element of an array takes beside its text.
const ELEMENT_BYTES: u64 = 16;
/// What a character of a pattern takes.
const PATTERN_BYTES: u64 = 64;
/// Of a bound longer than this the exact length is worth its price.
const EXACT_FROM_BYTES: u64 = 1 << 20;

/// How a function's result grows with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// No longer than all its arguments together, up to a factor.
    Plain,
    /// `repeat`.
    Repeat,
    /// `lpad`, `rpad`.
    Pad,
    /// `replace`: each piece found becomes another.
    Replace,
    /// `regexp_replace`: each match becomes a text that may hold the match. The function looks as it goes on.
    Matches,
    /// `format`: widths are in its text.
    Format,
    /// A text becomes an array of pieces.
    Pieces,
    /// `generate_series` as an array: from, to, step.
    Series,
    /// `array_repeat`: an element and how often.
    Elements,
    /// `array_resize`: an array and its new length.
    Slots,
    /// `array_fill`: an element, and the length of each dimension.
    Fill,
    /// `to_char` and the like: a pattern that is taken apart.
    Pattern,
    /// Texts put together.
    Joined,
    /// `array_to_string`: an array, and what comes between its elements.
    Separated,
}

impl Growth {
    pub fn of(function: &str) -> Self {
        match function {
            "repeat" => Self::Repeat,
            "lpad" | "rpad" => Self::Pad,
            "replace" => Self::Replace,
            "regexp_replace" => Self::Matches,
            "format" => Self::Format,
            "string_to_array"
            | "string_to_list"
            | "string_to_table"
            | "regexp_split_to_array"
            | "regexp_split_to_table" => Self::Pieces,
            "generate_series" | "gen_series" | "range" => Self::Series,
            "array_repeat" | "list_repeat" => Self::Elements,
            "array_resize" | "list_resize" => Self::Slots,
            FILL => Self::Fill,
            "to_char" | "to_number" | "to_date" | "to_timestamp" => Self::Pattern,
            "textcat" | "concat" | "concat_ws" => Self::Joined,
            "array_to_string" | "list_to_string" | "array_join" => Self::Separated,
            _ => Self::Plain,
        }
    }

    /// Bytes to ask for before a call whose arguments and result take `bytes` at most.
    pub fn asked(self, bytes: u64, result: &DataType) -> u64 {
        match self {
            // Few texts match at each character.
            Self::Matches => 0,
            // Nothing grows in a number, and nothing is written anew in an array.
            Self::Plain if result.is_primitive() || *result == DataType::Boolean => bytes / CHARACTER_BYTES / 2,
            Self::Plain if result.is_nested() => bytes / CHARACTER_BYTES,
            _ => bytes,
        }
    }
}

/// The arguments of a call, as far as they tell its result's length.
pub(super) struct Sizes<'a> {
    growth: Growth,
    arguments: &'a [ColumnarValue],
    lengths: Vec<Lengths>,
    numbers: Vec<Numbers>,
}

impl<'a> Sizes<'a> {
    pub fn new(growth: Growth, arguments: &'a [ColumnarValue]) -> Self {
        Self {
            growth,
            arguments,
            lengths: arguments.iter().map(Lengths::of).collect(),
            numbers: match growth {
                Growth::Repeat
                | Growth::Pad
                | Growth::Format
                | Growth::Series
                | Growth::Elements
                | Growth::Slots
                | Growth::Fill => arguments.iter().map(Numbers::of).collect(),
                _ => Vec::new(),
            },
        }
    }

    fn length(&self, argument: usize, row: usize) -> u64 {
        self.lengths.get(argument).map_or(0, |lengths| lengths.at(row))
    }

    fn number(&self, argument: usize, row: usize) -> Option<i64> {
        self.numbers.get(argument).and_then(|numbers| numbers.at(row))
    }

    fn count(&self, argument: usize, row: usize) -> u64 {
        self.number(argument, row).unwrap_or(0).max(0) as u64
    }

    fn text(&self, argument: usize, row: usize) -> std::borrow::Cow<'_, str> {
        let value = self.arguments.get(argument);
        value.and_then(|value| text(value, row)).unwrap_or_default()
    }

    /// Bytes that the row takes to work on and to keep, at most. Fails where its value would be too long.
    pub fn row(&self, row: usize) -> Result<u64> {
        let given: u64 = (0..self.lengths.len()).map(|argument| self.length(argument, row)).sum();
        let made = match self.growth {
            // Some characters are longer in the other case.
            Growth::Plain => return Ok(given.saturating_mul(CHARACTER_BYTES)),
            Growth::Repeat => {
                let bytes = self.length(0, row).saturating_mul(self.count(1, row));
                check_value(bytes)?;
                bytes
            }
            Growth::Pad => {
                let characters = self.count(1, row);
                // As PostgreSQL, which takes all characters for long ones.
                check_value(characters.saturating_mul(CHARACTER_BYTES))?;
                match self.text(0, row).is_ascii() && self.text(2, row).is_ascii() {
                    true => characters,
                    false => characters * CHARACTER_BYTES,
                }
            }
            Growth::Replace => self.replaced(row, given)?,
            Growth::Matches => self.matched(row, given),
            Growth::Format => self.formatted(row, given)?,
            Growth::Pieces => given.saturating_mul(1 + ELEMENT_BYTES / 2),
            Growth::Series => self.series(row),
            Growth::Elements => {
                let element = self.length(0, row).max(ELEMENT_BYTES);
                element.saturating_mul(self.count(1, row))
            }
            Growth::Slots => self.count(1, row).saturating_mul(ELEMENT_BYTES),
            Growth::Fill => {
                let dimensions = (1..self.lengths.len()).map(|argument| self.count(argument, row));
                let elements = dimensions.fold(1, u64::saturating_mul);
                self.length(0, row).max(ELEMENT_BYTES).saturating_mul(elements)
            }
            Growth::Pattern => self.length(1, row).saturating_mul(PATTERN_BYTES),
            Growth::Joined => {
                // Of `concat_ws`, the first comes between the others; of the rest, once.
                let between = self.length(0, row).saturating_mul(self.lengths.len() as u64);
                let bytes = if given > between { given } else { between };
                check_value(given)?;
                bytes
            }
            Growth::Separated => {
                let elements = given / 8 + 1;
                elements.saturating_mul(self.length(1, row)).saturating_add(given)
            }
        };
        Ok(made.saturating_add(given))
    }

    fn replaced(&self, row: usize, given: u64) -> Result<u64> {
        let (text, from, to) = (self.length(0, row), self.length(1, row), self.length(2, row));
        if to <= from || from == 0 {
            return Ok(given);
        }
        let mut bytes = text + text / from * (to - from);
        if bytes > EXACT_FROM_BYTES {
            let (text, from) = (self.text(0, row), self.text(1, row));
            let found = memmem::find_iter(text.as_bytes(), from.as_bytes()).count() as u64;
            bytes = text.len() as u64 + found * (to - from.len() as u64);
        }
        check_value(bytes)?;
        Ok(bytes)
    }

    /// Matches are not sought here: at most one a character, and the text as a whole for each reference to a match.
    fn matched(&self, row: usize, given: u64) -> u64 {
        let (text, to) = (self.length(0, row), self.length(2, row));
        let global = (3..self.arguments.len()).any(|argument| self.text(argument, row).contains('g'));
        let references = self.text(2, row).matches('\\').count() as u64;
        let matches = if global { text + 1 } else { 1 };
        matches
            .saturating_mul(to)
            .saturating_add(text.saturating_mul(references))
            .saturating_add(given)
    }

    fn formatted(&self, row: usize, given: u64) -> Result<u64> {
        let text = self.text(0, row);
        let mut widths = 0u64;
        for part in text.split('%').skip(1) {
            let digits: String = part
                .chars()
                .skip_while(|c| *c == '-')
                .take_while(char::is_ascii_digit)
                .collect();
            widths = widths.saturating_add(digits.parse().unwrap_or(0));
            if part.trim_start_matches('-').starts_with('*') {
                let largest = (1..self.numbers.len()).map(|argument| {
                    // Arguments come as texts, too.
                    let width = self.number(argument, row);
                    let width = width.or_else(|| self.text(argument, row).trim().parse().ok());
                    width.unwrap_or(0).unsigned_abs()
                });
                widths = widths.saturating_add(largest.max().unwrap_or(0));
            }
        }
        // An argument may be shown by each place.
        let shown = given.saturating_mul(text.matches('%').count().max(1) as u64);
        check_value(widths)?;
        Ok(widths.saturating_add(shown))
    }

    fn series(&self, row: usize) -> u64 {
        let (first, last) = match self.numbers.len() {
            1 => (Some(0), self.number(0, row)),
            _ => (self.number(0, row), self.number(1, row)),
        };
        let step = self.number(2, row).unwrap_or(1).unsigned_abs().max(1);
        match (first, last) {
            (Some(first), Some(last)) => (first.abs_diff(last) / step).saturating_add(1).saturating_mul(8),
            _ => 0,
        }
    }
}
