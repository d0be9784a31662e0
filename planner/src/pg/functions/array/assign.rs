//! Arrays with elements or parts replaced: `UPDATE ... SET a[2] = x`, `SET a[1:2] = '{x,y}'`.

use super::build::{ARRAY_SUBSCRIPT, error};
use super::construct::in_arrays;
use super::leaf;
use super::lists::{Builder, Lists, item_of, list_type};
use crate::pg::error::{SqlState, state};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::ops::Range;

/// `assign(array, element, i, j, ...)` and `assign_slice(array, part, lower, upper, ...)`: names that no client can write.
pub(crate) const ASSIGN: &str = "\u{1}assign";
pub(crate) const ASSIGN_SLICE: &str = "\u{1}assign_slice";

/// What stands for a slice's bound that was left out: no array reaches so far.
pub(crate) const NO_LOWER: i32 = -i32::MAX;
pub(crate) const NO_UPPER: i32 = i32::MAX;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Assign {
    slice: bool,
    signature: Signature,
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [false, true]
        .map(|slice| {
            ScalarUDF::new_from_impl(Assign {
                slice,
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

fn out_of_range() -> DataFusionError {
    error(ARRAY_SUBSCRIPT, "array subscript out of range")
}

impl ScalarUDFImpl for Assign {
    fn name(&self) -> &str {
        if self.slice { ASSIGN_SLICE } else { ASSIGN }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [base, value, bounds @ ..] = types else {
            return plan_err!("an assignment takes an array and a value");
        };
        if *base == DataType::LargeUtf8 && !self.slice {
            // Of jsonb: keys, or positions as text.
            if !(value.is_string() || value.is_null()) {
                let message = format!(
                    "subscripted assignment to \"jsonb\" requires type jsonb but expression is of type {}",
                    super::type_name(value)
                );
                return Err(error(state::DATATYPE_MISMATCH, message));
            }
            let mut all = vec![DataType::LargeUtf8; 2];
            all.extend(bounds.iter().map(|_| DataType::Utf8View));
            return Ok(all);
        }
        let (item, depth) = leaf(base);
        if depth == 0 {
            let name = super::type_name(base);
            let message = format!("cannot subscript type {name} because it does not support subscripting");
            return Err(error(state::DATATYPE_MISMATCH, message));
        }
        let value_depth = leaf(value).1;
        let unknown = value.is_string() || value.is_null();
        let wanted = if self.slice { depth } else { 0 };
        if value_depth != wanted && !unknown {
            let message = "subscripted assignment requires a value of the array's type";
            return Err(error(state::DATATYPE_MISMATCH, message));
        }
        let mut all = vec![base.clone(), list_type(item, wanted)];
        all.extend(bounds.iter().map(|_| DataType::Int32));
        Ok(all)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0]
            .as_ref()
            .clone()
            .with_name(self.name())
            .with_nullable(true)
            .into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type();
        if *returns == DataType::LargeUtf8 {
            return in_arrays(&args.args, args.number_rows, crate::pg::functions::json::assigned);
        }
        in_arrays(&args.args, args.number_rows, |arrays, rows| match self.slice {
            true => slice(arrays, rows, returns),
            false => element(arrays, rows, returns),
        })
    }
}

/// A row's subscripts.
fn subscripts(arrays: &[ArrayRef], row: usize) -> Result<Vec<i32>> {
    let own = arrays.iter().map(|column| {
        let column = column.as_primitive::<Int32Type>();
        match column.is_valid(row) {
            true => Ok(column.value(row)),
            false => Err(error(
                SqlState("22004"),
                "array subscript in assignment must not be null",
            )),
        }
    });
    own.collect()
}

/// The first subscript counts from 1: 0A000 where the array would begin elsewhere.
fn from_one(subscript: i32) -> Result<usize> {
    usize::try_from(i64::from(subscript) - 1).map_err(|_| moved())
}

fn moved() -> DataFusionError {
    error(
        state::FEATURE_NOT_SUPPORTED,
        "arrays whose subscripts do not begin at 1 are not supported",
    )
}

fn element(arrays: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&arrays[0])?;
    // The value as an item, and a NULL to fill up with.
    let null = datafusion::arrow::array::new_null_array(arrays[1].data_type(), 1);
    let depth = lists.depth();
    let mut out = Builder::new(rows);
    for row in 0..rows {
        let (own, span) = (subscripts(&arrays[2..], row)?, lists.span(row));
        let sizes = lists.sizes(row);
        if own.len() != depth {
            return Err(error(ARRAY_SUBSCRIPT, "wrong number of array subscripts"));
        }
        if sizes.is_empty() {
            if own.iter().any(|subscript| *subscript != 1) {
                return Err(moved());
            }
            out.pick(1, row);
            out.row(vec![1; depth]);
            continue;
        }
        if depth == 1 {
            let at = from_one(own[0])?;
            if at >= 134_217_727 {
                return Err(error(
                    state::PROGRAM_LIMIT_EXCEEDED,
                    "array size exceeds the maximum allowed (134217727)",
                ));
            }
            let size = span.len().max(at + 1);
            for place in 0..size {
                match place {
                    place if place == at => out.pick(1, row),
                    place if place < span.len() => out.pick(0, span.start + place),
                    _ => out.pick(2, 0),
                }
            }
            out.row(vec![size]);
            continue;
        }
        let mut at = 0;
        for (size, subscript) in sizes.iter().zip(&own) {
            let index = usize::try_from(i64::from(*subscript) - 1)
                .ok()
                .filter(|index| index < size);
            at = at * size + index.ok_or_else(out_of_range)?;
        }
        for place in 0..span.len() {
            match place == at {
                true => out.pick(1, row),
                false => out.pick(0, span.start + place),
            }
        }
        out.row(sizes);
    }
    out.finish(&[&lists.items, &arrays[1], &null], &item_of(returns), depth)
}

fn slice(arrays: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let (lists, parts) = (Lists::of(&arrays[0])?, Lists::of(&arrays[1])?);
    let null = datafusion::arrow::array::new_null_array(&item_of(returns), 1);
    let depth = lists.depth();
    let mut out = Builder::new(rows);
    for row in 0..rows {
        let bounds = subscripts(&arrays[2..], row)?;
        let (span, part) = (lists.span(row), parts.span(row));
        let mut sizes = lists.sizes(row);
        // NULL changes nothing.
        if parts.is_null(row) {
            match lists.is_null(row) {
                true => out.null(),
                false => {
                    out.pick_all(0, span);
                    out.row(sizes);
                }
            }
            continue;
        }
        let omitted = bounds
            .chunks_exact(2)
            .any(|pair| pair[0] == NO_LOWER || pair[1] == NO_UPPER);
        if sizes.is_empty() && omitted {
            let error =
                crate::pg::error::SqlError::new(ARRAY_SUBSCRIPT, "array slice subscript must provide both boundaries");
            let detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified.";
            return Err(crate::pg::errors::to_datafusion(error.detail(detail)));
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (dimension, pair) in bounds.chunks_exact(2).enumerate() {
            let size = sizes.get(dimension).copied().unwrap_or(0);
            let lower = if pair[0] == NO_LOWER { 0 } else { from_one(pair[0])? };
            let upper = if pair[1] == NO_UPPER {
                size
            } else {
                usize::try_from(pair[1]).unwrap_or(0)
            };
            if upper < lower + 1 {
                let message = "upper bound cannot be less than lower bound";
                return Err(error(ARRAY_SUBSCRIPT, message));
            }
            ranges.push(lower..upper);
        }
        if sizes.is_empty() {
            if ranges.len() != depth || ranges.iter().any(|range| range.start > 0) {
                return Err(moved());
            }
            sizes = vec![0; depth];
        }
        (ranges.len()..depth).for_each(|at| ranges.push(0..sizes[at]));
        let count: usize = ranges.iter().map(ExactSizeIterator::len).product();
        if part.len() < count {
            return Err(error(ARRAY_SUBSCRIPT, "source array too small"));
        }
        let beyond = ranges.iter().zip(&sizes).any(|(range, size)| range.end > *size);
        if beyond && depth > 1 && !span.is_empty() {
            return Err(out_of_range());
        }
        let new: Vec<usize> = ranges
            .iter()
            .zip(&sizes)
            .map(|(range, size)| range.end.max(*size))
            .collect();
        let total: usize = new.iter().product();
        let mut taken = part.start;
        for place in 0..total {
            // The place's subscripts, the last dimension first.
            let (mut rest, mut inside) = (place, true);
            for (range, size) in ranges.iter().zip(&new).rev() {
                inside &= range.contains(&(rest % size));
                rest /= size;
            }
            match (inside, place < span.len()) {
                (true, _) => {
                    out.pick(1, taken);
                    taken += 1;
                }
                (false, true) => out.pick(0, span.start + place),
                (false, false) => out.pick(2, 0),
            }
        }
        out.row(new);
    }
    out.finish(&[&lists.items, &parts.items, &null], &item_of(returns), depth)
}
