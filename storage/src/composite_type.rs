//! Composite types as columns of tables have them. A value is a struct with a field for each attribute.
//!
//! The Arrow type does not say which composite type it is: two types of the same attributes have the same. The fields of
//! columns, and of what computes with whole values, say so in their metadata.
//!
//! A type stands for its attributes as they are now: ALTER TYPE makes another one of the same oid, and the columns of the
//! type are written anew in it, so that a reader's snapshot keeps the attributes that it began with. Types are kept for as
//! long as the process lives, each once; a store has with each column all that is to be known of its type.

use crate::array_type::ArrayType;
use crate::error::Result;
use crate::range::is_range;
use crate::types::{ARRAY_OID_KEY, OID_KEY, SqlType};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, Fields};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Debug)]
pub struct CompositeType {
    /// Among all types.
    place: u32,
    own: Described,
    data_type: DataType,
    /// `name[]`
    pub(crate) array_name: String,
    /// `_name`, as pg_type has it.
    pub array_type_name: String,
}

/// All that there is to a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Described {
    oid: u32,
    array_oid: u32,
    schema: String,
    name: String,
    attributes: Vec<Attribute>,
}

/// A column of a composite type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// As pg_attribute counts: it stays what it is where others go.
    pub number: u32,
    pub name: String,
    pub sql_type: SqlType,
    /// The oid of its domain; the type is that domain's base.
    pub domain: Option<u32>,
}

impl PartialEq for CompositeType {
    fn eq(&self, other: &CompositeType) -> bool {
        self.place == other.place
    }
}

impl Eq for CompositeType {}

impl Hash for CompositeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place.hash(state);
    }
}

static KNOWN: RwLock<Vec<&'static CompositeType>> = RwLock::new(Vec::new());

impl CompositeType {
    /// The type of these attributes.
    pub fn of(
        oid: u32,
        array_oid: u32,
        schema: &str,
        name: &str,
        attributes: Vec<Attribute>,
    ) -> &'static CompositeType {
        CompositeType::described(Described {
            oid,
            array_oid,
            schema: schema.into(),
            name: name.into(),
            attributes,
        })
    }

    pub(crate) fn described(own: Described) -> &'static CompositeType {
        let is_it = |of: &&&'static CompositeType| of.own == own;
        let known = KNOWN.read().iter().find(is_it).copied();
        if let Some(known) = known {
            return known;
        }
        // Attributes look their own types up.
        let fields = own.attributes.iter();
        let fields: Fields = fields.map(|of| within(of.sql_type.field(&of.name, true))).collect();
        let mut known = KNOWN.write();
        if let Some(known) = known.iter().find(is_it) {
            return known;
        }
        let made: &'static CompositeType = Box::leak(Box::new(CompositeType {
            place: known.len() as u32,
            data_type: DataType::Struct(fields),
            array_name: format!("{}[]", own.name),
            array_type_name: format!("_{}", own.name),
            own,
        }));
        known.push(made);
        made
    }

    pub(crate) fn place(&self) -> u32 {
        self.place
    }

    pub(crate) fn at(place: u32) -> Option<&'static CompositeType> {
        KNOWN.read().get(place as usize).copied()
    }

    /// The newest of an oid whose values have this Arrow type.
    pub fn of_oid(oid: u32, data_type: &DataType) -> Option<&'static CompositeType> {
        let known = KNOWN.read();
        let mut known = known.iter().rev();
        known
            .find(|of| of.own.oid == oid && of.data_type == *data_type)
            .copied()
    }

    /// The same of an array type's oid, and of its items' Arrow type.
    pub(crate) fn of_array_oid(oid: u32, item: &DataType) -> Option<&'static CompositeType> {
        let known = KNOWN.read();
        let mut known = known.iter().rev();
        known
            .find(|of| of.own.array_oid == oid && of.data_type == *item)
            .copied()
    }

    pub(crate) fn describe(&self) -> &Described {
        &self.own
    }

    pub fn oid(&self) -> u32 {
        self.own.oid
    }

    /// Of the type of its arrays.
    pub fn array_oid(&self) -> u32 {
        self.own.array_oid
    }

    pub fn schema_name(&self) -> &str {
        &self.own.schema
    }

    pub fn name(&self) -> &str {
        &self.own.name
    }

    pub fn attributes(&self) -> &[Attribute] {
        &self.own.attributes
    }

    pub fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    pub(crate) fn fields(&self) -> &Fields {
        match &self.data_type {
            DataType::Struct(fields) => fields,
            _ => unreachable!("records are structs"),
        }
    }

    /// What the metadata of its values' fields says besides.
    pub(crate) fn oids(&self) -> Vec<(String, String)> {
        let array = Some((ARRAY_OID_KEY, self.own.array_oid)).filter(|(_, oid)| *oid != 0);
        let oids = std::iter::once((OID_KEY, self.own.oid)).chain(array);
        oids.map(|(key, oid)| (key.to_string(), oid.to_string())).collect()
    }
}

/// What is added to the oid of a table to make that of the type of arrays of its rows. Oids are counted from far below.
const ARRAYS_OF_ROWS: u32 = 1 << 30;

/// The oid of the type of arrays of a table's rows. That of its rows' type is the table's own.
pub fn array_of_rows(table: u32) -> u32 {
    table | ARRAYS_OF_ROWS
}

/// The table whose rows' arrays are of the type of an oid.
pub fn of_rows_of_array(oid: u32) -> Option<u32> {
    (oid & ARRAYS_OF_ROWS != 0).then_some(oid & !ARRAYS_OF_ROWS)
}

/// Whether an Arrow type is that of records: ranges are structs, too.
pub fn is_record(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(_)) && !is_range(data_type)
}

/// The field of a record's column, or of an array's item: only a value itself says its composite type.
pub fn within(field: Field) -> Field {
    match field.data_type() {
        DataType::Struct(_) | DataType::List(_) if field.metadata().contains_key(OID_KEY) => {
            field.with_metadata(Default::default())
        }
        _ => field,
    }
}

/// A type in which others stand in the place of some: of itself, of its items, of its attributes. None: it has none of them.
pub fn substituted(of: SqlType, by: &dyn Fn(SqlType) -> Option<SqlType>) -> Option<SqlType> {
    if let Some(other) = by(of) {
        return Some(other);
    }
    match of {
        SqlType::Array(array) => {
            let item = substituted(array.element(), by)?;
            Some(SqlType::Array(
                ArrayType::of_items(item).with_dimensions(array.dimensions()),
            ))
        }
        SqlType::Composite(own) => {
            let mut described = own.own.clone();
            let mut changed = false;
            for attribute in &mut described.attributes {
                if let Some(other) = substituted(attribute.sql_type, by) {
                    attribute.sql_type = other;
                    changed = true;
                }
            }
            changed.then(|| SqlType::Composite(CompositeType::described(described)))
        }
        _ => None,
    }
}

/// Values of a type as those of the same type altered: attributes are known by their numbers, new ones are NULL.
pub fn altered(values: &ArrayRef, from: SqlType, to: SqlType) -> Result<ArrayRef> {
    if from == to {
        return Ok(values.clone());
    }
    match (from, to) {
        (SqlType::Composite(from), SqlType::Composite(to)) => {
            let records = values.as_struct();
            let columns = to.attributes().iter().map(|own| {
                let before = from.attributes().iter().position(|old| old.number == own.number);
                match before {
                    Some(at) => altered(records.column(at), from.attributes()[at].sql_type, own.sql_type),
                    None => Ok(new_null_array(&own.sql_type.data_type(), records.len())),
                }
            });
            record_of(to, columns.collect::<Result<Vec<_>>>()?, records)
        }
        (SqlType::Array(from), SqlType::Array(to)) => {
            items(values, &mut |items| altered(items, from.element(), to.element()))
        }
        _ => Ok(values.clone()),
    }
}

/// Records of these columns, which are NULL where those before are.
pub(crate) fn record_of(of: &CompositeType, columns: Vec<ArrayRef>, before: &StructArray) -> Result<ArrayRef> {
    let nulls = before.nulls().cloned();
    Ok(Arc::new(match columns.is_empty() {
        true => StructArray::new_empty_fields(before.len(), nulls),
        false => StructArray::try_new(of.fields().clone(), columns, nulls)?,
    }))
}

/// An array's items in all its dimensions, changed.
pub(crate) fn items(array: &ArrayRef, change: &mut impl FnMut(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let Some(lists) = array.as_list_opt::<i32>() else {
        return change(array);
    };
    let values = items(lists.values(), change)?;
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    let lists = ListArray::try_new(item, lists.offsets().clone(), values, lists.nulls().cloned())?;
    Ok(Arc::new(lists))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_scalar;

    fn attribute(number: u32, name: &str, sql_type: SqlType) -> Attribute {
        let name = name.into();
        Attribute {
            number,
            name,
            sql_type,
            domain: None,
        }
    }

    #[test]
    fn attributes_are_known_by_their_numbers() {
        let (a, b) = (attribute(1, "a", SqlType::Int4), attribute(2, "b", SqlType::Text));
        let before = SqlType::Composite(CompositeType::of(90_000, 90_001, "s", "t", vec![a.clone(), b.clone()]));
        let again = SqlType::Composite(CompositeType::of(90_000, 90_001, "s", "t", vec![a.clone(), b]));
        assert_eq!(before, again);
        let (b, c) = (attribute(2, "renamed", SqlType::Text), attribute(3, "a", SqlType::Bool));
        let after = SqlType::Composite(CompositeType::of(90_000, 90_001, "s", "t", vec![b, c]));
        let changed = |of: SqlType| (of == before).then_some(after);
        let array = SqlType::Array(ArrayType::of_items(before));
        assert_eq!(
            substituted(array, &changed),
            Some(SqlType::Array(ArrayType::of_items(after)))
        );
        assert_eq!(substituted(SqlType::Int4, &changed), None);
        let value = altered(&parse_scalar(before, "(7,\"x y\")").unwrap(), before, after).unwrap();
        assert_eq!(value.to_data(), parse_scalar(after, "(\"x y\",)").unwrap().to_data());
    }

    #[test]
    fn stores_keep_all_of_a_type() {
        let inner = SqlType::Composite(CompositeType::of(
            90_002,
            90_003,
            "s",
            "u",
            vec![attribute(1, "x", SqlType::Date)],
        ));
        let attributes = vec![attribute(4, "a b", SqlType::VarcharOf(3)), attribute(5, "[]", inner)];
        let own = SqlType::Composite(CompositeType::of(90_004, 90_005, "s", "v", attributes));
        for of in [own, SqlType::Array(crate::ArrayType::of_items(own))] {
            let text = serde_json::to_string(&of).unwrap();
            assert_eq!(serde_json::from_str::<SqlType>(&text).unwrap(), of);
            assert_eq!(SqlType::from_field(&of.field("c", true)), Some(of));
        }
    }
}
