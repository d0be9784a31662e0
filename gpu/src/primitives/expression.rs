//! C++ text that becomes part of a kernel.

use std::fmt;

/// An expression over the arguments that a primitive gives it, and over literals: `literal.template get<L>(i)` is the
/// `i`-th, of type `L`.
#[derive(Clone, Copy, Debug)]
pub struct Expression<'a>(&'a str);

impl<'a> Expression<'a> {
    /// # Safety
    /// The text is one expression of the type that the primitive asks for. It reads nothing but its arguments and
    /// literals, of which it asks for no more than the primitive has room for, and has no effect.
    pub const unsafe fn new(text: &'a str) -> Expression<'a> {
        Expression(text)
    }
}

impl fmt::Display for Expression<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
