//! `tenon_columns`: how columns are kept in memory, a row for each form that some segments of a column have.

use super::relations::stored;
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "tenon_columns";
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("schemaname", "text"),
    ("tablename", "text"),
    ("attname", "text"),
    ("encoding", "text"),
    ("segments", "bigint"),
    ("rows", "bigint"),
    ("bytes", "bigint"),
    ("plain_bytes", "bigint"),
];

#[derive(Default)]
struct Sum {
    segments: i64,
    rows: usize,
    bytes: usize,
    plain_bytes: usize,
}

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    for table in stored(binder) {
        for (at, column) in table.definition().columns.iter().enumerate() {
            let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
            for segment in table.segments().iter() {
                let sum = sums.entry(segment.encoding(at)).or_default();
                sum.segments += 1;
                sum.rows += segment.rows();
                sum.bytes += segment.column_bytes(at);
                sum.plain_bytes += segment.plain_bytes(at);
            }
            out.extend(sums.into_iter().map(|(encoding, sum)| {
                row! {
                    "schemaname": table.definition().schema_name.as_str(),
                    "tablename": table.name(),
                    "attname": column.name.as_str(),
                    "encoding": encoding,
                    "segments": sum.segments,
                    "rows": sum.rows as i64,
                    "bytes": sum.bytes as i64,
                    "plain_bytes": sum.plain_bytes as i64,
                }
            }));
        }
    }
    out
}
