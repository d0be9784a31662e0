//! JSON values: read from text, written as PostgreSQL writes `jsonb`, compared and ordered by its rules.
//!
//! A `json` column keeps its text. A `jsonb` column keeps the text that `Json` writes: keys in order of their length,
//! then of their bytes, the last of equal keys alone, numbers with their digits.

mod number;
mod order;
pub mod path;
mod read;
pub mod scan;
mod write;

pub use order::order_key;
pub use write::write_string;

/// A JSON value. Numbers are the texts of numerics, objects have no key twice and their keys in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// Among the values of a jsonpath alone.
    Moment(path::Moment),
}

impl Json {
    /// The name of the kind, as `jsonb_typeof` gives it.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
            Json::Moment(moment) => moment.type_name(),
        }
    }

    pub fn is_scalar(&self) -> bool {
        !matches!(self, Json::Array(_) | Json::Object(_))
    }

    /// The value of a key of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(pairs) => pairs
                .binary_search_by(|(own, _)| order_of_keys(own, key))
                .ok()
                .map(|at| &pairs[at].1),
            _ => None,
        }
    }

    /// An object of these pairs: in order of keys, the last of equal ones.
    pub fn object(mut pairs: Vec<(String, Json)>) -> Json {
        // Stable: of equal keys, the last stays the last.
        pairs.sort_by(|(a, _), (b, _)| order_of_keys(a, b));
        let mut kept: Vec<(String, Json)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match kept.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => kept.push(pair),
            }
        }
        Json::Object(kept)
    }

    /// Sets a key of an object's pairs.
    pub fn put(pairs: &mut Vec<(String, Json)>, key: &str, value: Json) {
        match pairs.binary_search_by(|(own, _)| order_of_keys(own, key)) {
            Ok(at) => pairs[at].1 = value,
            Err(at) => pairs.insert(at, (key.to_owned(), value)),
        }
    }
}

/// `jsonb` keeps keys by their length, then by their bytes.
pub fn order_of_keys(a: &str, b: &str) -> std::cmp::Ordering {
    (a.len(), a.as_bytes()).cmp(&(b.len(), b.as_bytes()))
}
