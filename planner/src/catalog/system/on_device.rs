//! `tenon_device_columns`: the columns that are in the GPU's memory.

use super::relations::stored;
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use tenon_executor::pipeline::cached;

pub(super) const NAME: &str = "tenon_device_columns";
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("schemaname", "text"),
    ("tablename", "text"),
    ("attname", "text"),
    ("segments", "bigint"),
    ("bytes", "bigint"),
    ("uses", "bigint"),
    ("state", "text"),
];

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    for table in stored(binder) {
        for (at, column) in table.definition().columns.iter().enumerate() {
            let cached = cached(table, at);
            if cached.segments == 0 && cached.bytes == 0 {
                continue;
            }
            out.push(row! {
                "schemaname": table.definition().schema_name.as_str(),
                "tablename": table.name(),
                "attname": column.name.as_str(),
                "segments": cached.segments as i64,
                "bytes": cached.bytes as i64,
                "uses": cached.uses as i64,
                "state": table.definition().device.unwrap_or_default().name(),
            });
        }
    }
    out
}
