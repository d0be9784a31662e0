//! The regexp functions.

use super::replace::{each_match, replace};
use super::similar::{escape_char, similar_to_regex};
use super::{Flags, Spans, compiled};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::row::Kind::{Bool, Int4, Padded, Rows, Text, Texts};
use crate::pg::functions::row::{Body, Kind, Out, Overload, Value, int, of, row_function, text};
use datafusion::logical_expr::ScalarUDF;

/// Flags of a function that may not be told to take all matches, unless it does so anyway.
fn flags(values: &[Value], at: usize, name: &str) -> Result<Flags> {
    let flags = Flags::parse(text(values, at))?;
    if !flags.global {
        return Ok(flags);
    }
    let message = format!("{name} does not support the \"global\" option");
    let told = SqlError::new(state::INVALID_PARAMETER_VALUE, message);
    Err(match name {
        "regexp_match()" => told.hint("Use the regexp_matches function instead."),
        _ => told,
    })
}

/// An argument that must be at least `least`.
fn bounded(values: &[Value], at: usize, name: &str, least: i64) -> Result<usize> {
    let value = int(values, at, least.max(1));
    usize::try_from(value).ok().filter(|_| value >= least).ok_or_else(|| {
        let message = format!("invalid value for parameter \"{name}\": {value}");
        SqlError::new(state::INVALID_PARAMETER_VALUE, message)
    })
}

/// The byte of a character counted from 1; None behind the end.
fn offset(text: &str, start: usize) -> Option<usize> {
    let mut bytes = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    bytes.nth(start - 1)
}

fn group(text: &str, span: Option<(usize, usize)>) -> Option<String> {
    span.map(|(start, end)| text[start..end].to_string())
}

/// What a match gives: its groups, or all of it where there are none.
fn groups(text: &str, found: &Spans) -> Vec<Option<String>> {
    let spans = if found.len() > 1 { &found[1..] } else { &found[..] };
    spans.iter().map(|span| group(text, *span)).collect()
}

fn regexp_match(values: &[Value]) -> Result<Out> {
    let flags = flags(values, 2, "regexp_match()")?;
    let subject = text(values, 0);
    let found = compiled(text(values, 1), flags)?.find(subject, 0)?;
    Ok(found.map_or(Out::Null, |found| Out::Texts(groups(subject, &found))))
}

fn all_matches(values: &[Value]) -> Result<Out> {
    let flags = Flags::parse(text(values, 2))?;
    let (subject, mut rows) = (text(values, 0), Vec::new());
    each_match(&*compiled(text(values, 1), flags)?, subject, 0, |found| {
        rows.push(groups(subject, &found));
        Ok(flags.global)
    })?;
    Ok(Out::Rows(rows))
}

fn split(values: &[Value], name: &str) -> Result<Out> {
    let flags = flags(values, 2, name)?;
    let (subject, mut parts, mut done) = (text(values, 0), Vec::new(), 0);
    each_match(&*compiled(text(values, 1), flags)?, subject, 0, |found| {
        // An empty match at an end of the text, or right behind the last match, parts nothing.
        if let Some((start, end)) = found[0]
            && (start < end || (start > done && start < subject.len()))
        {
            parts.push(Some(subject[done..start].to_string()));
            done = end;
        }
        Ok(true)
    })?;
    parts.push(Some(subject[done..].to_string()));
    Ok(Out::Texts(parts))
}

fn regexp_split_to_array(values: &[Value]) -> Result<Out> {
    split(values, "regexp_split_to_array()")
}

fn split_to_table(values: &[Value]) -> Result<Out> {
    split(values, "regexp_split_to_table()")
}

fn regexp_like(values: &[Value]) -> Result<Out> {
    let flags = flags(values, 2, "regexp_like()")?;
    Ok(Out::Bool(compiled(text(values, 1), flags)?.is_match(text(values, 0))?))
}

fn regexp_count(values: &[Value]) -> Result<Out> {
    let start = bounded(values, 2, "start", 1)?;
    let flags = flags(values, 3, "regexp_count()")?;
    let (subject, mut count) = (text(values, 0), 0);
    let pattern = compiled(text(values, 1), flags)?;
    if let Some(from) = offset(subject, start) {
        each_match(&pattern, subject, from, |_| {
            count += 1;
            Ok(true)
        })?;
    }
    Ok(Out::Int(count))
}

/// The match number `nth` from a character on.
fn nth_match(values: &[Value], nth: usize, flags: Flags) -> Result<Option<Spans>> {
    let start = bounded(values, 2, "start", 1)?;
    let (subject, mut wanted, mut count) = (text(values, 0), None, 0);
    let pattern = compiled(text(values, 1), flags)?;
    if let Some(from) = offset(subject, start) {
        each_match(&pattern, subject, from, |found| {
            count += 1;
            if count == nth {
                wanted = Some(found);
            }
            Ok(count < nth)
        })?;
    }
    Ok(wanted)
}

fn regexp_instr(values: &[Value]) -> Result<Out> {
    bounded(values, 2, "start", 1)?;
    let nth = bounded(values, 3, "n", 1)?;
    let end = int(values, 4, 0);
    if !(0..=1).contains(&end) {
        let message = format!("invalid value for parameter \"endoption\": {end}");
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    let sub = match values.get(6) {
        Some(_) => bounded(values, 6, "subexpr", 0)?,
        None => 0,
    };
    let found = nth_match(values, nth, flags(values, 5, "regexp_instr()")?)?;
    let span = found.and_then(|found| found.get(sub).copied().flatten());
    let place = span.map_or(0, |(from, to)| {
        let byte = if end == 1 { to } else { from };
        text(values, 0)[..byte].chars().count() as i64 + 1
    });
    Ok(Out::Int(place))
}

fn regexp_substr(values: &[Value]) -> Result<Out> {
    bounded(values, 2, "start", 1)?;
    let nth = bounded(values, 3, "n", 1)?;
    let sub = match values.get(5) {
        Some(_) => bounded(values, 5, "subexpr", 0)?,
        None => 0,
    };
    let found = nth_match(values, nth, flags(values, 4, "regexp_substr()")?)?;
    let span = found.and_then(|found| found.get(sub).copied().flatten());
    Ok(group(text(values, 0), span).map_or(Out::Null, Out::Text))
}

fn regexp_replace(values: &[Value]) -> Result<Out> {
    let letters = text(values, 3);
    if letters.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid regular expression option: \"{}\"", &letters[..1]);
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message)
            .hint("If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly."));
    }
    let flags = Flags::parse(letters)?;
    let nth = usize::from(!flags.global);
    let pattern = compiled(text(values, 1), flags)?;
    Ok(Out::Text(replace(&pattern, text(values, 0), text(values, 2), 0, nth)?))
}

fn regexp_replace_from(values: &[Value]) -> Result<Out> {
    let start = bounded(values, 3, "start", 1)?;
    let flags = Flags::parse(text(values, 5))?;
    let nth = match values.get(4) {
        Some(_) => bounded(values, 4, "n", 0)?,
        None => usize::from(!flags.global),
    };
    let (subject, pattern) = (text(values, 0), compiled(text(values, 1), flags)?);
    Ok(Out::Text(match offset(subject, start) {
        Some(from) => replace(&pattern, subject, text(values, 2), from, nth)?,
        None => subject.to_string(),
    }))
}

/// `substring(text from pattern)`: the first group, or the match.
pub(crate) fn substring(values: &[Value]) -> Result<Out> {
    let (subject, pattern) = (text(values, 0), compiled(text(values, 1), Flags::default())?);
    let span = pattern
        .find(subject, 0)?
        .and_then(|found| found[usize::from(pattern.groups > 0)]);
    Ok(group(subject, span).map_or(Out::Null, Out::Text))
}

pub(crate) fn substring_similar(values: &[Value]) -> Result<Out> {
    let pattern = similar_to_regex(text(values, 1), escape_char(text(values, 2))?)?;
    substring(&[values[0].clone(), Value::Text(&pattern)])
}

fn similar_to_escape(values: &[Value]) -> Result<Out> {
    let escape = match values.get(1) {
        Some(_) => escape_char(text(values, 1))?,
        None => Some('\\'),
    };
    Ok(Out::Text(similar_to_regex(text(values, 0), escape)?))
}

/// `text ~ pattern`, and `~*` with flags.
fn matches(values: &[Value]) -> Result<Out> {
    let flags = Flags::parse(text(values, 2))?;
    Ok(Out::Bool(compiled(text(values, 1), flags)?.is_match(text(values, 0))?))
}

/// The name under which `~` and its kin call the engine.
pub(crate) const MATCHES: &str = "tenon_regex_matches";

pub(super) fn matching() -> Vec<Overload> {
    vec![
        of(&[Padded, Text], Bool, matches),
        of(&[Padded, Text, Text], Bool, matches),
    ]
}

/// A function whose last arguments may be absent.
fn upto(name: &'static str, takes: &'static [Kind], least: usize, gives: Kind, body: Body) -> ScalarUDF {
    let overloads = (least..=takes.len()).map(|count| of(&takes[..count], gives, body));
    row_function(name, overloads.collect())
}

/// As lists, whose items are the rows.
pub(crate) fn regexp_matches() -> ScalarUDF {
    upto("regexp_matches", &[Text, Text, Text], 2, Rows, all_matches)
}

pub(crate) fn regexp_split_to_table() -> ScalarUDF {
    upto("regexp_split_to_table", &[Text, Text, Text], 2, Texts, split_to_table)
}

pub(crate) fn functions() -> Vec<ScalarUDF> {
    vec![
        upto("regexp_match", &[Text, Text, Text], 2, Texts, regexp_match),
        upto(
            "regexp_split_to_array",
            &[Text, Text, Text],
            2,
            Texts,
            regexp_split_to_array,
        ),
        upto("regexp_like", &[Text, Text, Text], 2, Bool, regexp_like),
        upto("regexp_count", &[Text, Text, Int4, Text], 2, Int4, regexp_count),
        upto(
            "regexp_instr",
            &[Text, Text, Int4, Int4, Int4, Text, Int4],
            2,
            Int4,
            regexp_instr,
        ),
        upto(
            "regexp_substr",
            &[Text, Text, Int4, Int4, Text, Int4],
            2,
            Text,
            regexp_substr,
        ),
        row_function(
            "regexp_replace",
            vec![
                of(&[Text, Text, Text], Text, regexp_replace),
                of(&[Text, Text, Text, Text], Text, regexp_replace),
                of(&[Text, Text, Text, Int4], Text, regexp_replace_from),
                of(&[Text, Text, Text, Int4, Int4], Text, regexp_replace_from),
                of(&[Text, Text, Text, Int4, Int4, Text], Text, regexp_replace_from),
            ],
        ),
        row_function("tenon_substring_regex", vec![of(&[Text, Text], Text, substring)]),
        row_function(
            "tenon_substring_similar",
            vec![of(&[Text, Text, Text], Text, substring_similar)],
        ),
        upto("similar_to_escape", &[Text, Text], 1, Text, similar_to_escape),
        row_function(MATCHES, matching()),
    ]
}
