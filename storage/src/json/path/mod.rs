//! jsonpath: read, written as PostgreSQL writes it, and evaluated.

mod arithmetic;
mod eval;
mod lex;
mod moment;
mod parse;
mod write;

pub use eval::{Given, Regex, Variables, evaluate, exists};
pub use moment::Moment;

use super::Json;

/// Why a path gives nothing.
#[derive(Clone, Debug)]
pub enum PathError {
    /// What `silent`, and conditions, pass over.
    Soft(&'static str, String),
    Hard(&'static str, String),
}

pub(crate) type Result<T> = std::result::Result<T, PathError>;

/// A jsonpath.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub strict: bool,
    pub(crate) expr: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Root,
    Current,
    Last,
    Variable(String),
    Literal(Json),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Sign(bool, Box<Expr>),
    Not(Box<Expr>),
    IsUnknown(Box<Expr>),
    Exists(Box<Expr>),
    StartsWith(Box<Expr>, Box<Expr>),
    LikeRegex(Box<Expr>, String, String),
    /// What steps lead to from a value.
    Steps(Box<Expr>, Vec<Step>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Key(String),
    AnyKey,
    AnyElement,
    /// Subscripts: positions, and ranges of them.
    Index(Vec<(Expr, Option<Expr>)>),
    /// `.**{from to upto}`; None is `last`.
    AnyDepth(Option<u32>, Option<u32>),
    Filter(Expr),
    Method(Method),
    Datetime(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Type,
    Size,
    Abs,
    Floor,
    Ceiling,
    Double,
    KeyValue,
}

impl Method {
    pub(crate) const ALL: [(&'static str, Method); 7] = [
        ("type", Method::Type),
        ("size", Method::Size),
        ("abs", Method::Abs),
        ("floor", Method::Floor),
        ("ceiling", Method::Ceiling),
        ("double", Method::Double),
        ("keyvalue", Method::KeyValue),
    ];

    pub(crate) fn name(self) -> &'static str {
        Method::ALL
            .iter()
            .find(|(_, own)| *own == self)
            .map_or("", |(name, _)| name)
    }
}

impl Expr {
    /// Whether it is true, false or unknown, rather than a sequence of values.
    pub(crate) fn is_predicate(&self) -> bool {
        match self {
            Expr::Binary(op, ..) => !matches!(
                op,
                Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo
            ),
            Expr::Not(_) | Expr::IsUnknown(_) | Expr::Exists(_) | Expr::StartsWith(..) | Expr::LikeRegex(..) => true,
            _ => false,
        }
    }
}
