//! Keys of two tables, compared as the `=` of the constraint's types compares them.

use super::scan::Scan;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::semantics::resolve::is_text;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, LargeBinaryArray, StringViewArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, interleave, take};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, TimeUnit};
use datafusion::arrow::row::{Row, RowConverter, SortField};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tenon_executor::index::{IndexData, is_worth_lookups};
use tenon_storage::datetime::shown;
use tenon_storage::numeric::column::{Values, collect};
use tenon_storage::numeric::{Numeric, compare_key};
use tenon_storage::{ColumnStatistics, EnumType, Index, MemoryBudget, SqlType, TableVersion};

/// What looking a key up costs, in rows read one after the other.
const LOOKUP_COST: usize = 32;

/// How values of two columns are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Both have one Arrow type.
    Same,
    Integers,
    Numerics,
    Floats,
    Moments,
    /// Blanks at the ends do not count.
    Blankless,
}

/// How PostgreSQL compares a referencing column with the one that it references; None where no `=` does that the index of
/// the referenced one knows.
pub(super) fn form(own: SqlType, referenced: SqlType) -> Result<Option<Form>> {
    use SqlType::*;
    let integer = |of: SqlType| matches!(of, Int2 | Int4 | Int8);
    let numeric = |of: SqlType| matches!(of, Numeric | NumericOf(..) | NumericWide(..));
    let float = |of: SqlType| matches!(of, Float4 | Float8);
    let moment = |of: SqlType| matches!(of, Date | Timestamp | TimestampOf(_));
    let zoned = |of: SqlType| matches!(of, TimestampTz | TimestampTzOf(_));
    let time = |of: SqlType| matches!(of, Time | TimeOf(_));
    let span = |of: SqlType| matches!(of, Interval | IntervalOf(..));
    let is_same = own.data_type() == referenced.data_type();
    Ok(match (own, referenced) {
        (Json, _) | (_, Json) => None,
        (Enum(own), Enum(referenced)) => (own.oid == referenced.oid).then_some(Form::Same),
        // A `char(n)` is kept without them.
        (CharOf(_), CharOf(_)) => Some(Form::Same),
        (own, CharOf(_) | Bpchar) if is_text(own) => Some(Form::Blankless),
        _ if is_same => Some(Form::Same),
        _ if integer(own) && integer(referenced) => Some(Form::Integers),
        _ if (integer(own) || numeric(own)) && numeric(referenced) => Some(Form::Numerics),
        _ if (integer(own) || numeric(own) || float(own)) && float(referenced) => Some(Form::Floats),
        _ if moment(own) && moment(referenced) => Some(Form::Moments),
        _ if (zoned(own) || zoned(referenced)) && (moment(own) || moment(referenced))
            || time(own) && (span(referenced) || matches!(referenced, TimeTz | TimeTzOf(_))) =>
        {
            let (own, referenced) = (own.base_name(), referenced.base_name());
            let what = format!("a foreign key of type {own} that references type {referenced}");
            return Err(SqlError::unsupported(what));
        }
        _ => None,
    })
}

/// Values in the form in which they are compared, byte by byte.
fn comparable(array: &ArrayRef, form: Form) -> Result<ArrayRef> {
    let told = |error| from_arrow(&error);
    Ok(match form {
        Form::Same => plain(array),
        Form::Integers => cast(array, &DataType::Int64).map_err(told)?,
        Form::Blankless => {
            let texts = cast(array, &DataType::Utf8View).map_err(told)?;
            let texts = texts.as_string_view().iter();
            Arc::new(StringViewArray::from_iter(
                texts.map(|text| text.map(|text| text.trim_end_matches(' '))),
            ))
        }
        Form::Moments => cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None)).map_err(told)?,
        Form::Numerics => match Values::of(array) {
            Some(values) => plain(&collect(values.iter())),
            None => return Err(SqlError::internal("a key is no number")),
        },
        Form::Floats => match array.as_binary_opt::<i64>() {
            Some(_) => match Values::of(array) {
                Some(values) => {
                    let floats = values.iter().map(|value| value.map(|value| value.to_f64()));
                    plain(&(Arc::new(floats.collect::<Float64Array>()) as ArrayRef))
                }
                None => return Err(SqlError::internal("a key is no number")),
            },
            None => plain(&cast(array, &DataType::Float64).map_err(told)?),
        },
    })
}

/// Equal numerics whatever their display scales, and zeros whatever their signs.
fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::LargeBinary => {
            let keys = array.as_binary::<i64>().iter().map(|value| value.map(compare_key));
            Arc::new(LargeBinaryArray::from_iter(keys))
        }
        DataType::Float32 => Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| value + 0.0),
        ),
        DataType::Float64 => Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| value + 0.0),
        ),
        _ => array.clone(),
    }
}

pub(super) fn all_comparable(columns: &[ArrayRef], forms: &[Form]) -> Result<Vec<ArrayRef>> {
    let pairs = columns.iter().zip(forms);
    pairs.map(|(column, form)| comparable(column, *form)).collect()
}

fn converter(columns: &[ArrayRef]) -> Result<RowConverter> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    RowConverter::new(fields.collect()).map_err(|error| from_arrow(&error))
}

/// The rows in which no column is NULL, and those in which some are and some are not.
pub(super) fn valid(keys: &[ArrayRef]) -> (Vec<u32>, Vec<u32>) {
    let rows = keys.first().map_or(0, |keys| keys.len());
    let nulls: Vec<&NullBuffer> = keys.iter().filter_map(|keys| keys.nulls()).collect();
    if nulls.iter().all(|nulls| nulls.null_count() == 0) {
        return ((0..rows as u32).collect(), Vec::new());
    }
    let (mut valid, mut mixed) = (Vec::new(), Vec::new());
    for row in 0..rows {
        match keys.iter().filter(|keys| keys.is_valid(row)).count() {
            all if all == keys.len() => valid.push(row as u32),
            0 => {}
            _ => mixed.push(row as u32),
        }
    }
    (valid, mixed)
}

pub(super) fn pick(keys: &[ArrayRef], rows: &[u32]) -> Result<Vec<ArrayRef>> {
    let rows = UInt32Array::from(rows.to_vec());
    let picked = keys.iter().map(|keys| take(keys, &rows, None));
    picked.collect::<Result<_, _>>().map_err(|error| from_arrow(&error))
}

/// The rows in which two lists of keys of the same types are not equal.
pub(super) fn different(before: &[ArrayRef], after: &[ArrayRef]) -> Result<Vec<u32>> {
    let told = |error| from_arrow(&error);
    let plain = |keys: &[ArrayRef]| keys.iter().map(plain).collect::<Vec<_>>();
    let (before, after) = (plain(before), plain(after));
    let converter = converter(&before)?;
    let (before, after) = (
        converter.convert_columns(&before).map_err(told)?,
        converter.convert_columns(&after).map_err(told)?,
    );
    let pairs = before.iter().zip(after.iter()).enumerate();
    Ok(pairs
        .filter(|(_, (before, after))| before != after)
        .map(|(row, _)| row as u32)
        .collect())
}

/// A column's values at places of a table: segment and row.
pub(in crate::session::statements) fn gather(
    table: &TableVersion,
    column: usize,
    places: &[(u32, u32)],
) -> Result<ArrayRef> {
    let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut order = Vec::with_capacity(places.len());
    for (segment, row) in places {
        let own = rows.entry(*segment).or_default();
        order.push((*segment, own.len()));
        own.push(*row);
    }
    let numbers: HashMap<u32, usize> = rows.keys().copied().zip(0..).collect();
    let mut parts = Vec::with_capacity(rows.len());
    for (segment, rows) in rows {
        parts.push(table.segments()[segment as usize].take(column, &UInt32Array::from(rows))?);
    }
    match parts.as_slice() {
        [] => Ok(new_empty_array(table.schema().field(column).data_type())),
        [only] => Ok(only.clone()),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            let order: Vec<(usize, usize)> = order.iter().map(|(segment, at)| (numbers[segment], *at)).collect();
            interleave(&parts, &order).map_err(|error| from_arrow(&error))
        }
    }
}

/// What a table has of some keys.
pub(super) struct Found {
    /// For each key whether it is there.
    pub is_there: Vec<bool>,
    /// The first row of each key among those that are there.
    pub distinct: Vec<u32>,
}

/// Looks for rows with these keys, of which none has a NULL, in columns of a table.
pub(super) fn find(
    table: &TableVersion,
    columns: &[usize],
    forms: &[Form],
    keys: &[ArrayRef],
    budget: &Arc<MemoryBudget>,
) -> Result<Found> {
    find_in(table, columns, forms, keys, Some(budget))
}

/// Whether a table has one of these keys, in which a NULL is as another.
pub(super) fn has_any(table: &TableVersion, columns: &[usize], forms: &[Form], keys: &[ArrayRef]) -> Result<bool> {
    // No index finds a NULL.
    let found = find_in(table, columns, forms, keys, None)?;
    Ok(!found.distinct.is_empty())
}

/// By an index where a budget is given.
fn find_in(
    table: &TableVersion,
    columns: &[usize],
    forms: &[Form],
    keys: &[ArrayRef],
    budget: Option<&Arc<MemoryBudget>>,
) -> Result<Found> {
    let keys: Vec<ArrayRef> = keys
        .iter()
        .zip(columns)
        .map(|(keys, column)| adopted(keys, table.schema().field(*column).data_type()))
        .collect();
    let asked = all_comparable(&keys, forms)?;
    let converter = converter(&asked)?;
    let rows = converter.convert_columns(&asked).map_err(|error| from_arrow(&error))?;
    let mut numbers: HashMap<Row<'_>, u32> = HashMap::new();
    let (mut number_of, mut first) = (Vec::with_capacity(rows.num_rows()), Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let next = first.len() as u32;
        let number = *numbers.entry(row).or_insert(next);
        if number == next {
            first.push(at as u32);
        }
        number_of.push(number);
    }
    let mut is_there = vec![false; first.len()];
    let looked_up = match budget {
        Some(budget) if !first.is_empty() => look_up(table, columns, forms, &keys, &first, &mut is_there, budget)?,
        _ => false,
    };
    if !first.is_empty() && !looked_up {
        let mut scan = Scan {
            columns,
            forms,
            converter: &converter,
            numbers: &numbers,
            left: first.len(),
        };
        let ranges: Vec<ColumnStatistics> = keys.iter().map(|keys| ColumnStatistics::of_array(keys)).collect();
        for segment in table.segments().iter() {
            if scan.left > 0 && scan.may_have(segment, &ranges) {
                scan.read(segment, &mut is_there)?;
            }
        }
    }
    Ok(Found {
        distinct: first
            .iter()
            .zip(&is_there)
            .filter(|(_, there)| **there)
            .map(|(row, _)| *row)
            .collect(),
        is_there: number_of.iter().map(|number| is_there[*number as usize]).collect(),
    })
}

/// Keys of an enum that has got other labels since as those of the table's version of it.
fn adopted(keys: &ArrayRef, to: &DataType) -> ArrayRef {
    match (EnumType::of(keys.data_type()), EnumType::of(to)) {
        (Some(from), Some(to)) if from.data_type() != to.data_type() => to.adopt(keys, from),
        _ => keys.clone(),
    }
}

/// An index that begins with these columns in any order, and is exact about them.
fn index<'a>(table: &'a TableVersion, columns: &[usize], forms: &[Form]) -> Option<&'a Index> {
    let exact = |column: &usize| !table.schema().field(*column).data_type().is_floating();
    let plain = |form: &Form| matches!(form, Form::Same | Form::Integers);
    if !columns.iter().all(exact) || !forms.iter().all(plain) {
        return None;
    }
    table.definition().all_indexes().find(|index| {
        let own = index.columns.get(..columns.len());
        own.is_some_and(|own| columns.iter().all(|column| own.contains(column)))
    })
}

/// `find` by an index. False where there is none, or reading the rows costs less.
fn look_up(
    table: &TableVersion,
    columns: &[usize],
    forms: &[Form],
    keys: &[ArrayRef],
    first: &[u32],
    is_there: &mut [bool],
    budget: &Arc<MemoryBudget>,
) -> Result<bool> {
    let rows = usize::try_from(table.rows()).unwrap_or(usize::MAX);
    if !is_worth_lookups(table) || first.len().saturating_mul(LOOKUP_COST) > rows {
        return Ok(false);
    }
    let Some(index) = index(table, columns, forms) else {
        return Ok(false);
    };
    // Where memory is short the rows are read.
    let Ok(Some(reader)) = IndexData::reader_for(table, &index.into(), rows, budget) else {
        return Ok(false);
    };
    let keys = pick(keys, first)?;
    let mut probes = Vec::with_capacity(columns.len());
    for own in &index.columns[..columns.len()] {
        let at = columns.iter().position(|column| column == own);
        let at = at.ok_or_else(|| SqlError::internal("an index lacks a column of a key"))?;
        // A number that its column cannot hold becomes NULL, which is in no row.
        let wanted = table.schema().field(*own).data_type();
        probes.push(cast(&keys[at], wanted).map_err(|error| from_arrow(&error))?);
    }
    let found = reader.equal_rows(&probes, |number, _, _| {
        is_there[number] = true;
        Ok(())
    });
    found.map_err(|error| from_datafusion(&error))?;
    Ok(true)
}

pub(super) fn display(values: &ArrayRef, row: usize) -> String {
    match values.as_binary_opt::<i64>() {
        Some(numerics) => Numeric::from_bytes(numerics.value(row)).to_string(),
        None => shown(values, row),
    }
}
