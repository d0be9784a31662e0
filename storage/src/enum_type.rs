//! Enum types. A value is stored as the position of its label, in an Arrow type that names the type.
//!
//! The Arrow type is a timestamp whose zone is the type's mark: an integer of 64 bits that comes with a text of its own.
//! So all that sorts, groups, joins and indexes integers does it for enums by their declared order, two enum types are
//! two Arrow types, and whatever computes with a value keeps its type. A dictionary of labels with an order key would need
//! each of those operators to look at the key, and could not tell two types apart.
//!
//! ALTER TYPE makes another version, and the columns of the type are written anew in it: positions stay dense, and a
//! reader's snapshot keeps the labels that it began with. Versions are kept for as long as the process lives, for arrays of
//! them may be anywhere; they are small and made by DDL only.

use crate::error::ErrorKind;
use crate::parse::Invalid;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// What the zones of enums begin with: no zone of a timestamp does.
const MARK: &str = "enum ";

/// A version of an enum type.
#[derive(Debug)]
pub struct EnumType {
    version: u32,
    pub oid: u32,
    pub array_oid: u32,
    pub schema_name: String,
    pub name: String,
    /// `name[]`
    pub(crate) array_name: String,
    /// `_name`, as pg_type has it.
    pub array_type_name: String,
    pub labels: Vec<EnumLabel>,
    positions: HashMap<String, i64>,
}

/// An enum type as a store keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredEnum {
    version: u32,
    oid: u32,
    array_oid: u32,
    schema_name: String,
    name: String,
    labels: Vec<EnumLabel>,
}

/// Writes and reads a version of an enum type. What is read behind it may name the version.
pub(crate) mod stored {
    use super::{EnumType, StoredEnum};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(own: &&'static EnumType, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = StoredEnum {
            version: own.version,
            oid: own.oid,
            array_oid: own.array_oid,
            schema_name: own.schema_name.clone(),
            name: own.name.clone(),
            labels: own.labels.clone(),
        };
        stored.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static EnumType, D::Error> {
        let stored = StoredEnum::deserialize(deserializer)?;
        let (name, version) = (stored.name.clone(), stored.version);
        let taken = || serde::de::Error::custom(format!("enum {name}: another type has its version {version}"));
        EnumType::restore(stored).ok_or_else(taken)
    }
}

/// A label, as pg_enum has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EnumLabel {
    pub oid: u32,
    pub label: String,
    pub order: f32,
}

impl PartialEq for EnumType {
    fn eq(&self, other: &EnumType) -> bool {
        self.version == other.version
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.version.hash(state);
    }
}

static VERSIONS: RwLock<Vec<&'static EnumType>> = RwLock::new(Vec::new());

impl EnumType {
    /// A new version of a type.
    pub fn register(oid: u32, array_oid: u32, schema: &str, name: &str, labels: Vec<EnumLabel>) -> &'static EnumType {
        EnumType::add(&mut VERSIONS.write(), oid, array_oid, schema, name, labels)
    }

    /// The version of this number again, which values of an earlier process name. None: the number is another's.
    fn restore(own: StoredEnum) -> Option<&'static EnumType> {
        let mut versions = VERSIONS.write();
        let at = own.version as usize;
        // Numbers that nothing names stay nobody's.
        while versions.len() < at {
            EnumType::add(&mut versions, 0, 0, "", "", Vec::new());
        }
        let labels = |of: &[EnumLabel]| of.iter().map(|label| label.oid).collect::<Vec<_>>();
        match versions.get(at) {
            Some(known) if known.oid == own.oid && labels(&known.labels) == labels(&own.labels) => return Some(known),
            Some(known) if known.oid != 0 => return None,
            _ => {}
        }
        let later = versions.split_off(at);
        let restored = EnumType::add(
            &mut versions,
            own.oid,
            own.array_oid,
            &own.schema_name,
            &own.name,
            own.labels,
        );
        versions.extend(later.into_iter().skip(1));
        Some(restored)
    }

    fn add(
        versions: &mut Vec<&'static EnumType>,
        oid: u32,
        array_oid: u32,
        schema: &str,
        name: &str,
        labels: Vec<EnumLabel>,
    ) -> &'static EnumType {
        let positions = labels.iter().zip(0..).map(|(own, at)| (own.label.clone(), at));
        let own: &'static EnumType = Box::leak(Box::new(EnumType {
            version: versions.len() as u32,
            oid,
            array_oid,
            schema_name: schema.into(),
            name: name.into(),
            array_name: format!("{name}[]"),
            array_type_name: format!("_{name}"),
            positions: positions.collect(),
            labels,
        }));
        versions.push(own);
        own
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    pub(crate) fn of_version(version: u32) -> Option<&'static EnumType> {
        VERSIONS.read().get(version as usize).copied()
    }

    /// The newest version of the type, or of the array type's elements, that has an oid.
    pub fn newest(oid: u32) -> Option<&'static EnumType> {
        let versions = VERSIONS.read();
        let own = versions.iter().rev().find(|of| of.oid == oid || of.array_oid == oid);
        own.copied()
    }

    /// The type of an Arrow type's values; None for all that are no enums.
    pub fn of(data_type: &DataType) -> Option<&'static EnumType> {
        match data_type {
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => {
                EnumType::of_version(zone.strip_prefix(MARK)?.parse().ok()?)
            }
            _ => None,
        }
    }

    /// What stands in the place of the zone.
    pub fn mark(&self) -> std::sync::Arc<str> {
        format!("{MARK}{}", self.version).into()
    }

    pub fn data_type(&self) -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some(self.mark()))
    }

    pub fn position(&self, label: &str) -> Option<i64> {
        self.positions.get(label).copied()
    }

    /// The position of a label that was read.
    pub(crate) fn parse(&self, label: &str) -> Result<i64, Invalid> {
        self.position(label).ok_or_else(|| {
            let message = format!("invalid input value for enum {}: \"{label}\"", self.name);
            Invalid::other(ErrorKind::InvalidText, message)
        })
    }

    pub fn label(&self, position: i64) -> &str {
        let own = usize::try_from(position).ok().and_then(|at| self.labels.get(at));
        own.map_or("", |own| own.label.as_str())
    }

    /// The labels of an array of this type.
    pub fn texts(&self, values: &dyn Array) -> StringArray {
        let positions = values.as_primitive::<TimestampMicrosecondType>();
        positions.iter().map(|at| at.map(|at| self.label(at))).collect()
    }

    /// Values of another version of the type as this one's: labels are known by their oids.
    pub fn adopt(&self, values: &ArrayRef, from: &EnumType) -> ArrayRef {
        let places: Vec<i64> = from
            .labels
            .iter()
            .map(|old| {
                self.labels
                    .iter()
                    .position(|own| own.oid == old.oid)
                    .map_or(-1, |at| at as i64)
            })
            .collect();
        let positions = values.as_primitive::<TimestampMicrosecondType>();
        let moved = positions.unary::<_, TimestampMicrosecondType>(|at| {
            usize::try_from(at)
                .ok()
                .and_then(|at| places.get(at))
                .copied()
                .unwrap_or(-1)
        });
        std::sync::Arc::new(moved.with_data_type(self.data_type()))
    }
}
