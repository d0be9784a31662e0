//! A statement's text without the literals that may be parameters of it.
//!
//! A literal is taken out only where that cannot change what the text means: a number or a string to whose left stand a column,
//! or a call, and a comparison or LIKE, and to whose right the condition ends; an item of a list after IN, of INSERT's row, what
//! UPDATE sets a column to, or adds to one; what follows LIMIT and OFFSET. A string may be of a named type there: `'2024-01-01'::date`, `date '2024-01-01'`. A long
//! list after IN is one literal. `5::text`, `ORDER BY 1`, `a[5]` and `numeric(5,2)` all look otherwise. What is not
//! sure to be read as PostgreSQL's lexer reads it is left alone.
//!
//! More than 400 lines because what may stand around a literal and the walk through the text must agree.

/// A literal that was taken out; numbers with their sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    /// Digits alone.
    Integer(String),
    /// Digits with a point among them.
    Decimal(String),
    Text(String),
    /// A number that is added to a column.
    Summand(String),
    /// Those of a list, all of one kind.
    List(Vec<Literal>),
}

impl Literal {
    /// How its kind is told in a key.
    fn kind(&self) -> &'static str {
        match self {
            Literal::Integer(_) => "$i",
            Literal::Decimal(_) => "$d",
            Literal::Text(_) => "$t",
            Literal::Summand(number) if number.contains('.') => "$sd",
            Literal::Summand(_) => "$s",
            Literal::List(items) => match items.first() {
                Some(Literal::Text(_)) => "$lt",
                _ => "$li",
            },
        }
    }
}

/// A text and what was taken out of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    /// What the texts have in common that differ in these literals alone. Kinds of literals are told apart.
    pub key: String,
    /// The text with `$1`, `$2`, ... in the literals' places.
    pub text: String,
    pub literals: Vec<Literal>,
}

/// What stands before a literal.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// A word that may name a column.
    Name,
    /// A call's end.
    Call,
    /// One of these and NOT.
    NameNot,
    /// A column and a comparison.
    Comparison,
    /// A column and LIKE.
    Like,
    /// A column and BETWEEN, a literal after that, and AND after that.
    Between,
    Low,
    LowAnd,
    /// A column and IN.
    In,
    /// The beginning of an item of a list, or of a row.
    Item,
    /// A column, and plus or minus.
    Sum,
    /// LIMIT or OFFSET.
    Count,
    /// A column, `=` and ANY, and the parenthesis after it.
    Any,
    AnyItems,
}

impl Before {
    fn is_place(self) -> bool {
        use Before::*;
        matches!(self, Comparison | Between | LowAnd | Item | Sum | Count | AnyItems)
    }

    /// Whether something stands there that may be compared.
    fn is_subject(self) -> bool {
        matches!(self, Before::Name | Before::Call)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Select,
    /// A query under a WITH of queries.
    With,
    Insert,
    Update,
    Delete,
}

/// Words that end a condition.
const ENDS: [&str; 13] = [
    "and",
    "or",
    "group",
    "order",
    "limit",
    "having",
    "union",
    "except",
    "intersect",
    "offset",
    "fetch",
    "window",
    "returning",
];
/// Words that end what a column is set to.
const SET_ENDS: [&str; 3] = ["where", "from", "returning"];
/// Words that are no columns.
const NO_NAMES: [&str; 22] = [
    "and", "or", "not", "where", "select", "end", "null", "true", "false", "any", "all", "some", "on", "case", "when",
    "then", "else", "having", "by", "in", "is", "like",
];
/// Words after which a WITH is left alone: it changes data, or its parts decide each other's types.
const NOT_UNDER_WITH: [&str; 5] = ["insert", "update", "delete", "merge", "recursive"];
/// Types that may stand before a string, which is of it then.
const TYPES: [&str; 6] = ["date", "timestamp", "timestamptz", "time", "uuid", "numeric"];
/// Most literals that are taken out of a text.
const LITERALS_MAX: usize = 100;
/// Lists of so many items are one literal.
const LIST_MIN: usize = 4;

fn kind(sql: &str, start: usize) -> Option<Kind> {
    let word = sql.as_bytes().get(start..start + 6)?;
    if word[..4].eq_ignore_ascii_case(b"with") && word[4].is_ascii_whitespace() {
        return Some(Kind::With);
    }
    let kinds = [
        ("select", Kind::Select),
        ("insert", Kind::Insert),
        ("update", Kind::Update),
        ("delete", Kind::Delete),
    ];
    let found = kinds
        .iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(found.1)
}

/// Cuts a text; literals whose numbers, from 0, are `pinned` stay. None for a text that is none of these statements, that
/// inserts several rows, or has something in it that another lexer might read otherwise.
pub(super) fn cut(sql: &str, pinned: &[usize]) -> Option<Cut> {
    let bytes = sql.as_bytes();
    let start = sql.find(|c: char| !c.is_ascii_whitespace())?;
    let kind = kind(sql, start)?;
    let mut made = Cut {
        key: String::with_capacity(sql.len()),
        text: String::with_capacity(sql.len()),
        literals: vec![],
    };
    let (mut at, mut kept, mut found) = (start, 0, 0);
    let mut before = Before::Nothing;
    // Where a minus stands that belongs to the number after it.
    let mut sign: Option<usize> = None;
    let mut depth = 0_usize;
    // Where IN stands, or the NOT before it.
    let mut negated_at = 0;
    // In parentheses of which depth items are.
    let mut list: Option<usize> = None;
    // INSERT's row: it comes next, and it was there.
    let (mut row_next, mut row_was) = (false, false);
    // In parentheses of which depth the condition of an aggregate's FILTER is, and where those may begin.
    let (mut filter, mut filter_next) = (None, None);
    // UPDATE's assignments.
    let mut in_set = false;
    let mut returning = false;
    while let Some(&byte) = bytes.get(at) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            at += 1;
            continue;
        }
        let signed = sign.take();
        if signed.is_some() && !byte.is_ascii_digit() {
            before = Before::Nothing;
        }
        let (end, literal) = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let end = end_of_word(bytes, at);
                // E'...', U&"..." and their like.
                if matches!(bytes.get(end), Some(b'\'' | b'"' | b'&' | b'$'))
                    || bytes.get(end).is_some_and(|b| !b.is_ascii())
                {
                    return None;
                }
                let word = &sql[at..end];
                let is = |name: &str| word.eq_ignore_ascii_case(name);
                if kind == Kind::With && NOT_UNDER_WITH.iter().any(|name| is(name)) {
                    return None;
                }
                if list == Some(depth) && !row_was {
                    list = None;
                }
                if depth == 0 {
                    row_next |= kind == Kind::Insert && !row_was && is("values");
                    returning |= is("returning");
                    match in_set {
                        true => in_set = !SET_ENDS.iter().any(|end| is(end)),
                        false => in_set = kind == Kind::Update && is("set"),
                    }
                }
                if before.is_subject() {
                    negated_at = at;
                }
                if is("filter") {
                    filter_next = sql[end..]
                        .find(|c: char| !c.is_ascii_whitespace())
                        .map(|blanks| end + blanks);
                }
                if let (true, false, Some((end, literal))) = (before.is_place(), returning, typed(sql, at, end)) {
                    if filter.is_none()
                        && (fits(sql, before, &literal, end, in_set && depth == 0) || is_summand(sql, before, end))
                        && made.literals.len() < LITERALS_MAX
                    {
                        if !pinned.contains(&found) {
                            let cast = ["CAST(", &format!(" AS {word})")];
                            made.take(&sql[kept..at], literal, &format!("{word} "), cast);
                            kept = end;
                        }
                        found += 1;
                    }
                    before = Before::Nothing;
                    at = end;
                    continue;
                }
                before = match before {
                    _ if returning => Before::Nothing,
                    Before::Name | Before::Call if is("not") => Before::NameNot,
                    Before::Name | Before::Call | Before::NameNot if is("between") => Before::Between,
                    Before::Name | Before::Call | Before::NameNot if is("in") => Before::In,
                    Before::Name | Before::Call | Before::NameNot if is("like") || is("ilike") => Before::Like,
                    Before::Comparison if is("any") => Before::Any,
                    Before::Low if is("and") => Before::LowAnd,
                    _ if depth == 0 && (is("limit") || is("offset")) => Before::Count,
                    _ if NO_NAMES.iter().any(|name| is(name)) => Before::Nothing,
                    _ => Before::Name,
                };
                at = end;
                continue;
            }
            b'"' => {
                let end = at + 1 + sql[at + 1..].find('"')? + 1;
                if bytes.get(end) == Some(&b'"') {
                    return None;
                }
                before = if returning { Before::Nothing } else { Before::Name };
                at = end;
                continue;
            }
            b'0'..=b'9' => number(bytes, at)?,
            b'\'' => string(sql, at)?,
            b'(' | b')' | b',' | b'[' | b']' | b';' | b':' => {
                let was = std::mem::replace(&mut before, Before::Nothing);
                match byte {
                    b'(' => {
                        depth += 1;
                        filter = filter.or((filter_next == Some(at)).then_some(depth));
                        before = if was == Before::Any { Before::AnyItems } else { before };
                        let row = row_next && depth == 1;
                        if let (true, Some((end, items))) = (was == Before::In && !returning, long_list(sql, at))
                            && (is_end(sql, end, ");") || follows(sql, end, &ENDS))
                            && made.literals.len() < LITERALS_MAX
                        {
                            depth -= 1;
                            if !pinned.contains(&found) {
                                let negated = sql[negated_at..at].to_ascii_lowercase().starts_with("not");
                                let (key, call) = match negated {
                                    true => ("not in ", ["<> ALL (", ")"]),
                                    false => ("in ", ["= ANY (", ")"]),
                                };
                                made.take(&sql[kept..negated_at], Literal::List(items), key, call);
                                kept = end;
                            }
                            found += 1;
                            at = end;
                            continue;
                        }
                        if row || (was == Before::In && list.is_none()) {
                            list = Some(depth);
                            before = Before::Item;
                            row_was |= row;
                            row_next &= !row;
                        }
                    }
                    b')' => {
                        if list == Some(depth) {
                            list = None;
                        }
                        filter = filter.filter(|own| *own != depth);
                        depth = depth.checked_sub(1)?;
                        before = if returning { Before::Nothing } else { Before::Call };
                    }
                    b',' if list == Some(depth) => before = Before::Item,
                    // Another row.
                    b',' if row_was && depth == 0 && !returning => return None,
                    _ => {}
                }
                at += 1;
                continue;
            }
            // The column of a table.
            b'.' if before == Before::Name => {
                at += 1;
                continue;
            }
            b'=' | b'<' | b'>' | b'!' | b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'^' => {
                let end = at + bytes[at..].iter().take_while(|byte| is_operator(**byte)).count();
                let operator = &sql[at..end];
                if operator.contains("--") || operator.contains("/*") {
                    return None;
                }
                if operator == "-" && before.is_place() {
                    sign = Some(at);
                    at = end;
                    continue;
                }
                let compares = matches!(operator, "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=");
                before = match before {
                    Before::Name | Before::Call if compares => Before::Comparison,
                    Before::Name if in_set && depth == 0 && matches!(operator, "+" | "-") => Before::Sum,
                    _ => Before::Nothing,
                };
                at = end;
                continue;
            }
            _ => return None,
        };
        let is_low = before == Before::Between;
        // A string may be cast to a type.
        let whole = match &literal {
            Some(Literal::Text(_)) => end_of_cast(sql, end),
            _ => end,
        };
        // A literal of an aggregate's is none of a row's condition, for which plans are kept.
        if let Some(literal) = literal
            && filter.is_none()
            && (fits(sql, before, &literal, whole, in_set && depth == 0)
                || whole > end && is_summand(sql, before, whole))
            && made.literals.len() < LITERALS_MAX
        {
            if !pinned.contains(&found) {
                let from = signed.unwrap_or(at);
                let number = |digits: String| if signed.is_some() { format!("-{digits}") } else { digits };
                let literal = match literal {
                    Literal::Integer(digits) | Literal::Decimal(digits) if before == Before::Sum => {
                        Literal::Summand(number(digits))
                    }
                    Literal::Integer(digits) => Literal::Integer(number(digits)),
                    Literal::Decimal(digits) => Literal::Decimal(number(digits)),
                    other => other,
                };
                made.take(&sql[kept..from], literal, "", ["", ""]);
                kept = end;
            }
            found += 1;
        }
        before = if is_low { Before::Low } else { Before::Nothing };
        at = whole;
    }
    made.key.push_str(&sql[kept..]);
    made.text.push_str(&sql[kept..]);
    Some(made)
}

impl Cut {
    /// Takes a literal out behind a piece of the text: in its place there is a parameter, between two other pieces. What the key
    /// says before the literal's kind tells these.
    fn take(&mut self, before: &str, literal: Literal, key: &str, around: [&str; 2]) {
        self.key.extend([before, key, literal.kind()]);
        self.literals.push(literal);
        let number = format!("${}", self.literals.len());
        self.text.extend([before, around[0], &number, around[1]]);
    }
}

/// Whether a literal may be a parameter by what stands around it.
fn fits(sql: &str, before: Before, literal: &Literal, end: usize, in_set: bool) -> bool {
    let ends = || is_end(sql, end, ");") || follows(sql, end, &ENDS);
    let ends_set = || in_set && (is_end(sql, end, ",;") || follows(sql, end, &SET_ENDS));
    match before {
        Before::Comparison => ends() || ends_set(),
        Before::Like => matches!(literal, Literal::Text(_)) && ends(),
        Before::AnyItems => matches!(literal, Literal::Text(_)) && sql[end..].trim_ascii_start().starts_with(')'),
        Before::LowAnd => ends(),
        Before::Between => follows(sql, end, &["and"]),
        Before::Item => !sql[end..].trim_ascii_start().is_empty() && is_end(sql, end, ",)"),
        Before::Count => {
            matches!(literal, Literal::Integer(_)) && (is_end(sql, end, ";") || follows(sql, end, &["limit", "offset"]))
        }
        Before::Sum => ends_set() && !matches!(literal, Literal::Text(_)),
        _ => false,
    }
}

/// Whether something is added to a literal that has a type of its own, before the two are compared.
fn is_summand(sql: &str, before: Before, end: usize) -> bool {
    let compared = matches!(before, Before::Comparison | Before::LowAnd | Before::Between);
    compared && sql[end..].trim_ascii_start().starts_with(['+', '-'])
}

/// The end of a string behind a word that names its type, and the string.
fn typed(sql: &str, at: usize, end: usize) -> Option<(usize, Literal)> {
    let is_type = TYPES.iter().any(|name| sql[at..end].eq_ignore_ascii_case(name));
    let start = end + sql[end..].find(|c: char| !c.is_ascii_whitespace())?;
    if !is_type || start == end || sql.as_bytes()[start] != b'\'' {
        return None;
    }
    let (end, literal) = string(sql, start)?;
    Some((end, literal?))
}

/// The end of a cast to a type of one word, or an array of it, that begins here, or here.
fn end_of_cast(sql: &str, at: usize) -> usize {
    let Some(of) = sql[at..].strip_prefix("::") else {
        return at;
    };
    let word = end_of_word(of.as_bytes(), 0);
    let begins = of
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let end = if of[word..].starts_with("[]") { word + 2 } else { word };
    let continues = is_of_word(*of.as_bytes().get(end).unwrap_or(&b' ')) || of[end..].starts_with(['(', '[', '.', ':']);
    if begins && !continues { at + 2 + end } else { at }
}

/// The end of a list in parentheses that begins here, and its items, where these are many literals of one kind.
fn long_list(sql: &str, at: usize) -> Option<(usize, Vec<Literal>)> {
    let bytes = sql.as_bytes();
    let mut items: Vec<Literal> = vec![];
    let mut at = at + 1;
    let skipped = |at: usize| at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    loop {
        at = skipped(at);
        let negative = bytes.get(at) == Some(&b'-');
        if negative {
            at = skipped(at + 1);
        }
        let (end, literal) = match bytes.get(at)? {
            b'0'..=b'9' => number(bytes, at)?,
            b'\'' if !negative => string(sql, at)?,
            _ => return None,
        };
        let literal = match literal? {
            Literal::Integer(digits) if negative => Literal::Integer(format!("-{digits}")),
            Literal::Decimal(_) => return None,
            other => other,
        };
        if items.first().is_some_and(|first| first.kind() != literal.kind()) {
            return None;
        }
        items.push(literal);
        at = skipped(end);
        match bytes.get(at)? {
            b',' => at += 1,
            b')' => return (items.len() >= LIST_MIN).then_some((at + 1, items)),
            _ => return None,
        }
    }
}

fn is_operator(byte: u8) -> bool {
    b"=<>!+-*/%|^~@#&`?".contains(&byte)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn end_of_word(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count()
}

/// The end of a number, and its value where it is a plain one. None where letters follow.
fn number(bytes: &[u8], at: usize) -> Option<(usize, Option<Literal>)> {
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(at);
    let end = match bytes.get(whole) {
        Some(b'.') => digits(whole + 1),
        _ => whole,
    };
    if bytes.get(end).is_some_and(|byte| is_of_word(*byte) || *byte == b'.') {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes[at..end]).into_owned();
    let literal = match end - whole {
        0 => Some(Literal::Integer(text)),
        // No digit after the point.
        1 => None,
        _ => Some(Literal::Decimal(text)),
    };
    Some((end, literal))
}

/// The end of a string, and its value. None where there is none, or a backslash in it, which may escape.
fn string(sql: &str, at: usize) -> Option<(usize, Option<Literal>)> {
    let mut end = at + 1;
    loop {
        end += sql[end..].find('\'')? + 1;
        if sql.as_bytes().get(end) != Some(&b'\'') {
            break;
        }
        end += 1;
    }
    let value = &sql[at + 1..end - 1];
    if value.contains(['\\', '\0']) {
        return None;
    }
    Some((end, Some(Literal::Text(value.replace("''", "'")))))
}

/// Whether the text ends here, or one of the characters comes next.
fn is_end(sql: &str, at: usize, characters: &str) -> bool {
    let rest = sql[at..].trim_ascii_start();
    rest.chars().next().is_none_or(|next| characters.contains(next))
}

/// Whether one of the words comes next.
fn follows(sql: &str, at: usize, words: &[&str]) -> bool {
    let rest = sql[at..].trim_ascii_start();
    let word = &rest[..end_of_word(rest.as_bytes(), 0)];
    let plain = rest.as_bytes().get(word.len()).is_none_or(|byte| !is_of_word(*byte));
    // `1and` is read by some and refused by others.
    rest.len() < sql[at..].len() && plain && words.iter().any(|one| word.eq_ignore_ascii_case(one))
}

#[cfg(test)]
mod tests;
