//! Values of window functions for the row at hand, `row` being its place in the order.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

use super::super::aggregated::Aggregated;
use super::super::col::Col;
use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input};
use super::super::group::AggregateState;
use super::function::{Bound, By, Frame, Function, Number, Way};
use super::inputs::Summed;
use super::{Numbered, Ordered, name, translated};
use crate::codegen::{Given, Translated, Value};

/// Names of the places from which and up to which rows are of the row's partition, and are its peers.
pub struct Bounds {
    first: String,
    last: String,
    first_peer: String,
    last_peer: String,
    /// How many beginnings of peers there are before each row.
    peers_before: Option<usize>,
}

impl Bounds {
    pub fn of(flow: &mut Flow, parts: Option<Numbered>, peers: Option<Numbered>) -> Self {
        let mut within = |numbered: Option<Numbered>| {
            numbered.map(|own| {
                let before = flow.array(Input::Array(own.before), "const u32");
                let starts = flow.array(Input::Array(own.starts), "const u32");
                let number = name(flow, "u32", format!("{before}[row + 1]"));
                let first = name(flow, "u32", format!("{starts}[{number} - 1]"));
                (first, name(flow, "u32", format!("{starts}[{number}]")))
            })
        };
        let (first, last) = within(parts).unwrap_or(("0u".into(), "(u32)rows_all".into()));
        let (first_peer, last_peer) = within(peers).unwrap_or((first.clone(), last.clone()));
        Self {
            first,
            last,
            first_peer,
            last_peer,
            peers_before: peers.map(|peers| peers.before),
        }
    }
}

/// What finds the values.
pub struct Values<'a> {
    pub fragment: &'a mut Fragment,
    pub flow: &'a mut Flow,
    pub ordered: &'a Ordered,
    pub bounds: Bounds,
    /// Names of where frames begin and end.
    pub frames: Vec<(Frame, (String, String))>,
}

impl Values<'_> {
    pub fn column(
        &mut self,
        function: &Function,
        state: Option<&AggregateState>,
        cells: &[Summed],
        data_type: &DataType,
    ) -> Translated<Col> {
        let column = match (function, state) {
            (Function::Number(number), _) => self.number(*number, data_type),
            (Function::Shifted { value, by, default }, _) => self.shifted(value, by, default.as_ref())?,
            (Function::Edge { value, last, frame }, _) => {
                let (start, end) = self.frame(*frame);
                let missing = name(self.flow, "bool", format!("{start} >= {end}"));
                let place = if *last { format!("{end} - 1") } else { start };
                self.value_at(value, &missing, &place)?
            }
            (Function::Aggregate(aggregate, frame), Some(state)) => {
                let (start, end) = self.frame(*frame);
                let (state, own) = state.apart();
                let cells = own.into_iter().map(|cell| cells[cell].over(self.flow, (&start, &end)));
                let own = Aggregated {
                    aggregate: Arc::clone(aggregate),
                    state,
                    cells: cells.collect(),
                    rows_max: Some(self.flow.rows_max),
                };
                return own.column(data_type);
            }
            (Function::Aggregate(aggregate, _), None) => return Err(format!("no state of {}", aggregate.name())),
        };
        match column.given.data_type == *data_type {
            true => Ok(column),
            false => Err(format!("a window function of {}", column.given.data_type)),
        }
    }

    fn number(&mut self, number: Number, data_type: &DataType) -> Col {
        let Bounds {
            first,
            last,
            first_peer,
            last_peer,
            peers_before,
        } = &self.bounds;
        let rank = format!("({first_peer} - {first})");
        let number = match number {
            Number::Row => format!("(i64)(row - {first}) + 1"),
            Number::Rank => format!("(i64){rank} + 1"),
            Number::DenseRank => match peers_before {
                Some(before) => {
                    let before = self.flow.array(Input::Array(*before), "const u32");
                    format!("(i64)({before}[row + 1] - {before}[{first} + 1]) + 1")
                }
                None => "(i64)1".into(),
            },
            Number::PercentRank => format!("{last} - {first} > 1 ? (f64){rank} / (f64)({last} - {first} - 1) : 0.0"),
            Number::CumeDist => format!("(f64)({last_peer} - {first}) / (f64)({last} - {first})"),
        };
        let range = (*data_type != DataType::Float64).then_some((1, i128::from(u32::MAX)));
        Col::computed(Given::new(data_type.clone(), format!("({number})"), None, range))
    }

    /// Names of where a frame of the row begins and ends.
    fn frame(&mut self, frame: Frame) -> (String, String) {
        if let Some((_, known)) = self.frames.iter().find(|(own, _)| *own == frame) {
            return known.clone();
        }
        let Bounds { first, last, .. } = &self.bounds;
        let place = |bound: Bound, peer: &str, after: i64| match bound {
            Bound::First => first.clone(),
            Bound::Last => last.clone(),
            Bound::Peer => peer.into(),
            Bound::Row(by) => {
                let place = format!("(i64)row + {}ll", by + after);
                format!("(u32)min_of<i64>(max_of<i64>({place}, (i64){first}), (i64){last})")
            }
        };
        let start = place(frame.start, &self.bounds.first_peer, 0);
        let end = place(frame.end, &self.bounds.last_peer, 1);
        let start = name(self.flow, "u32", start);
        let end = name(self.flow, "u32", format!("max_of<u32>({end}, {start})"));
        self.frames.push((frame, (start.clone(), end.clone())));
        (start, end)
    }

    fn shifted(&mut self, value: &PhysicalExprRef, by: &By, default: Option<&PhysicalExprRef>) -> Translated<Col> {
        self.at_hand();
        let (place, unknown) = match by {
            By::Constant(by) => (format!("(i64)row + {by}ll"), None),
            By::Row(by, way) => {
                let by = translated(self.flow, by)?;
                if by.data_type != DataType::Int64 {
                    return Err(format!("places of {}", by.data_type));
                }
                // What is further than all rows is as far as they are.
                let by_at_most = format!("min_of<i64>(max_of<i64>({}, -(1ll << 40)), 1ll << 40)", by.value);
                let sign = if *way == Way::Back { "-" } else { "+" };
                (format!("(i64)row {sign} {by_at_most}"), by.null)
            }
        };
        let default = default.map(|default| translated(self.flow, default)).transpose()?;
        let place = name(self.flow, "i64", place);
        let Bounds { first, last, .. } = &self.bounds;
        let outside = format!("{place} < (i64){first} || {place} >= (i64){last}");
        let outside = name(self.flow, "bool", outside);
        let missing = match &unknown {
            Some(null) => name(self.flow, "bool", format!("{null} || {outside}")),
            None => outside.clone(),
        };
        let column = self.value_at(value, &missing, &place)?;
        let Some(default) = default else {
            return Ok(column);
        };
        let value = Value {
            null: column.given.null.clone().or(Some(missing)),
            ..self.named(&column)?
        };
        let takes = match &unknown {
            Some(null) => name(self.flow, "bool", format!("!{null} && {outside}")),
            None => outside,
        };
        let chosen = self.flow.translator.chosen(vec![(takes, default)], Some(value))?;
        Ok(Col::computed(Given::of(chosen)))
    }

    /// A column's value with a name.
    fn named(&mut self, column: &Col) -> Translated<Value> {
        let schema = self.ordered.schema.clone();
        let mut columns = self.flow.current();
        columns.push(column.clone());
        let at = columns.len() - 1;
        self.flow.enter(schema, columns);
        self.flow.translator.value_of(at)
    }

    /// The row's own columns are at hand.
    fn at_hand(&mut self) {
        let at = self.ordered.at(self.flow, "row");
        self.ordered.enter(self.fragment, self.flow, &at, None);
    }

    /// A value of the row of another place; null where that is missing.
    fn value_at(&mut self, value: &PhysicalExprRef, missing: &str, place: &str) -> Translated<Col> {
        let at = self
            .ordered
            .at(self.flow, &format!("({missing} ? row : (u32)({place}))"));
        self.ordered.enter(self.fragment, self.flow, &at, Some(missing));
        let column = match value.downcast_ref::<Column>() {
            Some(column) => self.flow.current().get(column.index()).cloned(),
            None => None,
        };
        if let Some(column) = column {
            return Ok(column);
        }
        let value = translated(self.flow, value)?;
        let null = match &value.null {
            Some(null) => name(self.flow, "bool", format!("{missing} || {null}")),
            None => missing.into(),
        };
        Ok(Col::computed(Given::of(Value {
            null: Some(null),
            ..value
        })))
    }
}
