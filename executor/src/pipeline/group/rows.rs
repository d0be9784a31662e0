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
                let bound = self.bounds[*sum].ok_or("a sum of unknown bounds")?;
                let load = match self.words[*sum].len() {
                    1 => format!("(i64){}", word(flow, *sum, 0)),
                    _ if *own == DataType::Int64 => return Err("a sum that 64 bits may not hold".into()),
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
                let (low, high) =
                    self.bounds[*cell].map_or((i64::MIN.into(), i64::MAX.into()), |bound| (-bound - 1, bound + 1));
                (load, Some(format!("{word} == 0")), Some((low, high)))
            }
            State::FloatSum { sum, count } => {
                let load = format!("bit_cast<f64>({})", word(flow, *sum, 0));
                (load, Some(format!("{} == 0", word(flow, *count, 0))), None)
            }
            _ => return Err(format!("an aggregate of {data_type} that others read")),
        };
        Ok(Col::computed(Given::new(data_type.clone(), load, null, range)))
    }
}
