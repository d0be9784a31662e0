//! PostgreSQL's own types, from its `pg_type`.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;
use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) struct SystemType {
    pub name: String,
    /// The element type's oid; 0 for a type that is no array.
    pub element: u32,
    /// The array type's oid; 0 where there is none.
    pub array: u32,
}

fn types() -> &'static HashMap<u32, SystemType> {
    static TYPES: OnceLock<HashMap<u32, SystemType>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let batches = super::shipped_batches("pg_type").unwrap_or_default();
        batches
            .iter()
            .flat_map(|batch| read(batch).unwrap_or_default())
            .collect()
    })
}

fn read(batch: &RecordBatch) -> Option<Vec<(u32, SystemType)>> {
    let number = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Int32Type>();
    let (oids, elements, arrays) = (number("oid")?, number("typelem")?, number("typarray")?);
    let names = batch.column_by_name("typname")?.as_string_opt::<i32>()?;
    let row = |row: usize| {
        let name = names.value(row).to_string();
        // Of the types with elements, those named with an underscore are the arrays; `name` and `point` are not.
        let element = if name.starts_with('_') { elements.value(row) } else { 0 };
        let of = SystemType {
            name,
            element: element as u32,
            array: arrays.value(row) as u32,
        };
        (oids.value(row) as u32, of)
    };
    Some((0..batch.num_rows()).map(row).collect())
}

pub(super) fn by_oid(oid: u32) -> Option<&'static SystemType> {
    types().get(&oid)
}

/// The oid of a type's internal name: `int4`, `_text`.
pub(super) fn by_name(name: &str) -> Option<u32> {
    types().iter().find(|(_, of)| of.name == name).map(|(oid, _)| *oid)
}
