//! Rows of text that the server makes itself: SHOW, EXPLAIN.

use crate::pg::outcome::{BatchStream, ColumnDesc, Outcome, PgType, RowsTag};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use futures::StreamExt;
use std::sync::Arc;

/// Columns of type text.
pub(crate) fn columns(names: &[&str]) -> Vec<ColumnDesc> {
    names
        .iter()
        .map(|name| ColumnDesc {
            name: name.to_string(),
            data_type: DataType::Utf8View,
            pg_type: PgType { oid: 25, typmod: -1 },
            origin: None,
        })
        .collect()
}

/// A finished result: each row has one text for each column.
pub(crate) fn outcome(names: &[&str], rows: Vec<Vec<String>>, tag: RowsTag) -> Outcome {
    let arrays = (0..names.len()).map(|at| {
        let values = rows.iter().map(|row| row.get(at).map(String::as_str));
        Arc::new(StringViewArray::from_iter(values)) as ArrayRef
    });
    let fields: Vec<Field> = names
        .iter()
        .map(|name| Field::new(*name, DataType::Utf8View, true))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect());
    let batch = batch.map_err(|error| crate::pg::errors::from_arrow(&error));
    Outcome::Rows {
        columns: columns(names),
        stream: once(batch),
        tag,
    }
}

/// A stream of one batch.
pub(crate) fn once(batch: crate::pg::error::Result<RecordBatch>) -> BatchStream {
    futures::stream::once(async move { batch }).boxed()
}
