//! What the translator knows of a value in the kernel.

use arrow::datatypes::DataType;

use super::types::{Range, scale};

/// A value in the kernel: C++ names of it and of whether it is null.
#[derive(Clone)]
pub struct Value {
    pub data_type: DataType,
    pub value: String,
    /// None: never null.
    pub null: Option<String>,
    /// Of whole numbers and decimals: what the unscaled value can be, where rows are null too.
    pub range: Option<Range>,
    /// Of texts: whether all bytes are known to be ASCII.
    pub ascii: bool,
    /// Of a numeric as a decimal: C++ of the digits after the point that it shows, unless they are those of the type.
    pub shown: Option<String>,
}

impl Value {
    pub fn is_true(&self) -> String {
        match &self.null {
            Some(null) => format!("(!{null} && {})", self.value),
            None => self.value.clone(),
        }
    }

    pub fn is_false(&self) -> String {
        match &self.null {
            Some(null) => format!("(!{null} && !{})", self.value),
            None => format!("!{}", self.value),
        }
    }

    /// C++ of the digits after the point that a numeric shows.
    pub fn digits_shown(&self) -> String {
        let own = || format!("(i64){}", scale(&self.data_type));
        self.shown.clone().unwrap_or_else(own)
    }

    /// Whether it is null, as C++.
    pub fn is_null(&self) -> &str {
        self.null.as_deref().unwrap_or("false")
    }
}
