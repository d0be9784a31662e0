//! An aggregate's value out of the words of its state: as code where a pipeline goes on with it, and by the aggregate's own
//! accumulator where the host reads it.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::col::Col;
use super::group::{AggregateState, Values};
use super::result::state_columns;
use crate::codegen::{Given, Translated, c_number};

/// An aggregate of the row at hand.
pub struct Aggregated {
    pub aggregate: Arc<AggregateFunctionExpr>,
    /// Over these cells.
    pub state: AggregateState,
    pub cells: Vec<Cell>,
    /// It is of at most so many rows, where that is known.
    pub rows_max: Option<u64>,
}

/// C++ of a cell's words, the lowest first; the largest magnitude of its value, and of one row's.
#[derive(Clone)]
pub struct Cell {
    pub words: Vec<String>,
    pub bound: Option<i128>,
    pub each: Option<i128>,
}

impl Aggregated {
    /// As a column of this type.
    pub fn column(self, data_type: &DataType) -> Translated<Col> {
        let given = self.given(data_type)?;
        Ok(Col {
            aggregated: Some(Arc::new(self)),
            ..Col::computed(given)
        })
    }

    fn given(&self, data_type: &DataType) -> Translated<Given> {
        let word = |cell: usize, word: usize| &self.cells[cell].words[word];
        let (load, null, range) = match &self.state {
            AggregateState::Count(count) => (format!("(i64){}", word(*count, 0)), None, Some((0, 1 << 48))),
            AggregateState::Sum {
                sum,
                count,
                data_type: own,
            } => {
                let mut bound = self.cells[*sum].bound.ok_or("a sum of unknown bounds")?;
                let load = match self.cells[*sum].words.len() {
                    1 => format!("(i64){}", word(*sum, 0)),
                    _ if *own == DataType::Int64 => {
                        bound = bound.min(i64::MAX.into());
                        format!("sum_of_64({}, {}, p)", word(*sum, 1), word(*sum, 0))
                    }
                    _ => format!("bits_128({}, {})", word(*sum, 1), word(*sum, 0)),
                };
                let null = Some(format!("{} == 0", word(*count, 0)));
                let load = if own == data_type {
                    load
                } else {
                    format!("(i128){load}")
                };
                let range = Some((-bound, bound));
                // A numeric is a decimal here.
                let data_type = if own == data_type { data_type } else { &as_decimal(own) };
                return Ok(Given::new(data_type.clone(), load, null, range));
            }
            AggregateState::Extreme {
                cell,
                of,
                least,
                data_type: own,
            } if own == data_type => {
                let (null, word) = (Some(format!("{} == 0", word(*cell, 0))), word(*cell, 0));
                let (first, last) = match of {
                    Values::Numbers { first, last } => (first, last),
                    Values::Texts(texts) => {
                        let code = match least {
                            true => format!("(u32)({}ull - {word})", texts.len()),
                            false => format!("(u32)({word} - 1)"),
                        };
                        // What is looked up by the code is looked up where there is none, too.
                        let code = format!("({word} == 0 ? 0u : {code})");
                        return Ok(Given::coded(Arc::clone(texts), code, null));
                    }
                    Values::Floats => {
                        let own_word = if *least {
                            format!("NAN_ORDER - ({word} - 1)")
                        } else {
                            format!("{word} - 1")
                        };
                        let load = format!("of_order_word({own_word})");
                        let load = if *own == DataType::Float32 {
                            format!("(f32){load}")
                        } else {
                            load
                        };
                        return Ok(Given::new(own.clone(), load, null, None));
                    }
                };
                let (from, sign) = if *least { (last, "-") } else { (first, "+") };
                let load = format!("({} {sign} (i64)({word} - 1))", c_number((*from).into()));
                let (low, high) = self.cells[*cell]
                    .bound
                    .map_or((i64::MIN.into(), i64::MAX.into()), |bound| (-bound - 1, bound + 1));
                if *own == DataType::Boolean {
                    return Ok(Given::new(own.clone(), format!("{load} != 0"), null, None));
                }
                (load, null, Some((low, high)))
            }
            AggregateState::Average {
                sum,
                count,
                data_type: own,
            } => return self.average((*sum, *count), own),
            AggregateState::FloatSum { sum, count } => {
                let load = format!("finite_sum({}, p)", word(*sum, 0));
                (load, Some(format!("{} == 0", word(*count, 0))), None)
            }
            _ => return Err(format!("an aggregate of {data_type} that others read")),
        };
        Ok(Given::new(data_type.clone(), load, null, range))
    }

    /// An average of decimals or integers, as a decimal of the most digits that PostgreSQL's may have after the point.
    fn average(&self, (sum, count): (usize, usize), own: &DataType) -> Translated<Given> {
        let refused = "an average of too many digits";
        let DataType::Decimal128(_, after) = own else {
            return Err(refused.into());
        };
        let value = match &self.cells[sum].words[..] {
            [word] => format!("(i128)(i64){word}"),
            [low, high, ..] => format!("bits_128({high}, {low})"),
            [] => return Err(refused.into()),
        };
        let rows = &self.cells[count].words[0];
        let digits = average_scale_max(*after, self.rows_max.unwrap_or(1 << 48));
        let unit = 10i128.checked_pow(digits as u32 - *after as u32).ok_or(refused)?;
        // An average is not beyond its values.
        let bound = self.cells[sum].each;
        let bound = bound
            .and_then(|each| each.checked_add(1)?.checked_mul(unit))
            .ok_or(refused)?;
        let data_type = DataType::Decimal128(38, digits);
        let load = format!("average(p, {value}, {rows}, {after}, {digits})");
        Ok(Given::new(
            data_type,
            load,
            Some(format!("{rows} == 0")),
            Some((-bound, bound)),
        ))
    }

    /// The values of so many rows, of whose cells these are the words.
    pub fn values(&self, cells: &[Vec<Vec<u64>>], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(data_type));
        }
        let states = state_columns(&self.state, cells)?;
        let mut values = self.aggregate.create_groups_accumulator()?;
        let each: Vec<usize> = (0..rows).collect();
        values.merge_batch(&states, &each, rows)?;
        values.evaluate(EmitTo::All)
    }
}

/// Whole numbers as decimals.
fn as_decimal(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Decimal128(_, after) => DataType::Decimal128(38, *after),
        _ => DataType::Decimal128(38, 0),
    }
}

/// The most digits after the point that the average of so many values with `after` digits has: PostgreSQL's
/// `select_div_scale` with the smallest sum and the largest count.
fn average_scale_max(after: i8, rows_max: u64) -> i8 {
    let sum = (-i32::from(after)).div_euclid(4);
    let count = rows_max.max(1).ilog10() as i32 / 4;
    (16 - 4 * (sum - count - 1)).clamp(after.into(), 127) as i8
}
