//! From a fragment's arrays to groups and their aggregates' states on the host.
//!
//! More than 400 lines because keys and states of all kinds are read here, each as its array lies.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, Decimal256Array, Float64Array, Int64Array, StringViewArray,
    UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, i256};
use datafusion::common::{DataFusionError, Result};
use tenon_gpu::pipeline::tiles;
use tenon_gpu::tuning::PIPELINE_TILE;
use tenon_storage::numeric::column::collect;
use tenon_storage::numeric::{Numeric, compare_key};

use super::fragment::{Fragment, Scan};
use super::group::{AggregateState, Grouping, Groups, Key, KeyLocation, NAN_ORDER, NumericNumbers, Values};
use super::run::{Part, Running};
use crate::aggregate::Found;
use crate::gpu_error::to_datafusion;
use crate::keys::from_integer_keys;

/// Where what `groups` reads begins: arrays and bytes.
pub fn parts(grouping: &Grouping) -> Vec<Part> {
    let mut parts: Vec<Part> = grouping.words.iter().flatten().map(|array| (*array, 0)).collect();
    match grouping.groups {
        Groups::Numbered {
            listed: Some((count, numbers)),
            ..
        } => parts.extend([(count, 0), (numbers, 0)]),
        Groups::Listed { count, .. } => parts.push((count, 0)),
        Groups::One | Groups::Numbered { listed: None, .. } => {}
    }
    for key in &grouping.keys {
        match (&key.place, grouping.groups) {
            (
                KeyLocation::Word { word, high, null_bit },
                Groups::Listed {
                    keys, words, capacity, ..
                },
            ) => {
                let column = |word: usize| (keys, word as u64 * capacity * size_of::<u64>() as u64);
                parts.push(column(*word));
                parts.extend(high.map(column));
                parts.extend(null_bit.map(|_| column(words - 1)));
            }
            (KeyLocation::Late { array, null, .. }, _) => {
                parts.push((*array, 0));
                parts.extend(null.map(|null| (null, 0)));
            }
            _ => {}
        }
    }
    parts
}

pub fn groups(fragment: &Fragment, grouping: &Grouping, running: &Running) -> Result<Found> {
    let words = |array: usize, count: usize| running.words::<u64>(array, count).map_err(to_datafusion);
    let counted = |array: usize| -> Result<usize> {
        let count = running.words::<u32>(array, 1).map_err(to_datafusion)?;
        Ok(count.first().map_or(0, |count| *count as usize))
    };
    // Groups as they lie in the arrays; their numbers, where these say what the keys are; and which of them are there.
    let (lying, numbers, present) = match grouping.groups {
        Groups::One => (1, vec![0], None),
        Groups::Numbered {
            slots,
            counted,
            listed: None,
        } => {
            let rows = words(grouping.words[counted][0], slots as usize)?;
            let present: Vec<usize> = (0..rows.len()).filter(|&slot| rows[slot] != 0).collect();
            (
                slots as usize,
                present.iter().map(|&slot| slot as u64).collect(),
                Some(present),
            )
        }
        Groups::Numbered {
            listed: Some((count, numbers)),
            ..
        } => {
            let count = counted(count)?;
            let numbers = running.words::<u32>(numbers, count).map_err(to_datafusion)?;
            (count, numbers.into_iter().map(u64::from).collect(), None)
        }
        Groups::Listed { count, .. } => (counted(count)?, vec![], None),
    };
    let mut cells: Vec<Vec<Vec<u64>>> = vec![];
    for arrays in &grouping.words {
        let mut parts = vec![];
        for array in arrays {
            let all = words(*array, lying)?;
            parts.push(match &present {
                Some(present) => present.iter().map(|&slot| all[slot]).collect(),
                None => all,
            });
        }
        cells.push(parts);
    }
    let count = match grouping.groups {
        Groups::Listed { .. } => lying,
        _ => numbers.len(),
    };
    let keys = grouping
        .keys
        .iter()
        .map(|key| key_column(fragment, grouping, running, key, (&numbers, count)));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let states = grouping.states.iter().map(|state| state_columns(state, &cells));
    Ok((keys, states.collect::<Result<_>>()?, count))
}

/// The columns of an aggregate's state.
pub fn state_columns(state: &AggregateState, cells: &[Vec<Vec<u64>>]) -> Result<Vec<ArrayRef>> {
    let counts = |cell: usize| cells[cell][0].iter().map(|&word| word as i64);
    let seen = |count: usize| {
        Some(counts(count).map(|count| count > 0).collect::<NullBuffer>()).filter(|n| n.null_count() > 0)
    };
    let sums = |cell: usize| -> Vec<i128> {
        match &cells[cell][..] {
            [low, high] => {
                let wide = low.iter().zip(high);
                wide.map(|(&low, &high)| (i128::from(high as i64) << 64) | i128::from(low))
                    .collect()
            }
            words => words[0].iter().map(|&word| i128::from(word as i64)).collect(),
        }
    };
    let sum = |sum: usize, count: usize, data_type: &DataType| -> Result<ArrayRef> {
        Ok(match data_type {
            DataType::Int64 => {
                let narrow = sums(sum).into_iter().map(i64::try_from).collect::<Result<Vec<_>, _>>();
                let narrow = narrow.map_err(|_| DataFusionError::Execution("a sum that the CPU must refuse".into()))?;
                Arc::new(Int64Array::new(narrow.into(), seen(count)))
            }
            _ => Arc::new(Decimal128Array::new(sums(sum).into(), seen(count)).with_data_type(data_type.clone())),
        })
    };
    let floats = |sum: usize, count: usize| -> Result<ArrayRef> {
        let values: Vec<f64> = cells[sum][0].iter().map(|&word| f64::from_bits(word)).collect();
        // Whether that is an error depends on the values.
        if values.iter().any(|sum| !sum.is_finite()) {
            return Err(DataFusionError::Execution("a sum that the CPU must judge".into()));
        }
        Ok(Arc::new(Float64Array::new(values.into(), seen(count))))
    };
    let how_many =
        |count: usize| -> ArrayRef { Arc::new(counts(count).map(|count| count as u64).collect::<UInt64Array>()) };
    Ok(match state {
        AggregateState::Count(cell) => vec![Arc::new(counts(*cell).collect::<Int64Array>())],
        AggregateState::Sum {
            sum: own,
            count,
            data_type,
        } => vec![sum(*own, *count, data_type)?],
        AggregateState::Average {
            sum: own,
            count,
            data_type,
        } => vec![how_many(*count), sum(*own, *count, data_type)?],
        AggregateState::Numeric {
            sum,
            count,
            after,
            shown,
            ..
        } => {
            let own = i64::from(*after);
            let shown: Vec<i64> = match shown {
                Some(cell) => counts(*cell).map(|shown| shown - 1).collect(),
                None => vec![own; cells[*count][0].len()],
            };
            let values = sums(*sum).into_iter().zip(shown).zip(counts(*count));
            let values = values.map(|((sum, shown), count)| match count {
                0 => Ok(Some(Numeric::from(0))),
                _ => numeric(sum, *after, shown).map(Some),
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let nothing = vec![Some(Numeric::from(0)); values.len()];
            vec![
                how_many(*count),
                collect(values.into_iter()),
                collect(nothing.into_iter()),
            ]
        }
        AggregateState::Variance {
            sum,
            squares,
            count,
            scale,
            exact: true,
            ..
        } => {
            let squares = sums(*squares).into_iter().map(i256::from_i128);
            let squares = Decimal256Array::from_iter_values(squares);
            let squares = squares.with_data_type(DataType::Decimal256(76, 2 * scale));
            let sums = Decimal128Array::from_iter_values(sums(*sum));
            let sums = sums.with_data_type(DataType::Decimal128(38, *scale));
            vec![how_many(*count), Arc::new(sums), Arc::new(squares)]
        }
        AggregateState::Variance {
            sum,
            squares,
            count,
            scale,
            exact: false,
            ..
        } => {
            let numerics = |cell: usize, scale: i8| {
                let values = sums(cell).into_iter();
                collect(values.map(|value| Some(Numeric::of_i128(value, scale))))
            };
            vec![how_many(*count), numerics(*sum, *scale), numerics(*squares, 2 * scale)]
        }
        AggregateState::FloatSum { sum, count } => vec![floats(*sum, *count)?],
        AggregateState::FloatAverage { sum, count } => vec![how_many(*count), floats(*sum, *count)?],
        AggregateState::Extreme {
            cell,
            of,
            least,
            data_type,
        } => {
            let words = &cells[*cell][0];
            let distances: Vec<u128> = match &cells[*cell][..] {
                [low, high] => low
                    .iter()
                    .zip(high)
                    .map(|(&low, &high)| wide_number(low, high))
                    .collect(),
                _ => words.iter().map(|&word| word.into()).collect(),
            };
            let nulls: NullBuffer = distances.iter().map(|distance| *distance != 0).collect();
            let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
            vec![match of {
                Values::Numbers { first, last, numeric } => {
                    let number = |distance: &u128| match (*distance, least) {
                        (0, _) => 0,
                        (distance, true) => last - (distance - 1) as i128,
                        (distance, false) => first + (distance - 1) as i128,
                    };
                    whole_numbers(
                        distances.iter().map(number).collect(),
                        nulls,
                        data_type,
                        numeric.as_ref(),
                    )?
                }
                Values::Texts(texts) => {
                    let place = |word: &u64| match least {
                        true => (texts.len() as u64).wrapping_sub(*word) as u32,
                        false => word.wrapping_sub(1) as u32,
                    };
                    let places: Vec<u32> = words.iter().map(place).collect();
                    take(texts, &UInt32Array::new(places.into(), nulls), None)?
                }
                Values::Floats => {
                    let own = |word: &u64| match least {
                        true => NAN_ORDER.wrapping_sub(word.wrapping_sub(1)),
                        false => word.wrapping_sub(1),
                    };
                    let floats: Vec<f64> = words.iter().map(|word| of_order_word(own(word))).collect();
                    cast(&Float64Array::new(floats.into(), nulls), data_type)?
                }
            }]
        }
    })
}

/// A number of two words, as the kernels have it.
fn wide_number(low: u64, high: u64) -> u128 {
    u128::from(high >> 1) << 64 | u128::from(low)
}

/// Whole numbers as values of a type.
fn whole_numbers(
    values: Vec<i128>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    of: Option<&NumericNumbers>,
) -> Result<ArrayRef> {
    if let Some(of) = of {
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let values = values.into_iter().enumerate().map(|(row, number)| {
            let (value, shown) = of.told(number);
            (!is_null(row)).then(|| numeric(value, of.after, shown)).transpose()
        });
        return Ok(collect(values.collect::<Result<Vec<_>>>()?.into_iter()));
    }
    if let DataType::Decimal128(..) = data_type {
        let array = Decimal128Array::new(values.into(), nulls);
        return Ok(Arc::new(array.with_data_type(data_type.clone())));
    }
    let lanes: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
    from_integer_keys(&lanes, nulls, data_type)
}

/// A decimal as the numeric that shows so many digits after the point.
pub fn numeric(unscaled: i128, after: i8, shown: i64) -> Result<Numeric> {
    let own = Numeric::of_i128(unscaled, after);
    match shown == i64::from(after) {
        true => Ok(own),
        false => own
            .round(shown)
            .map_err(|error| DataFusionError::Execution(format!("a numeric of the device: {error:?}"))),
    }
}

/// The float of an `order_word`, as the kernels have it.
fn of_order_word(word: u64) -> f64 {
    f64::from_bits(if word >> 63 == 1 { word ^ 1 << 63 } else { !word })
}

fn key_column(
    fragment: &Fragment,
    grouping: &Grouping,
    running: &Running,
    key: &Key,
    (numbers, count): (&[u64], usize),
) -> Result<ArrayRef> {
    let mut upper = None;
    let (lanes, valid): (Vec<i64>, Option<Vec<bool>>) = match (&key.place, grouping.groups) {
        (
            KeyLocation::Digit {
                stride,
                span,
                low,
                nullable,
                ..
            },
            _,
        ) => {
            let digits: Vec<u64> = numbers.iter().map(|number| number / stride % span).collect();
            let valid = nullable.then(|| digits.iter().map(|digit| *digit != span - 1).collect());
            (
                digits.into_iter().map(|digit| low.wrapping_add(digit as i64)).collect(),
                valid,
            )
        }
        (
            KeyLocation::Word { word, high, null_bit },
            Groups::Listed {
                keys, words, capacity, ..
            },
        ) => {
            let column = |word: usize| {
                let first = word as u64 * capacity;
                running.words_from::<u64>(keys, first, count).map_err(to_datafusion)
            };
            let valid = match null_bit {
                Some(bit) => Some(
                    column(words - 1)?
                        .into_iter()
                        .map(|bits| bits >> bit & 1 == 0)
                        .collect(),
                ),
                None => None,
            };
            upper = high.map(column).transpose()?;
            (column(*word)?.into_iter().map(|word| word as i64).collect(), valid)
        }
        (
            KeyLocation::Late {
                array,
                scan,
                column,
                null,
            },
            _,
        ) => {
            let positions = running.words::<u32>(*array, count).map_err(to_datafusion)?;
            let nulls = match null {
                Some(null) => Some(running.words::<u8>(*null, count).map_err(to_datafusion)?),
                None => None,
            };
            return at_positions(&fragment.scans[*scan], *column, &positions, nulls);
        }
        _ => return Err(DataFusionError::Internal("a key that is nowhere".into())),
    };
    let nulls = valid.map(NullBuffer::from).filter(|nulls| nulls.null_count() > 0);
    match &key.texts {
        Some(texts) => {
            let codes = lanes.iter().enumerate().map(|(at, code)| match &nulls {
                Some(nulls) if nulls.is_null(at) => None,
                _ => Some(*code as u32),
            });
            Ok(take(texts, &codes.collect::<UInt32Array>(), None)?)
        }
        None if key.data_type == DataType::Utf8View => Ok(short_texts(&lanes, nulls)),
        None if key.of_numeric || upper.is_some() => {
            let values = lanes.iter().enumerate().map(|(at, &low)| match &upper {
                Some(upper) => i128::from(upper[at] as i64) << 64 | i128::from(low as u64),
                None => low.into(),
            });
            if !key.of_numeric {
                return whole_numbers(values.collect(), nulls, &key.data_type, None);
            }
            let after = match key.data_type {
                DataType::Decimal128(_, after) => after,
                _ => 0,
            };
            let keys = values.map(|value| Numeric::of_i128(value, after).to_bytes());
            let keys = keys.enumerate().map(|(at, bytes)| {
                let present = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
                present.then(|| compare_key(&bytes).to_vec())
            });
            Ok(Arc::new(keys.collect::<BinaryArray>()))
        }
        None => from_integer_keys(&lanes, nulls, &key.data_type),
    }
}

/// Texts of at most seven bytes, from the lowest byte on; the highest is how many they are.
fn short_texts(words: &[i64], nulls: Option<NullBuffer>) -> ArrayRef {
    let texts = words.iter().enumerate().map(|(at, word)| {
        let bytes = word.to_le_bytes();
        let text = bytes[..7].get(..usize::from(bytes[7])).unwrap_or_default();
        let present = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
        present.then(|| String::from_utf8_lossy(text).into_owned())
    });
    Arc::new(texts.collect::<StringViewArray>())
}

/// A column's values at these positions of its table.
pub fn at_positions(scan: &Scan, column: usize, positions: &[u32], nulls: Option<Vec<u8>>) -> Result<ArrayRef> {
    let segments = scan.table.segments();
    let tiles = tiles(segments.iter().map(|segment| segment.rows()));
    let is_null = |at: usize| nulls.as_ref().is_some_and(|nulls| nulls[at] != 0);
    let mut rows: Vec<(u32, u32, u32)> = vec![];
    for (at, position) in positions.iter().enumerate().filter(|(at, _)| !is_null(*at)) {
        let tile = tiles.get((position / PIPELINE_TILE) as usize);
        let tile = tile.ok_or_else(|| DataFusionError::Internal("a position in no tile".into()))?;
        rows.push((tile.segment, tile.start + position % PIPELINE_TILE, at as u32));
    }
    rows.sort_unstable();
    let mut parts = vec![];
    for run in rows.chunk_by(|a, b| a.0 == b.0) {
        let picked: UInt32Array = run.iter().map(|(_, row, _)| *row).collect::<Vec<_>>().into();
        let segment = &segments[run[0].0 as usize];
        parts.push(
            segment
                .take(column, &picked)
                .map_err(|error| DataFusionError::External(Box::new(error)))?,
        );
    }
    let data_type = scan.table.schema().field(column).data_type();
    let all = match parts.is_empty() {
        true => arrow::array::new_empty_array(data_type),
        false => concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>())?,
    };
    // Where each group's value is among those.
    let mut places: Vec<Option<u32>> = vec![None; positions.len()];
    for (place, (_, _, at)) in rows.iter().enumerate() {
        places[*at as usize] = Some(place as u32);
    }
    Ok(take(&all, &UInt32Array::from(places), None)?)
}

/// Whether the types of keys are those that the plan promises.
pub fn fits(keys: &[ArrayRef], types: impl Iterator<Item = DataType>) -> bool {
    keys.iter().map(|key| key.data_type().clone()).eq(types)
}
