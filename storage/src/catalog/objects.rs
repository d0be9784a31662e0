//! What a database holds that is no relation: domains, functions, roles, comments, rights.

use super::kept_settings::KeptSettings;
use super::rights::{DefaultGrants, Rights, Secured};
use super::roles::Role;
use crate::enum_type::EnumType;
use crate::range::UserRange;
use crate::types::SqlType;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How an object is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectKey {
    /// A domain, a composite type or an enum.
    Type {
        schema: String,
        name: String,
    },
    /// `arguments`: the types of the arguments as PostgreSQL prints them.
    Function {
        schema: String,
        name: String,
        arguments: Vec<String>,
    },
    Role {
        name: String,
    },
    /// On the object of an oid, or with a number from 1 on one of its columns.
    Comment {
        oid: u32,
        column: u32,
    },
    /// On the object of an oid.
    Rights {
        oid: u32,
    },
    /// On what a role will create, in the schema of an oid, or with 0 in any.
    DefaultRights {
        role: u32,
        schema: u32,
        kind: Secured,
    },
    /// Of a role's sessions in a database; 0: of all roles', or in all databases.
    Settings {
        role: u32,
        database: u32,
    },
}

impl ObjectKey {
    /// The schema that an object goes with.
    pub fn schema(&self) -> Option<&str> {
        match self {
            ObjectKey::Type { schema, .. } | ObjectKey::Function { schema, .. } => Some(schema),
            ObjectKey::Role { .. }
            | ObjectKey::Comment { .. }
            | ObjectKey::Rights { .. }
            | ObjectKey::DefaultRights { .. }
            | ObjectKey::Settings { .. } => None,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Object {
    Domain(Arc<Domain>),
    Composite(Arc<Composite>),
    Enum(&'static EnumType),
    /// Under the name of the ranges, and under that of their multiranges, where it is true.
    Range(&'static UserRange, bool),
    Function(Arc<Function>),
    Role(Arc<Role>),
    Comment(Arc<str>),
    Rights(Arc<Rights>),
    DefaultRights(Arc<DefaultGrants>),
    Settings(Arc<KeptSettings>),
}

/// All that is no relation, in versions that share what has not changed.
pub type Objects = OrdMap<ObjectKey, Object>;

/// Whether they are one and the same version.
impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        match (self, other) {
            (Object::Domain(a), Object::Domain(b)) => Arc::ptr_eq(a, b),
            (Object::Composite(a), Object::Composite(b)) => Arc::ptr_eq(a, b),
            (Object::Enum(a), Object::Enum(b)) => a == b,
            (Object::Range(a, a_multi), Object::Range(b, b_multi)) => std::ptr::eq(*a, *b) && a_multi == b_multi,
            (Object::Function(a), Object::Function(b)) => Arc::ptr_eq(a, b),
            (Object::Role(a), Object::Role(b)) => Arc::ptr_eq(a, b),
            (Object::Comment(a), Object::Comment(b)) => Arc::ptr_eq(a, b),
            (Object::Rights(a), Object::Rights(b)) => Arc::ptr_eq(a, b),
            (Object::DefaultRights(a), Object::DefaultRights(b)) => Arc::ptr_eq(a, b),
            (Object::Settings(a), Object::Settings(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Object {
    /// The oid and the kind of one that belongs to somebody.
    pub fn secured(&self) -> Option<(u32, Secured)> {
        match self {
            Object::Domain(own) => Some((own.oid, Secured::Type)),
            Object::Composite(own) => Some((own.oid, Secured::Type)),
            Object::Enum(own) => Some((own.oid, Secured::Type)),
            Object::Range(own, false) => Some((own.oid, Secured::Type)),
            Object::Range(own, true) => Some((own.multirange_oid, Secured::Type)),
            Object::Function(own) => Some((own.oid, Secured::Function)),
            Object::Role(_)
            | Object::Comment(_)
            | Object::Rights(_)
            | Object::DefaultRights(_)
            | Object::Settings(_) => None,
        }
    }
}

/// A type with conditions of its own. Columns have its base type, and the conditions as theirs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Domain {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    pub base: SqlType,
    /// The base type as it was declared: another domain's name, or a type's.
    pub declared: String,
    pub not_null: bool,
    /// SQL text.
    pub default: Option<String>,
    /// Names and conditions, in which the value is called VALUE.
    pub checks: Vec<(String, String)>,
}

/// A type of records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Composite {
    pub oid: u32,
    /// Of the type of its arrays: the oid behind its own. 0: none, in stores of types that had none.
    #[serde(default)]
    pub array_oid: u32,
    pub schema_name: String,
    pub name: String,
    /// Names, and types as declared.
    pub columns: Vec<(String, String)>,
    /// As pg_attribute counts the columns; none where they are counted from 1 on.
    #[serde(default)]
    pub numbers: Vec<u32>,
}

impl Composite {
    /// `pg_attribute.attnum` of a column.
    pub fn number(&self, at: usize) -> u32 {
        self.numbers.get(at).copied().unwrap_or(at as u32 + 1)
    }
}

/// A function. One in SQL is put in the place of its calls, others cannot be called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    pub arguments: Vec<FunctionArgument>,
    pub returns: FunctionResult,
    /// `sql`, or a language that has no interpreter here.
    pub language: String,
    /// The statements, each of which may name the arguments or number them.
    pub body: String,
    /// Returns NULL where an argument is NULL.
    pub strict: bool,
    /// `i`, `s` or `v`, as pg_proc has it.
    pub volatility: char,
    /// All that it is declared with, in their order, where that is more than the arguments of its calls.
    #[serde(default)]
    pub parameters: Vec<FunctionParameter>,
    #[serde(default)]
    pub options: FunctionOptions,
}

impl Function {
    /// Whether a call may give it so many arguments.
    pub fn takes(&self, given: usize) -> bool {
        let least = self.arguments.iter().filter(|own| own.default.is_none()).count();
        (least..=self.arguments.len()).contains(&given)
    }
}

/// An argument as it is declared, or a column of the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionParameter {
    /// `i`, `o`, `b`, `v` or `t`, as pg_proc has it.
    pub mode: char,
    pub name: Option<String>,
    pub sql_type: String,
}

/// What a function says of itself that changes no value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionOptions {
    pub cost: Option<f64>,
    pub rows: Option<f64>,
    pub security_definer: bool,
    pub leakproof: bool,
    /// `s`, `r` or, as where none is said, `u`.
    pub parallel: Option<char>,
    /// It gives one record, though its result is told as a table.
    pub one_row: bool,
    /// Settings that it asks for.
    pub settings: Vec<(String, String)>,
    /// What its body names was looked up when it was made: `RETURN`, and `BEGIN ATOMIC`.
    pub bound: bool,
    /// The extension that it is of.
    pub extension: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionArgument {
    pub name: Option<String>,
    /// As declared.
    pub sql_type: String,
    pub default: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FunctionResult {
    /// One value of this type, as declared.
    Scalar(String),
    /// Values of this type.
    Set(String),
    /// Rows of these columns: names and types.
    Table(Vec<(String, String)>),
}
