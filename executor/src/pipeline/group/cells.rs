//! Aggregates as cells: what of each row goes into a group's words, and what these make of it in the end.

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};

use super::super::flow::Flow;
use super::extreme::{Args, Values, extreme};
use crate::codegen::Translated;
use tenon_storage::types::NUMERIC;

/// What of each row a cell takes in.
#[derive(Clone, PartialEq)]
pub struct Taken {
    /// None: every row counts.
    pub arg: Option<PhysicalExprRef>,
    pub filter: Option<PhysicalExprRef>,
    pub how: How,
    /// Values times themselves: what variances are made of.
    pub squared: bool,
    /// Each value once.
    pub distinct: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum How {
    Count,
    Sum,
    Least,
    Greatest,
    FloatSum,
    /// The most digits after the point that a numeric shows, plus one.
    Shown,
}

/// What an aggregate's state is made of, by cells.
#[derive(Clone)]
pub enum AggregateState {
    Count(usize),
    /// Null where nothing was counted. A decimal, or 64 bits, which must hold it.
    Sum {
        sum: usize,
        count: usize,
        data_type: DataType,
    },
    /// How many, and their sum.
    Average {
        sum: usize,
        count: usize,
        data_type: DataType,
    },
    /// Of numerics that are decimals with so many digits after the point: their sum or average; the cell of the most that one
    /// shows, where that is not the same.
    Numeric {
        average: bool,
        sum: usize,
        count: usize,
        after: i8,
        shown: Option<usize>,
    },
    /// How many, their sum and that of their squares: integers, of decimals with so many digits after the point.
    Variance {
        sum: usize,
        squares: usize,
        /// Whether the host has the sums as decimals, not as numerics.
        exact: bool,
        count: usize,
        scale: i8,
        /// Of a sample, not of all there are; whether its root is wanted.
        sample: bool,
        root: bool,
    },
    /// The value's word among those of `of`; 0: there is none.
    Extreme {
        cell: usize,
        of: Values,
        least: bool,
        data_type: DataType,
    },
    FloatSum {
        sum: usize,
        count: usize,
    },
    FloatAverage {
        sum: usize,
        count: usize,
    },
}

impl AggregateState {
    /// The same over cells of its own, and which these are.
    pub fn apart(&self) -> (AggregateState, Vec<usize>) {
        let mut own = self.clone();
        let cells: Vec<&mut usize> = match &mut own {
            Self::Count(count) => vec![count],
            Self::Sum { sum, count, .. }
            | Self::Average { sum, count, .. }
            | Self::FloatSum { sum, count }
            | Self::FloatAverage { sum, count } => vec![sum, count],
            Self::Variance {
                sum, squares, count, ..
            } => vec![sum, squares, count],
            Self::Numeric { sum, count, shown, .. } => [sum, count].into_iter().chain(shown).collect(),
            Self::Extreme { cell, .. } => vec![cell],
        };
        let cells = cells.into_iter().enumerate();
        let cells = cells.map(|(at, cell)| std::mem::replace(cell, at)).collect();
        (own, cells)
    }
}

/// The cells of all aggregates, and what their arguments are in the kernel.
#[derive(Default)]
pub struct Cells {
    pub taken: Vec<Taken>,
    pub args: Args,
}

impl Cells {
    pub fn cell(&mut self, taken: Taken) -> usize {
        let found = self.taken.iter().position(|own| *own == taken);
        found.unwrap_or_else(|| {
            self.taken.push(taken);
            self.taken.len() - 1
        })
    }

    /// What count() counts; None: every row, as where it counts a literal (`count(*)` comes as one) or what is never null.
    fn counted<'a>(&mut self, flow: &mut Flow, arg: &'a PhysicalExprRef) -> Option<&'a PhysicalExprRef> {
        let present = if let Some(literal) = arg.downcast_ref::<Literal>() {
            !literal.value().is_null()
        } else if let Some(column) = arg.downcast_ref::<Column>() {
            let given = flow.current();
            let column = given.get(column.index());
            column.is_some_and(|column| column.given.null.is_none() && !column.given.is_unread())
        } else {
            self.args.value(flow, arg).is_ok_and(|value| value.null.is_none())
        };
        (!present).then_some(arg)
    }

    /// The state of an aggregate; `range` tells what a value can be.
    pub fn state(
        &mut self,
        flow: &mut Flow,
        aggregate: &AggregateFunctionExpr,
        filter: Option<&PhysicalExprRef>,
        distinct: bool,
    ) -> Translated<AggregateState> {
        let refused = || format!("no device form of {}", aggregate.name());
        let (args, states) = (
            aggregate.expressions(),
            aggregate.state_fields().map_err(|error| error.to_string())?,
        );
        let [arg] = &args[..] else { return Err(refused()) };
        if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
            return Err(refused());
        }
        let types: Vec<&DataType> = states.iter().map(|field| field.data_type()).collect();
        let own = arg
            .data_type(&flow.translator.schema)
            .map_err(|error| error.to_string())?;
        // Counts of what is never null are all one.
        let counted = if distinct { Some(arg) } else { self.counted(flow, arg) };
        let taken = |arg: Option<&PhysicalExprRef>, how| Taken {
            arg: arg.cloned(),
            filter: filter.cloned(),
            how,
            squared: false,
            // The least value is the same however often it comes.
            distinct: distinct && !matches!(how, How::Least | How::Greatest),
        };
        let scale_of = |data_type: &DataType| match data_type {
            DataType::Decimal128(_, scale) => Some(*scale),
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
            _ => None,
        };
        Ok(match (aggregate.fun().name(), &types[..]) {
            ("count", [DataType::Int64]) => AggregateState::Count(self.cell(taken(counted, How::Count))),
            ("sum", [to @ (DataType::Decimal128(..) | DataType::Int64)])
                if scale_of(&own).is_some() && scale_of(&own) == scale_of(to) =>
            {
                AggregateState::Sum {
                    sum: self.cell(taken(Some(arg), How::Sum)),
                    count: self.cell(taken(counted, How::Count)),
                    data_type: (*to).clone(),
                }
            }
            ("avg", [DataType::UInt64, to @ DataType::Decimal128(..)])
                if scale_of(&own).is_some() && scale_of(&own) == scale_of(to) =>
            {
                AggregateState::Average {
                    sum: self.cell(taken(Some(arg), How::Sum)),
                    count: self.cell(taken(counted, How::Count)),
                    data_type: (*to).clone(),
                }
            }
            (name @ ("sum" | "avg"), [DataType::UInt64, sums, _]) if own == NUMERIC && **sums == NUMERIC => {
                let value = self.args.value(flow, arg)?;
                let DataType::Decimal128(_, after) = value.data_type else {
                    return Err(format!("{name}() of a numeric of {}", value.data_type));
                };
                AggregateState::Numeric {
                    average: name == "avg",
                    sum: self.cell(taken(Some(arg), How::Sum)),
                    count: self.cell(taken(counted, How::Count)),
                    after,
                    shown: value.shown.map(|_| self.cell(taken(Some(arg), How::Shown))),
                }
            }
            (
                name @ ("var_samp" | "var_pop" | "stddev" | "stddev_pop"),
                [DataType::UInt64, sums, DataType::LargeBinary | DataType::Decimal256(..)],
            ) if scale_of(&own).is_some() => AggregateState::Variance {
                exact: sums.is_decimal(),
                sum: self.cell(taken(Some(arg), How::Sum)),
                squares: self.cell(Taken {
                    squared: true,
                    ..taken(Some(arg), How::Sum)
                }),
                count: self.cell(taken(counted, How::Count)),
                scale: scale_of(&own).unwrap_or(0),
                sample: !name.ends_with("_pop"),
                root: name.starts_with("stddev"),
            },
            ("sum", [DataType::Float64]) if own == DataType::Float64 => AggregateState::FloatSum {
                sum: self.cell(taken(Some(arg), How::FloatSum)),
                count: self.cell(taken(counted, How::Count)),
            },
            ("avg", [DataType::UInt64, DataType::Float64]) if own == DataType::Float64 => {
                AggregateState::FloatAverage {
                    sum: self.cell(taken(Some(arg), How::FloatSum)),
                    count: self.cell(taken(counted, How::Count)),
                }
            }
            (name @ ("min" | "max" | "bool_and" | "bool_or"), [to])
                if **to == own && (own != DataType::Boolean || name.starts_with("bool")) =>
            {
                let found = extreme(flow, &mut self.args, arg)?.ok_or_else(refused)?;
                let least = matches!(name, "min" | "bool_and");
                AggregateState::Extreme {
                    cell: self.cell(taken(Some(arg), if least { How::Least } else { How::Greatest })),
                    of: found.of,
                    least,
                    data_type: own,
                }
            }
            _ => return Err(refused()),
        })
    }
}
