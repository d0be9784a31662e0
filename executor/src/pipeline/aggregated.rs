//! An aggregate's value out of the words of its state: as code where a pipeline goes on with it, and by the aggregate's own
//! accumulator where the host reads it.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::col::Col;
use super::group::{AggregateState, SHOWN_BITS, SHOWN_UNIT, Values};
use super::result::state_columns;
use crate::codegen::{Given, Translated, c_number, c_type};
use tenon_storage::types::NUMERIC;

/// An average has room for so many digits after the point at least: those of all that are not below about 10^-4.
const AVERAGE_DIGITS_LEAST: i8 = 20;
/// How large it may be with all of its digits, so that it can still be computed with; one that is larger has the CPU do the work.
const AVERAGE_MAX: i128 = 10i128.pow(36);
/// A variance has room for so many, unless its values have more themselves: those of all that are not below about 10^-12.
const SPREAD_DIGITS_MAX: i8 = 28;
/// Digits of a decimal of 128 bits.
const DECIMAL_DIGITS: i8 = 38;

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
        // What code cannot read, the host may.
        let given = self
            .given(data_type)
            .unwrap_or_else(|why| Given::refused(data_type.clone(), why));
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
                let words = &self.cells[*cell].words;
                let null = match &words[..] {
                    [low, high] => format!("({low} | {high}) == 0"),
                    _ => format!("{} == 0", words[0]),
                };
                let first_word = &words[0];
                let (first, last, numeric) = match of {
                    Values::Numbers { first, last, numeric } => (*first, *last, numeric),
                    Values::Texts(texts) => {
                        let code = match least {
                            true => format!("(u32)({}ull - {first_word})", texts.len()),
                            false => format!("(u32)({first_word} - 1)"),
                        };
                        // What is looked up by the code is looked up where there is none, too.
                        let code = format!("({first_word} == 0 ? 0u : {code})");
                        return Ok(Given::coded(Arc::clone(texts), code, Some(null)));
                    }
                    Values::Floats => {
                        let own_word = if *least {
                            format!("NAN_ORDER - ({first_word} - 1)")
                        } else {
                            format!("{first_word} - 1")
                        };
                        let load = format!("of_order_word({own_word})");
                        let load = if *own == DataType::Float32 {
                            format!("(f32){load}")
                        } else {
                            load
                        };
                        return Ok(Given::new(own.clone(), load, Some(null), None));
                    }
                };
                let distance = match &words[..] {
                    [low, high] => format!("(i128)(wide_number({low}, {high}) - 1)"),
                    _ => format!("(i128)({first_word} - 1)"),
                };
                let number = match least {
                    true => format!("({} - {distance})", c_number(last)),
                    false => format!("({} + {distance})", c_number(first)),
                };
                // Null rows are computed with.
                let number = format!("({null} ? (i128)0 : (i128){number})");
                let null = Some(null);
                let range = |least: i128, most: i128| Some((least.min(0), most.max(0)));
                if let Some(numeric) = numeric {
                    let own = DataType::Decimal128(38, numeric.after);
                    if !numeric.shown {
                        return Ok(Given::new(own, number, null, range(first, last)));
                    }
                    let range = range(numeric.told(first).0, numeric.told(last).0);
                    let given = Given::new(own, format!("({number} >> {SHOWN_BITS})"), null, range);
                    return Ok(given.with_shown(Some(format!("(i64)({number} & {})", SHOWN_UNIT - 1))));
                }
                if *own == DataType::Boolean {
                    return Ok(Given::new(own.clone(), format!("{number} != 0"), null, None));
                }
                let load = match c_type(own)? {
                    "i64" => format!("(i64){number}"),
                    _ => number,
                };
                (load, null, range(first, last))
            }
            AggregateState::Variance {
                sum,
                squares,
                count,
                scale,
                sample,
                root,
                ..
            } if *data_type == NUMERIC => return self.spread((*sum, *squares, *count), *scale, (*sample, *root)),
            AggregateState::Average {
                sum,
                count,
                data_type: own,
            } => {
                let DataType::Decimal128(_, after) = own else {
                    return Err(format!("an average of {own}"));
                };
                return self.average((*sum, *count), *after, None);
            }
            AggregateState::Numeric {
                average,
                sum,
                count,
                after,
                shown,
            } => {
                let shown = shown.map(|cell| format!("((i64){} - 1)", word(cell, 0)));
                if *average {
                    return self.average((*sum, *count), *after, shown);
                }
                let bound = self.cells[*sum].bound.ok_or("a sum of unknown bounds")?;
                let null = Some(format!("{} == 0", word(*count, 0)));
                let own = DataType::Decimal128(38, *after);
                let given = Given::new(own, self.sum(*sum)?, null, Some((-bound, bound)));
                return Ok(given.with_shown(shown));
            }
            AggregateState::FloatSum { sum, count } => {
                let load = format!("finite_sum({}, p)", word(*sum, 0));
                (load, Some(format!("{} == 0", word(*count, 0))), None)
            }
            _ => return Err(format!("an aggregate of {data_type} that others read")),
        };
        Ok(Given::new(data_type.clone(), load, null, range))
    }

    /// C++ of a sum of 128 bits.
    fn sum(&self, sum: usize) -> Translated<String> {
        match &self.cells[sum].words[..] {
            [word] => Ok(format!("(i128)(i64){word}")),
            [low, high, ..] => Ok(format!("bits_128({high}, {low})")),
            [] => Err("a sum of no words".into()),
        }
    }

    /// An average of numbers with so many digits after the point, of which it shows so many: a decimal of the most digits that
    /// PostgreSQL's may have, or of as many as there is room for. An average that needs more has the CPU do the work.
    fn average(&self, (sum, count): (usize, usize), after: i8, shown: Option<String>) -> Translated<Given> {
        let (value, rows) = (self.sum(sum)?, &self.cells[count].words[0]);
        let each = self.cells[sum].each.and_then(|each| each.checked_add(1));
        let most = average_scale_max(after, self.rows_max.unwrap_or(1 << 48));
        let least = AVERAGE_DIGITS_LEAST.max(after).min(most);
        // An average is not beyond its values.
        let bound = |digits: i8| {
            let unit = 10i128.checked_pow(digits as u32 - after as u32)?;
            each?.checked_mul(unit).filter(|bound| *bound < AVERAGE_MAX)
        };
        let fitting = (least..=most).rev().find_map(|digits| Some((digits, bound(digits)?)));
        // Values may be far less than what is known of them.
        let (digits, bound) = fitting.unwrap_or((least, AVERAGE_MAX));
        if digits > DECIMAL_DIGITS {
            return Err("an average of too many digits".into());
        }
        let shows = shown.clone().unwrap_or_else(|| after.to_string());
        let load = format!(
            "average(p, {value}, {rows}, {after}, {shows}, {digits}, {})",
            c_number(bound)
        );
        let given = Given::new(
            DataType::Decimal128(38, digits),
            load,
            Some(format!("{rows} == 0")),
            Some((-bound, bound)),
        );
        Ok(given.with_shown(Some(format!("average_scale({value}, {rows}, {after}, {shows})"))))
    }

    /// A variance of numbers with so many digits after the point, or its root: likewise a decimal of the most digits that there is
    /// room for.
    fn spread(
        &self,
        (sum, squares, count): (usize, usize, usize),
        after: i8,
        (sample, root): (bool, bool),
    ) -> Translated<Given> {
        let each = self.cells[sum].each.and_then(|each| each.checked_add(1));
        // Two values that are as far from each other as they can be have the largest.
        let (most, own) = match root {
            true => (each.and_then(|each| each.checked_mul(2)), after),
            false => {
                let square = each.and_then(|each| each.checked_mul(each));
                (square.and_then(|square| square.checked_mul(2)), after.saturating_mul(2))
            }
        };
        let bound = |digits: i8| {
            let unit = 10i128.checked_pow(u32::try_from(digits - own).ok()?)?;
            most?.checked_mul(unit).filter(|bound| *bound < AVERAGE_MAX)
        };
        let least = AVERAGE_DIGITS_LEAST.max(own);
        let fitting = (least..=SPREAD_DIGITS_MAX.max(least))
            .rev()
            .find_map(|digits| Some((digits, bound(digits)?)));
        let (digits, bound) = fitting.unwrap_or((least, AVERAGE_MAX));
        if digits > DECIMAL_DIGITS {
            return Err("a variance of too many digits".into());
        }
        let (sum, squares, rows) = (self.sum(sum)?, self.sum(squares)?, &self.cells[count].words[0]);
        let load = format!(
            "spread(p, {sum}, {squares}, {rows}, {after}, {sample}, {root}, {digits}, {})",
            c_number(bound)
        );
        let null = Some(format!("{rows} <= {}", u8::from(sample)));
        let given = Given::new(DataType::Decimal128(38, digits), load, null, Some((0, bound)));
        Ok(given.with_shown(Some(format!(
            "spread_scale({sum}, {squares}, {rows}, {after}, {sample})"
        ))))
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
