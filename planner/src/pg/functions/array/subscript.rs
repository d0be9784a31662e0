//! `a[1]`, `a[1][2]` and `a[2:3]`, of arrays and of json.

use super::construct::in_arrays;
use super::leaf;
use super::lists::{Builder, Lists};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// `subscript(a, i, j, ...)`: names that no client can write.
pub(crate) const SUBSCRIPT: &str = "\u{1}subscript";
/// `slice(a, lower, upper, lower, upper, ...)`; an omitted bound is the smallest or the largest integer.
pub(crate) const SLICE: &str = "\u{1}slice";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Subscript {
    slice: bool,
    signature: Signature,
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [false, true]
        .map(|slice| {
            ScalarUDF::new_from_impl(Subscript {
                slice,
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

fn refused(base: &DataType) -> datafusion::error::DataFusionError {
    let name = super::poly::type_name(base);
    let message = format!("cannot subscript type {name} because it does not support subscripting");
    to_datafusion(SqlError::new(state::DATATYPE_MISMATCH, message))
}

impl ScalarUDFImpl for Subscript {
    fn name(&self) -> &str {
        if self.slice { SLICE } else { SUBSCRIPT }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [base, bounds @ ..] = types else {
            return plan_err!("a subscript takes a value");
        };
        let mut wanted = vec![base.clone()];
        if base.is_string() && !self.slice {
            // Of jsonb: keys, or positions as text.
            wanted.extend(bounds.iter().map(|_| DataType::Utf8View));
            return Ok(wanted);
        }
        if leaf(base).1 == 0 {
            return Err(refused(base));
        }
        if bounds.len() > if self.slice { 12 } else { 6 } {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed (6)",
                bounds.len()
            );
            return Err(to_datafusion(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message)));
        }
        for bound in bounds {
            if !(bound.is_numeric() || bound.is_string() || bound.is_null()) {
                let message = "array subscript must have type integer";
                return Err(to_datafusion(SqlError::new(state::DATATYPE_MISMATCH, message)));
            }
            wanted.push(DataType::Int32);
        }
        Ok(wanted)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match (self.slice, leaf(&types[0])) {
            (false, (item, 1..)) => item.clone(),
            _ => types[0].clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let base = &args.arg_fields[0];
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        if base.data_type().is_string() {
            return match crate::pg::functions::json::is_jsonb(base) {
                true => Ok(Arc::new(field.with_metadata(base.metadata().clone()))),
                false => Err(refused(base.data_type())),
            };
        }
        match (self.slice, tenon_storage::SqlType::from_field(base)) {
            (false, Some(tenon_storage::SqlType::Array(of))) if !base.metadata().is_empty() => {
                Ok(Arc::new(of.element().field(self.name(), true)))
            }
            (true, _) => Ok(Arc::new(field.with_metadata(base.metadata().clone()))),
            _ => Ok(Arc::new(field)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type();
        in_arrays(&args.args, args.number_rows, |arrays, rows| {
            if arrays[0].data_type().is_string() {
                return crate::pg::functions::json::subscript(arrays, rows);
            }
            match self.slice {
                true => slice(arrays, rows, returns),
                false => element(arrays, rows),
            }
        })
    }
}

/// The element at as many subscripts as there are dimensions, NULL where there is none.
fn element(arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let lists = Lists::of(&arrays[0])?;
    // The vectors of system tables begin at 0.
    let first = i32::from(!matches!(arrays[0].data_type(), DataType::LargeList(_)));
    let at = (0..rows).map(|row| {
        let sizes = lists.sizes(row);
        if sizes.len() != arrays.len() - 1 {
            return None;
        }
        let mut at = 0_usize;
        for (size, column) in sizes.iter().zip(&arrays[1..]) {
            let column = column.as_primitive::<Int32Type>();
            let number = column.is_valid(row).then(|| column.value(row))?;
            let index = usize::try_from(number.checked_sub(first)?)
                .ok()
                .filter(|at| at < size)?;
            at = at * size + index;
        }
        Some((lists.span(row).start + at) as u32)
    });
    let at = UInt32Array::from_iter(at);
    Ok(take(&lists.items, &at, None)?)
}

/// The part between bounds, which are cut to the array's own; dimensions without bounds are whole.
fn slice(arrays: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&arrays[0])?;
    let mut out = Builder::new(rows);
    'rows: for row in 0..rows {
        let sizes = lists.sizes(row);
        let mut ranges: Vec<std::ops::Range<usize>> = sizes.iter().map(|size| 0..*size).collect();
        if lists.is_null(row) {
            out.null();
            continue;
        }
        let bounds = arrays[1..].chunks_exact(2);
        let given = bounds.len();
        for (dimension, pair) in bounds.enumerate() {
            let [lower, upper] = [&pair[0], &pair[1]].map(|column| {
                let column = column.as_primitive::<Int32Type>();
                column.is_valid(row).then(|| column.value(row))
            });
            let (Some(lower), Some(upper)) = (lower, upper) else {
                out.null();
                continue 'rows;
            };
            if let Some(range) = ranges.get_mut(dimension) {
                let lower = usize::try_from(lower.saturating_sub(1)).unwrap_or(0);
                let upper = usize::try_from(upper).unwrap_or(0).min(range.end);
                *range = lower..upper.max(lower);
            }
        }
        if given > sizes.len() || ranges.iter().any(std::ops::Range::is_empty) {
            out.row(Vec::new());
            continue;
        }
        let start = lists.span(row).start;
        let strides: Vec<usize> = (0..sizes.len()).map(|at| sizes[at + 1..].iter().product()).collect();
        let mut offsets = vec![start];
        for (range, stride) in ranges.iter().zip(&strides) {
            offsets = offsets
                .iter()
                .flat_map(|base| range.clone().map(move |at| base + at * stride))
                .collect();
        }
        offsets.into_iter().for_each(|at| out.pick(0, at));
        out.row(ranges.iter().map(ExactSizeIterator::len).collect());
    }
    let (item, depth) = leaf(returns);
    out.finish(&[&lists.items], item, depth)
}
