//! Types of ranges that clients make: CREATE TYPE ... AS RANGE. What columns and plans hold of one is its oid.
//!
//! Types are kept for as long as the process lives, for columns of them may be anywhere; they are small and made by DDL only.

use super::RangeType;
use crate::types::SqlType;
use arrow::datatypes::{DataType, Field, Fields};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// What the names of the fields begin with.
pub(super) const MARK: char = '\u{1}';

/// The Arrow type of values whose type is called so, or has this number.
pub(super) fn carrier(name: &str) -> DataType {
    let field = Field::new(format!("{MARK}{name}"), DataType::LargeBinary, true);
    DataType::Struct(Fields::from(vec![field]))
}

/// Such a type, and that of its multiranges.
#[derive(Debug)]
pub struct UserRange {
    pub oid: u32,
    pub array_oid: u32,
    pub multirange_oid: u32,
    pub multirange_array_oid: u32,
    pub schema_name: String,
    pub name: String,
    pub multirange_name: String,
    /// The type of the bounds.
    pub subtype: SqlType,
    /// `name[]`
    pub(super) array_names: (String, String),
    /// `_name`, as pg_type has it.
    pub(super) array_type_names: (String, String),
}

/// What a client says of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRange {
    pub oids: [u32; 4],
    pub schema_name: String,
    pub name: String,
    pub multirange_name: String,
    pub subtype: SqlType,
}

/// Writes and reads one in a store. What is read behind it may name its oid.
pub(crate) mod stored {
    use super::{NewRange, UserRange};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(own: &&'static UserRange, serializer: S) -> Result<S::Ok, S::Error> {
        own.described().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static UserRange, D::Error> {
        NewRange::deserialize(deserializer).map(UserRange::register)
    }
}

impl PartialEq for UserRange {
    fn eq(&self, other: &UserRange) -> bool {
        self.oid == other.oid && self.subtype == other.subtype
    }
}

impl Eq for UserRange {}

impl Hash for UserRange {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid.hash(state);
    }
}

static ALL: RwLock<Vec<&'static UserRange>> = RwLock::new(Vec::new());

impl UserRange {
    /// The type that is made so, which stays the same where it is there.
    pub fn register(new: NewRange) -> &'static UserRange {
        let mut all = ALL.write();
        if let Some(own) = all.iter().rev().find(|own| own.oid == new.oids[0])
            && own.described() == new
        {
            return own;
        }
        let own = Self::made(new);
        all.push(own);
        own
    }

    fn made(new: NewRange) -> &'static UserRange {
        let [oid, array_oid, multirange_oid, multirange_array_oid] = new.oids;
        Box::leak(Box::new(UserRange {
            oid,
            array_oid,
            multirange_oid,
            multirange_array_oid,
            array_names: (format!("{}[]", new.name), format!("{}[]", new.multirange_name)),
            array_type_names: (format!("_{}", new.name), format!("_{}", new.multirange_name)),
            schema_name: new.schema_name,
            name: new.name,
            multirange_name: new.multirange_name,
            subtype: new.subtype,
        }))
    }

    /// The same type in another schema. What columns hold of it is its oid: only what looks it up by name, or shows its schema,
    /// asks which one the snapshot has.
    pub fn moved(&self, schema: &str) -> &'static UserRange {
        Self::made(NewRange {
            schema_name: schema.to_string(),
            ..self.described()
        })
    }

    fn described(&self) -> NewRange {
        NewRange {
            oids: [self.oid, self.array_oid, self.multirange_oid, self.multirange_array_oid],
            schema_name: self.schema_name.clone(),
            name: self.name.clone(),
            multirange_name: self.multirange_name.clone(),
            subtype: self.subtype,
        }
    }

    /// The type of ranges or multiranges of an oid.
    pub(super) fn of_oid(oid: u32) -> Option<SqlType> {
        Self::found(oid, |own| [own.oid, own.multirange_oid])
    }

    /// The element of the array type of an oid.
    pub fn element_of(array: u32) -> Option<SqlType> {
        Self::found(array, |own| [own.array_oid, own.multirange_array_oid])
    }

    /// The ranges, or the multiranges, of which `oids` has this oid; the newest.
    fn found(oid: u32, oids: impl Fn(&Self) -> [u32; 2]) -> Option<SqlType> {
        let all = ALL.read();
        let own = all.iter().rev().find(|own| oids(own).contains(&oid))?;
        let of = RangeType::User(own);
        Some(match oids(own)[0] == oid {
            true => SqlType::Range(of),
            false => SqlType::Multirange(of),
        })
    }
}

/// Whether values of a type can be bounds: there are keys of them in their order.
pub fn takes_bounds(of: SqlType) -> bool {
    match of {
        SqlType::Int2
        | SqlType::Int4
        | SqlType::Int8
        | SqlType::Numeric
        | SqlType::Float4
        | SqlType::Float8
        | SqlType::Text
        | SqlType::Varchar
        | SqlType::Date
        | SqlType::Time
        | SqlType::Timestamp
        | SqlType::TimestampTz
        | SqlType::Uuid => true,
        of => of.is_address() && matches!(of.data_type(), DataType::FixedSizeBinary(_)),
    }
}
