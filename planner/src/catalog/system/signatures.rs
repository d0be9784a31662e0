//! What PostgreSQL's functions take and give, from its own `pg_proc`.

use super::names;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;
use std::collections::HashMap;
use std::sync::OnceLock;

struct Signature {
    name: String,
    result: String,
    types: Vec<u32>,
    arguments: String,
}

fn signatures() -> &'static HashMap<i64, Signature> {
    static SIGNATURES: OnceLock<HashMap<i64, Signature>> = OnceLock::new();
    SIGNATURES.get_or_init(|| {
        let Some(table) = super::shipped_batches("pg_proc") else {
            return HashMap::new();
        };
        table.iter().flat_map(|batch| read(batch).unwrap_or_default()).collect()
    })
}

fn read(batch: &RecordBatch) -> Option<Vec<(i64, Signature)>> {
    let oids = batch.column_by_name("oid")?.as_primitive_opt::<Int32Type>()?;
    let results = batch.column_by_name("prorettype")?.as_primitive_opt::<Int32Type>()?;
    let arguments = batch.column_by_name("proargtypes")?.as_string_opt::<i32>()?;
    let names = batch.column_by_name("proname")?.as_string_opt::<i32>()?;
    let sets = batch.column_by_name("proretset")?.as_boolean_opt()?;
    let type_name = |oid: i64| names::format_type(oid, None).unwrap_or_else(|| "-".into());
    let row = |row: usize| {
        let types = if arguments.is_null(row) {
            ""
        } else {
            arguments.value(row)
        };
        let types = types.split(|c: char| !c.is_ascii_digit());
        let types: Vec<u32> = types.filter_map(|oid| oid.parse().ok()).collect();
        let arguments = types.iter().map(|oid| type_name((*oid).into()));
        let set = if sets.value(row) { "SETOF " } else { "" };
        let signature = Signature {
            name: names.value(row).to_string(),
            result: format!("{set}{}", type_name(results.value(row).into())),
            arguments: arguments.collect::<Vec<_>>().join(", "),
            types,
        };
        (oids.value(row).into(), signature)
    };
    Some((0..batch.num_rows()).map(row).collect())
}

/// A function's name.
pub(super) fn name(oid: i64) -> Option<String> {
    signatures().get(&oid).map(|signature| signature.name.clone())
}

/// The oid of a function's name, where only one function has it.
pub(super) fn oid(name: &str) -> Option<u32> {
    let mut found = signatures().iter().filter(|(_, signature)| signature.name == *name);
    let (oid, _) = found.next()?;
    found.next().is_none().then_some(*oid as u32)
}

/// `pg_get_function_result`.
pub(super) fn result(oid: i64) -> Option<String> {
    signatures().get(&oid).map(|signature| signature.result.clone())
}

/// `pg_get_function_arguments`.
pub(super) fn arguments(oid: i64) -> Option<String> {
    signatures().get(&oid).map(|signature| signature.arguments.clone())
}

/// The oids of what each function of a name takes.
pub(crate) fn types(name: &str) -> impl Iterator<Item = &'static [u32]> {
    static BY_NAME: OnceLock<HashMap<&str, Vec<&[u32]>>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let mut by_name: HashMap<&str, Vec<&[u32]>> = HashMap::new();
        for own in signatures().values() {
            by_name.entry(&own.name).or_default().push(&own.types);
        }
        by_name
    });
    by_name.get(name).into_iter().flatten().copied()
}
