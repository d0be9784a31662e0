//! Groups as the rows of a further pipeline.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::super::flow::{Col, Flow};
use super::super::fragment::{Fragment, Input, Source};
use super::cells::State;
use super::{Grouping, Groups, Key, Place};
use crate::aggregate::GroupSpec;
use crate::codegen::{Given, Translated, c_number};

impl Grouping {
    /// The groups as rows.
    pub fn flow(&self, fragment: &mut Fragment, spec: &GroupSpec) -> Translated<Flow> {
        let (source, rows_max) = match self.groups {
            Groups::One => (Source::Numbers(1), 1),
            Groups::Numbered { slots, .. } => (Source::Numbers(slots), slots),
            Groups::Listed { count, capacity, .. } => (
                Source::Made {
                    count,
                    rows_max: capacity,
                },
                capacity,
            ),
        };
        let mut flow = Flow::new(source, Arc::clone(&spec.schema), rows_max);
        if let Groups::Numbered { counted, .. } = self.groups {
            let counted = flow.array(Input::Array(self.words[counted][0]), "const u64");
            flow.only_if(&format!("{counted}[row] != 0"));
        }
        let mut columns = vec![];
        for key in &self.keys {
            let mut column = self.key_column(fragment, &mut flow, key);
            column.unique = self.keys.len() == 1;
            columns.push(column);
        }
        for (state, field) in self.states.iter().zip(&spec.schema.fields()[self.keys.len()..]) {
            columns.push(self.value_column(&mut flow, state, field.data_type())?);
        }
        flow.enter(Arc::clone(&spec.schema), columns);
        Ok(flow)
    }

    fn key_column(&self, fragment: &mut Fragment, flow: &mut Flow, key: &Key) -> Col {
        let (word, null) = match (&key.place, self.groups) {
            (
                Place::Digit {
                    stride,
                    span,
                    low,
                    nullable,
                },
                _,
            ) => {
                let digit = format!("(row / {stride}ull % {span}ull)");
                let null = nullable.then(|| format!("{digit} == {}ull", span - 1));
                (format!("({} + (i64){digit})", c_number((*low).into())), null)
            }
            (
                Place::Word { word, null_bit },
                Groups::Listed {
                    keys, words, capacity, ..
                },
            ) => {
                let keys = flow.array(Input::Array(keys), "const u64");
                let room = flow.number(capacity);
                let last = words - 1;
                let null = null_bit.map(|bit| format!("({keys}[{last}u * {room} + row] >> {bit} & 1) != 0"));
                (format!("(i64){keys}[{word}u * {room} + row]"), null)
            }
            (
                Place::Late {
                    array,
                    scan,
                    column,
                    null,
                },
                _,
            ) => {
                let positions = flow.array(Input::Array(*array), "const u32");
                let null = null.map(|null| format!("{}[row] != 0", flow.array(Input::Array(null), "const u8")));
                let late = flow.late(fragment, (*scan, *column), format!("{positions}[row]"));
                return Col {
                    given: late.given.with_null(null),
                    ..late
                };
            }
            _ => return Col::unread(&key.data_type),
        };
        if key.data_type == DataType::Utf8View && key.texts.is_none() {
            let text = format!("short_text(&{})", word.trim_start_matches("(i64)"));
            return Col::computed(Given::new(key.data_type.clone(), text, null, None));
        }
        Col::computed(match &key.texts {
            Some(texts) => Given::coded(Arc::clone(texts), format!("(u32){word}"), null),
            None if key.data_type == DataType::Boolean => {
                Given::new(key.data_type.clone(), format!("{word} != 0"), null, None)
            }
            None => {
                // Null rows are computed with.
                let (low, high) = key.range;
                Given::new(key.data_type.clone(), word, null, Some((low.min(0), (high + 1).max(0))))
            }
        })
    }

    /// An aggregate's value.
    fn value_column(&self, flow: &mut Flow, state: &State, data_type: &DataType) -> Translated<Col> {
        let word = |flow: &mut Flow, cell: usize, word: usize| {
            format!("{}[row]", flow.array(Input::Array(self.words[cell][word]), "const u64"))
        };
        let (load, null, range) = match state {
            State::Count(count) => (format!("(i64){}", word(flow, *count, 0)), None, Some((0, 1 << 48))),
            State::Sum {
                sum,
                count,
                data_type: own,
            } if own == data_type => {
                let mut bound = self.bounds[*sum].0.ok_or("a sum of unknown bounds")?;
                let load = match self.words[*sum].len() {
                    1 => format!("(i64){}", word(flow, *sum, 0)),
                    _ if *own == DataType::Int64 => {
                        bound = bound.min(i64::MAX.into());
                        format!("sum_of_64({}, {}, p)", word(flow, *sum, 1), word(flow, *sum, 0))
                    }
                    _ => format!("bits_128({}, {})", word(flow, *sum, 1), word(flow, *sum, 0)),
                };
                (
                    load,
                    Some(format!("{} == 0", word(flow, *count, 0))),
                    Some((-bound, bound)),
                )
            }
            State::Extreme {
                cell,
                from,
                least,
                data_type: own,
            } if own == data_type => {
                let word = word(flow, *cell, 0);
                let sign = if *least { "-" } else { "+" };
                let load = format!("({} {sign} (i64)({word} - 1))", c_number((*from).into()));
                let (low, high) = self.bounds[*cell]
                    .0
                    .map_or((i64::MIN.into(), i64::MAX.into()), |bound| (-bound - 1, bound + 1));
                (load, Some(format!("{word} == 0")), Some((low, high)))
            }
            State::Average {
                sum,
                count,
                data_type: own,
            } => return self.average(flow, (*sum, *count), own),
            State::FloatSum { sum, count } => {
                let load = format!("bit_cast<f64>({})", word(flow, *sum, 0));
                (load, Some(format!("{} == 0", word(flow, *count, 0))), None)
            }
            _ => return Err(format!("an aggregate of {data_type} that others read")),
        };
        Ok(Col::computed(Given::new(data_type.clone(), load, null, range)))
    }

    /// An average of decimals or integers, as a decimal of the most digits that PostgreSQL's may have after the point.
    fn average(&self, flow: &mut Flow, (sum, count): (usize, usize), own: &DataType) -> Translated<Col> {
        let refused = "an average of too many digits";
        let DataType::Decimal128(_, after) = own else {
            return Err(refused.into());
        };
        let word = |flow: &mut Flow, cell: usize, word: usize| {
            format!("{}[row]", flow.array(Input::Array(self.words[cell][word]), "const u64"))
        };
        let value = match self.words[sum].len() {
            1 => format!("(i128)(i64){}", word(flow, sum, 0)),
            _ => format!("bits_128({}, {})", word(flow, sum, 1), word(flow, sum, 0)),
        };
        let rows = word(flow, count, 0);
        let digits = average_scale_max(*after, self.rows_max.unwrap_or(1 << 48));
        let unit = 10i128.checked_pow(digits as u32 - *after as u32).ok_or(refused)?;
        // An average is not beyond its values.
        let bound = self.bounds[sum]
            .1
            .and_then(|each| each.checked_add(1)?.checked_mul(unit))
            .ok_or(refused)?;
        let data_type = DataType::Decimal128(38, digits);
        let load = format!("average(p, {value}, {rows}, {after}, {digits})");
        let null = format!("{rows} == 0");
        Ok(Col::computed(Given::new(
            data_type,
            load,
            Some(null),
            Some((-bound, bound)),
        )))
    }
}

/// The most digits after the point that the average of so many values with `after` digits has: PostgreSQL's
/// `select_div_scale` with the smallest sum and the largest count.
fn average_scale_max(after: i8, rows_max: u64) -> i8 {
    let sum = (-i32::from(after)).div_euclid(4);
    let count = rows_max.max(1).ilog10() as i32 / 4;
    (16 - 4 * (sum - count - 1)).clamp(after.into(), 127) as i8
}
