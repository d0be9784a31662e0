//! Numbers in their binary form: `float8send` and its kin.

use super::simple::function;
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::convert;

fn converted(args: &[ArrayRef], target: SqlType) -> Result<ArrayRef> {
    match *args[0].data_type() == target.data_type() {
        true => Ok(args[0].clone()),
        false => convert(&args[0], target).map_err(|error| to_datafusion(error.into())),
    }
}

fn collect(values: impl Iterator<Item = Option<Vec<u8>>>) -> Result<ArrayRef> {
    Ok(Arc::new(BinaryViewArray::from_iter(values)))
}

macro_rules! sends {
    ($($name:literal $sql:ident $arrow:ty),*) => {
        vec![$(function($name, Signature::any(1, Volatility::Immutable), DataType::BinaryView, |args, _| {
            let values = converted(args, SqlType::$sql)?;
            collect(values.as_primitive::<$arrow>().iter().map(|value| value.map(|v| v.to_be_bytes().to_vec())))
        })),*]
    };
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut functions = sends!(
        "int2send" Int2 Int16Type,
        "int4send" Int4 Int32Type,
        "int8send" Int8 Int64Type,
        "float4send" Float4 Float32Type,
        "float8send" Float8 Float64Type
    );
    let one = Signature::any(1, Volatility::Immutable);
    functions.push(function("numeric_send", one, DataType::BinaryView, |args, _| {
        let values = converted(args, SqlType::Numeric)?;
        collect(values.as_binary::<i64>().iter().map(|value| {
            let mut out = Vec::new();
            Numeric::from_bytes(value?).write_wire(&mut out);
            Some(out)
        }))
    }));
    functions
}
