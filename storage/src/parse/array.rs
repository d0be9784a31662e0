//! Arrays as text, `{1,NULL,"a b"}` and `{{1,2},{3,4}}`, and in their binary form.
//!
//! More than 400 lines because texts and the binary form give the same dimensions, checked alike.

use super::column::{FieldError, parse_column};
use super::wire::{decode_column, malformed, next_value, next_word};
use crate::array_type::ArrayType;
use crate::error::{ErrorKind, Result, StorageError};
use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use std::fmt::Write;
use std::sync::Arc;

/// Most dimensions that an array has.
pub const DIMENSIONS_MAX: usize = 6;

/// An array literal: the size of each dimension, none where it is empty, and its items in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArrayText {
    pub sizes: Vec<usize>,
    /// None for NULL.
    pub items: Vec<Option<String>>,
}

/// Reads an array literal.
///
/// # Errors
/// 22P02 for what is none, with sub-arrays of different sizes too; 0A000 where a dimension begins at another number
/// than 1.
pub fn parse_array(text: &str) -> Result<ArrayText> {
    let bad = |detail: &str| {
        let message = format!("malformed array literal: \"{text}\"");
        StorageError::new(ErrorKind::InvalidText, message).detail(detail.to_string())
    };
    let blank = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    let mut body = text.trim_matches(blank);
    let mut declared = None;
    if body.starts_with('[') {
        let (bounds, rest) = body
            .split_once('=')
            .ok_or_else(|| bad("Missing \"=\" after array dimensions."))?;
        let sizes = declared_sizes(bounds.trim_end_matches(blank));
        declared = Some(sizes.ok_or_else(|| bad("\"[\" must introduce explicitly-specified array dimensions."))??);
        body = rest.trim_start_matches(blank);
    }
    if !body.starts_with('{') {
        return Err(bad("Array value must start with \"{\" or dimension information."));
    }
    let mut reader = Reader {
        rest: body,
        out: ArrayText::default(),
        depth_of_items: None,
    };
    let empty = reader.level(0).map_err(&bad)?;
    if !reader.rest.trim_start_matches(blank).is_empty() {
        return Err(bad("Junk after closing right brace."));
    }
    if reader.out.sizes.len() > DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
            reader.out.sizes.len()
        );
        return Err(StorageError::new(ErrorKind::ProgramLimit, message));
    }
    if empty {
        reader.out.sizes.clear();
    }
    match declared {
        Some(sizes) if sizes != reader.out.sizes => Err(bad("Specified array dimensions do not match array contents.")),
        _ => Ok(reader.out),
    }
}

/// The sizes that `[1:2][1:3]` declares; None where it is malformed.
fn declared_sizes(mut text: &str) -> Option<Result<Vec<usize>>> {
    let mut sizes = Vec::new();
    while !text.is_empty() {
        let (bounds, rest) = text.strip_prefix('[')?.split_once(']')?;
        let (lower, upper) = bounds.split_once(':').unwrap_or(("1", bounds));
        let (lower, upper): (i32, i32) = (lower.trim().parse().ok()?, upper.trim().parse().ok()?);
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Some(Err(StorageError::new(ErrorKind::ArraySubscript, message)));
        }
        if lower != 1 {
            let message = "arrays whose subscripts do not begin at 1 are not supported";
            return Some(Err(StorageError::new(ErrorKind::Unsupported, message)));
        }
        sizes.push(upper as usize);
        text = rest.trim_start();
    }
    Some(Ok(sizes))
}

struct Reader<'a> {
    rest: &'a str,
    out: ArrayText,
    /// How many braces are open around the items, once one has been seen.
    depth_of_items: Option<usize>,
}

const UNEVEN: &str = "Multidimensional arrays must have sub-arrays with matching dimensions.";

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    }

    /// One pair of braces. Tells whether it holds no item.
    fn level(&mut self, depth: usize) -> Result<bool, &'static str> {
        if depth > 64 {
            return Err("Too many dimensions.");
        }
        self.rest = &self.rest[1..];
        let first = self.out.sizes.len() == depth;
        if first {
            self.out.sizes.push(0);
        }
        let (mut count, mut empty) = (0_usize, true);
        self.blanks();
        if let Some(rest) = self.rest.strip_prefix('}') {
            self.rest = rest;
            return match depth {
                0 => Ok(true),
                _ => Err("Unexpected \"}\" character."),
            };
        }
        loop {
            self.blanks();
            if self.rest.starts_with('{') {
                if self.depth_of_items.is_some_and(|own| own <= depth + 1) {
                    return Err(UNEVEN);
                }
                empty &= self.level(depth + 1)?;
            } else {
                if *self.depth_of_items.get_or_insert(depth + 1) != depth + 1 || self.out.sizes.len() > depth + 1 {
                    return Err(UNEVEN);
                }
                let item = self.item()?;
                self.out.items.push(item);
                empty = false;
            }
            count += 1;
            self.blanks();
            if let Some(rest) = self.rest.strip_prefix(',') {
                self.rest = rest;
                continue;
            }
            let Some(rest) = self.rest.strip_prefix('}') else {
                return Err(match self.rest.is_empty() {
                    true => "Unexpected end of input.",
                    false => "Unexpected array element.",
                });
            };
            self.rest = rest;
            break;
        }
        if first {
            self.out.sizes[depth] = count;
        }
        match self.out.sizes[depth] == count {
            true => Ok(empty),
            false => Err(UNEVEN),
        }
    }

    fn item(&mut self) -> Result<Option<String>, &'static str> {
        let quoted = self.rest.starts_with('"');
        let (mut item, mut escaped) = (String::new(), false);
        // Blanks at the end are no part of a bare item, unless they are escaped.
        let mut kept = 0;
        let mut characters = self.rest[usize::from(quoted)..].char_indices();
        let end = loop {
            let Some((at, c)) = characters.next() else {
                return Err("Unexpected end of input.");
            };
            match c {
                '\\' => {
                    item.push(characters.next().ok_or("Unexpected end of input.")?.1);
                    (escaped, kept) = (true, item.len());
                }
                '"' if quoted => break at + 2,
                ',' | '}' if !quoted => break at,
                '{' if !quoted => return Err("Unexpected \"{\" character."),
                '"' => return Err("Unexpected array element."),
                c => {
                    item.push(c);
                    if !(c.is_ascii_whitespace() || c == '\u{b}') {
                        kept = item.len();
                    }
                }
            }
        };
        self.rest = &self.rest[end..];
        if quoted {
            return Ok(Some(item));
        }
        item.truncate(kept);
        match item.is_empty() && !escaped {
            true => Err("Unexpected \",\" or \"}\" character."),
            false if item.eq_ignore_ascii_case("null") && !escaped => Ok(None),
            false => Ok(Some(item)),
        }
    }
}

/// Makes lists of values that stand in order: `sizes` gives for each row those of its dimensions, none where it is
/// empty. Every row that is not empty has `dimensions` of them.
pub fn nested_offsets(
    values: ArrayRef,
    item: &DataType,
    sizes: &[Vec<usize>],
    dimensions: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let mut inner = values;
    let mut inner_type = item.clone();
    for level in (0..dimensions).rev() {
        let lengths = sizes.iter().flat_map(|sizes| match (level, sizes.is_empty()) {
            (0, true) => vec![0],
            (_, true) => Vec::new(),
            _ => vec![sizes[level]; sizes[..level].iter().product()],
        });
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        let field = Arc::new(Field::new("item", inner_type, true));
        inner_type = DataType::List(field.clone());
        let nulls = if level == 0 { nulls.clone() } else { None };
        inner = Arc::new(ListArray::try_new(field, offsets, inner, nulls)?);
    }
    Ok(inner)
}

/// 0A000 for an array of other dimensions than its type declares.
fn check_dimensions(of: ArrayType, sizes: &[usize]) -> Result<()> {
    if sizes.is_empty() || sizes.len() == of.dimensions() {
        return Ok(());
    }
    let message = format!(
        "an array of {} dimensions as a value of type {of} is not supported",
        sizes.len()
    );
    Err(StorageError::new(ErrorKind::Unsupported, message)
        .hint("Declare as many pairs of brackets as there are dimensions."))
}

/// The row that an item stands in.
fn row_of(item: usize, ends: &[usize]) -> usize {
    ends.partition_point(|end| *end <= item)
}

pub(super) fn parse_arrays<'a>(
    of: ArrayType,
    fields: impl ExactSizeIterator<Item = Option<&'a str>>,
) -> Result<ArrayRef, FieldError> {
    let (mut items, mut sizes, mut ends, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (row, field) in fields.enumerate() {
        valid.push(field.is_some());
        let read = match field {
            Some(text) => parse_array(text).map_err(|error| (row, error))?,
            None => ArrayText::default(),
        };
        check_dimensions(of, &read.sizes).map_err(|error| (row, error))?;
        items.extend(read.items);
        sizes.push(read.sizes);
        ends.push(items.len());
    }
    let values = parse_column(of.element(), items.iter().map(Option::as_deref));
    let values = values.map_err(|(item, error)| (row_of(item, &ends), error))?;
    finish(of, values, &sizes, valid)
}

fn finish(of: ArrayType, values: ArrayRef, sizes: &[Vec<usize>], valid: Vec<bool>) -> Result<ArrayRef, FieldError> {
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    let item = of.element().data_type();
    nested_offsets(values, &item, sizes, of.dimensions(), nulls).map_err(|error| (0, error))
}

/// `array_recv`: dimensions, whether there are NULLs, the element's oid; a size and a lower bound each; the items.
pub(super) fn decode_arrays<'a>(
    of: ArrayType,
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef, FieldError> {
    let (mut items, mut sizes, mut ends, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (row, field) in fields.enumerate() {
        valid.push(field.is_some());
        let own = match field {
            Some(bytes) => binary_items(of, bytes, &mut items).map_err(|error| (row, error))?,
            None => Vec::new(),
        };
        check_dimensions(of, &own).map_err(|error| (row, error))?;
        sizes.push(own);
        ends.push(items.len());
    }
    let values = decode_column(of.element(), items.into_iter());
    let values = values.map_err(|(item, error)| (row_of(item, &ends), error))?;
    finish(of, values, &sizes, valid)
}

fn binary_items<'a>(of: ArrayType, bytes: &'a [u8], items: &mut Vec<Option<&'a [u8]>>) -> Result<Vec<usize>> {
    let mut rest = bytes;
    let (dimensions, _, element) = (
        next_word(&mut rest)?,
        next_word(&mut rest)?,
        next_word(&mut rest)? as u32,
    );
    if element != of.element().oid() {
        let message = format!(
            "binary data has array element type {element} where {} is expected",
            of.element().oid()
        );
        return Err(StorageError::new(ErrorKind::DatatypeMismatch, message));
    }
    let dimensions = usize::try_from(dimensions)
        .ok()
        .filter(|count| *count <= DIMENSIONS_MAX);
    let (mut sizes, mut count) = (Vec::new(), 1_usize);
    for _ in 0..dimensions.ok_or_else(malformed)? {
        let (size, lower) = (next_word(&mut rest)?, next_word(&mut rest)?);
        if lower != 1 {
            let message = "arrays whose subscripts do not begin at 1 are not supported";
            return Err(StorageError::new(ErrorKind::Unsupported, message));
        }
        let size = usize::try_from(size).map_err(|_| malformed())?;
        count = count.checked_mul(size).ok_or_else(malformed)?;
        sizes.push(size);
    }
    if sizes.is_empty() || count == 0 {
        return if rest.is_empty() {
            Ok(Vec::new())
        } else {
            Err(malformed())
        };
    }
    for _ in 0..count {
        items.push(next_value(&mut rest)?);
    }
    if rest.is_empty() { Ok(sizes) } else { Err(malformed()) }
}

/// Writes items as `array_out` does: quoted where they would be read otherwise.
pub fn write_array<'a>(items: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
    out.push('{');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        let Some(item) = item else {
            out.push_str("NULL");
            continue;
        };
        let special = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || "{},\"\\".contains(c);
        if !item.is_empty() && !item.contains(special) && !item.eq_ignore_ascii_case("null") {
            out.push_str(item);
            continue;
        }
        out.push('"');
        for c in item.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            let _ = out.write_char(c);
        }
        out.push('"');
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back() {
        let items = [Some("1"), None, Some(""), Some("a b"), Some("NULL"), Some("q\"\\{}")];
        let mut text = String::new();
        write_array(items.into_iter(), &mut text);
        assert_eq!(text, r#"{1,NULL,"","a b","NULL","q\"\\{}"}"#);
        let back = parse_array(&text).unwrap();
        assert_eq!(back.items.iter().map(Option::as_deref).collect::<Vec<_>>(), items);
        let mixed = parse_array(r#"{"a,b", c\,d ,"x\"y","NULL"}"#).unwrap();
        assert_eq!(
            mixed.items,
            ["a,b", "c,d", "x\"y", "NULL"].map(|item| Some(item.to_owned()))
        );
        assert!(parse_array("{1,").is_err());
        assert!(parse_array("1").is_err());
        assert_eq!(parse_array(" { } ").unwrap(), ArrayText::default());
    }

    #[test]
    fn dimensions() {
        assert_eq!(parse_array("{{1,2},{3,4},{5,6}}").unwrap().sizes, [3, 2]);
        assert_eq!(parse_array("[1:2]={7,8}").unwrap().sizes, [2]);
        for bad in [
            "{{},{}}",
            "{{1,2},{3}}",
            "{1,{2}}",
            "{{1},2}",
            "{{1,2},\\{2,3}}",
            "{{\"1 2\" x},{3}}",
            "{}}",
            "{ }}",
            "[1:3]={1}",
        ] {
            assert_eq!(parse_array(bad).unwrap_err().kind, ErrorKind::InvalidText, "{bad}");
        }
        assert_eq!(parse_array("[0:1]={1,2}").unwrap_err().kind, ErrorKind::Unsupported);
    }
}
