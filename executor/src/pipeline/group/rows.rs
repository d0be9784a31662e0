//! Groups as the rows of a further pipeline.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::super::aggregated::{Aggregated, Cell};
use super::super::col::Col;
use super::super::flow::{Flow, SHORT_TEXT};
use super::super::fragment::{Fragment, Input, Source};
use super::{Grouping, Groups, Key, KeyLocation};
use crate::aggregate::GroupSpec;
use crate::codegen::{Given, Translated, c_number};

impl Grouping {
    /// The groups as rows.
    pub fn flow(&self, fragment: &mut Fragment, spec: &GroupSpec) -> Translated<Flow> {
        let (source, rows_max, room) = match self.groups {
            Groups::One => (Source::Numbers(1), 1, 1),
            Groups::Numbered { slots, .. } => (Source::Numbers(slots), slots, slots),
            Groups::Listed {
                count,
                groups_max,
                capacity,
                ..
            } => (Source::Made { count, room: capacity }, groups_max, capacity),
        };
        let mut flow = Flow::new(source, Arc::clone(&spec.schema), rows_max);
        flow.room = room;
        flow.stage = self.stage;
        if let Groups::Numbered { counted, .. } = self.groups {
            let counted = flow.array(Input::Array(self.words[counted][0]), "const u64");
            flow.only_if(&format!("{counted}[row] != 0"));
        }
        let mut columns = vec![];
        for key in &self.keys {
            let mut column = self.key_column(fragment, &mut flow, key);
            column.unique = self.keys.len() == 1;
            column.equals = key.equals;
            columns.push(column);
        }
        for at in 0..self.states.len() {
            columns.push(self.value_column(&mut flow, at, spec)?);
        }
        flow.enter(Arc::clone(&spec.schema), columns);
        Ok(flow)
    }

    fn key_column(&self, fragment: &mut Fragment, flow: &mut Flow, key: &Key) -> Col {
        let (word, null) = match (&key.place, self.groups) {
            (
                KeyLocation::Digit {
                    stride,
                    span,
                    low,
                    in_pass,
                    nullable,
                },
                _,
            ) => {
                let digit = format!("(row / {stride}ull % {span}ull)");
                let null = nullable.then(|| format!("{digit} == {}ull", span - 1));
                let low = match in_pass {
                    true => flow.pass_bounds().0,
                    false => c_number((*low).into()),
                };
                // The word of null is nobody's: what is looked up by it must be there.
                let word = match &null {
                    Some(null) => format!("({null} ? {low} : {low} + (i64){digit})"),
                    None => format!("({low} + (i64){digit})"),
                };
                (word, null)
            }
            (
                KeyLocation::Word { word, high, null_bit },
                Groups::Listed {
                    keys, words, capacity, ..
                },
            ) => {
                let keys = flow.array(Input::Array(keys), "const u64");
                let room = flow.number(capacity);
                let last = words - 1;
                let null = null_bit.map(|bit| format!("({keys}[{last}u * {room} + row] >> {bit} & 1) != 0"));
                let word = format!("{keys}[{word}u * {room} + row]");
                let word = match high {
                    Some(high) => format!("bits_128({keys}[{high}u * {room} + row], {word})"),
                    None => format!("(i64){word}"),
                };
                (word, null)
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
            let text = format!("{SHORT_TEXT}&{})", word.trim_start_matches("(i64)"));
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
    fn value_column(&self, flow: &mut Flow, at: usize, spec: &GroupSpec) -> Translated<Col> {
        let (state, cells) = self.states[at].apart();
        let cells = cells.into_iter().map(|cell| {
            let words = self.words[cell].iter();
            let words = words.map(|word| format!("{}[row]", flow.array(Input::Array(*word), "const u64")));
            Cell {
                words: words.collect(),
                bound: self.bounds[cell].0,
                each: self.bounds[cell].1,
            }
        });
        let own = Aggregated {
            aggregate: Arc::clone(&spec.aggregates[at]),
            state,
            cells: cells.collect(),
            rows_max: self.rows_max,
        };
        own.column(spec.schema.field(self.keys.len() + at).data_type())
    }
}
