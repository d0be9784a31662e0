//! Aggregates as cells: what of each row goes into a group's words, and what these make of it in the end.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};

use super::super::flow::Flow;
use super::Distincts;
use crate::codegen::{Translated, c_number};
use crate::keys::is_integer_key;

/// What of each row a cell takes in.
#[derive(Clone, PartialEq)]
pub struct Taken {
    /// None: every row counts.
    pub arg: Option<PhysicalExprRef>,
    pub filter: Option<PhysicalExprRef>,
    pub how: How,
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
}

/// How a cell's value comes about.
pub struct Update {
    pub how: How,
    /// C++ of when a row counts.
    pub when: Option<String>,
    pub value: String,
    /// Of two words; of a thread's own.
    pub wide: bool,
    own_wide: bool,
    /// The largest magnitude of the cell's value, and that of one row's, where these are known.
    pub bound: Option<i128>,
    pub each: Option<i128>,
}

impl Update {
    pub fn words(&self) -> usize {
        1 + usize::from(self.wide)
    }

    /// Words of a thread's own.
    pub fn own_words(&self) -> usize {
        1 + usize::from(self.own_wide)
    }

    /// C++ that takes a row into the words at these places, which are a thread's own or many threads'.
    pub fn line(&self, words: &[String], own: bool) -> String {
        let Update { value, .. } = self;
        let first = &words[0];
        let line = match (self.how, own) {
            (How::Sum, true) if self.own_wide => format!(
                "{{ i128 sum = bits_128({high}, {first}) + (i128){value}; {first} = (u64)sum; \
                 {high} = (u64)((u128)sum >> 64); }}",
                high = words[1]
            ),
            (How::Sum, false) if self.wide => format!("add_wide(&{first}, &{}, (i128){value});", words[1]),
            (How::Count | How::Sum, true) => format!("{first} += (u64){value};"),
            (How::Count | How::Sum, false) => format!("add_word(&{first}, (u64){value});"),
            (How::FloatSum, true) => format!("{first} = bit_cast<u64>(bit_cast<f64>({first}) + {value});"),
            (How::FloatSum, false) => format!("atomicAdd((f64*)&{first}, {value});"),
            (How::Least | How::Greatest, true) => format!("{first} = max_of<u64>({first}, {value});"),
            (How::Least | How::Greatest, false) => format!("atomicMax(&{first}, {value});"),
        };
        match &self.when {
            Some(when) => format!("if ({when}) {{ {line} }}"),
            None => line,
        }
    }

    /// Code that takes a warp's words at `own` into those at `words`, once.
    pub fn reduced(&self, own: &[String], words: &[String]) -> String {
        let (mine, to) = (&own[0], &words[0]);
        let body = match self.how {
            How::Sum if self.wide => {
                let mine = match own {
                    [low, high] => format!("bits_128({high}, {low})"),
                    _ => format!("(i128)(i64){mine}"),
                };
                format!(
                    "i128 sum = warp_reduce({mine}, Sum()); \
                     if (lane_id() == 0 && sum != 0) add_wide(&{to}, &{}, sum);",
                    words[1]
                )
            }
            How::Count | How::Sum => {
                format!("u64 sum = warp_reduce({mine}, Sum()); if (lane_id() == 0 && sum) add_word(&{to}, sum);")
            }
            How::FloatSum => format!(
                "f64 sum = warp_reduce(bit_cast<f64>({mine}), Sum()); \
                 if (lane_id() == 0 && sum != 0) atomicAdd((f64*)&{to}, sum);"
            ),
            How::Least | How::Greatest => {
                format!("u64 most = warp_reduce({mine}, Max()); if (lane_id() == 0 && most) atomicMax(&{to}, most);")
            }
        };
        format!("    {{ {body} }}\n")
    }

    /// Code that takes a block's words at `own` into those at `words`.
    pub fn flushed(&self, own: &[String], words: &[String]) -> String {
        let (mine, to) = (&own[0], &words[0]);
        match self.how {
            How::Sum if self.wide => format!(
                "if ({mine} | {high}) add_wide(&{to}, &{}, bits_128({high}, {mine}));",
                words[1],
                high = own[1]
            ),
            How::Count | How::Sum => format!("if ({mine}) add_word(&{to}, {mine});"),
            How::FloatSum => format!("if ({mine}) atomicAdd((f64*)&{to}, bit_cast<f64>({mine}));"),
            How::Least | How::Greatest => format!("if ({mine}) atomicMax(&{to}, {mine});"),
        }
    }
}

/// What an aggregate's state is made of, by cells.
#[derive(Clone)]
pub enum State {
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
    /// The word is how far the value is from `from`, less one, downwards where `least`; 0: there is none.
    Extreme {
        cell: usize,
        from: i64,
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

impl State {
    /// The same over cells of its own, and which these are.
    pub fn apart(&self) -> (State, Vec<usize>) {
        let mut own = self.clone();
        let cells: Vec<&mut usize> = match &mut own {
            Self::Count(count) => vec![count],
            Self::Sum { sum, count, .. }
            | Self::Average { sum, count, .. }
            | Self::FloatSum { sum, count }
            | Self::FloatAverage { sum, count } => vec![sum, count],
            Self::Extreme { cell, .. } => vec![cell],
        };
        let cells = cells.into_iter().enumerate();
        let cells = cells.map(|(at, cell)| std::mem::replace(cell, at)).collect();
        (own, cells)
    }
}

/// The cells of all aggregates.
#[derive(Default)]
pub struct Cells(pub Vec<Taken>);

impl Cells {
    pub fn cell(&mut self, taken: Taken) -> usize {
        let found = self.0.iter().position(|own| *own == taken);
        found.unwrap_or_else(|| {
            self.0.push(taken);
            self.0.len() - 1
        })
    }

    /// The state of an aggregate; `range` tells what a value can be.
    pub fn state(
        &mut self,
        flow: &mut Flow,
        aggregate: &AggregateFunctionExpr,
        filter: Option<&PhysicalExprRef>,
        distinct: bool,
    ) -> Translated<State> {
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
        let counted = if distinct { Some(arg) } else { counted_arg(flow, arg) };
        let mut cell = |arg: Option<&PhysicalExprRef>, how| {
            self.cell(Taken {
                arg: arg.cloned(),
                filter: filter.cloned(),
                how,
                // The least value is the same however often it comes.
                distinct: distinct && !matches!(how, How::Least | How::Greatest),
            })
        };
        let scale_of = |data_type: &DataType| match data_type {
            DataType::Decimal128(_, scale) => Some(*scale),
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
            _ => None,
        };
        Ok(match (aggregate.fun().name(), &types[..]) {
            ("count", [DataType::Int64]) => State::Count(cell(counted, How::Count)),
            ("sum", [to @ (DataType::Decimal128(..) | DataType::Int64)])
                if scale_of(&own).is_some() && scale_of(&own) == scale_of(to) =>
            {
                State::Sum {
                    sum: cell(Some(arg), How::Sum),
                    count: cell(counted, How::Count),
                    data_type: (*to).clone(),
                }
            }
            ("avg", [DataType::UInt64, to @ DataType::Decimal128(..)])
                if scale_of(&own).is_some() && scale_of(&own) == scale_of(to) =>
            {
                State::Average {
                    sum: cell(Some(arg), How::Sum),
                    count: cell(counted, How::Count),
                    data_type: (*to).clone(),
                }
            }
            ("sum", [DataType::Float64]) if own == DataType::Float64 => State::FloatSum {
                sum: cell(Some(arg), How::FloatSum),
                count: cell(counted, How::Count),
            },
            ("avg", [DataType::UInt64, DataType::Float64]) if own == DataType::Float64 => State::FloatAverage {
                sum: cell(Some(arg), How::FloatSum),
                count: cell(counted, How::Count),
            },
            (name @ ("min" | "max" | "bool_and" | "bool_or"), [to])
                if **to == own && (is_ordered(&own) || own == DataType::Boolean && name.starts_with("bool")) =>
            {
                let value = flow.translator.translate(arg)?;
                let (_, (low, high)) = flow.word(&value)?;
                if high - low >= i128::from(u64::MAX) {
                    return Err(refused());
                }
                let least = matches!(name, "min" | "bool_and");
                State::Extreme {
                    cell: cell(Some(arg), if least { How::Least } else { How::Greatest }),
                    from: if least { high } else { low } as i64,
                    least,
                    data_type: own,
                }
            }
            _ => return Err(refused()),
        })
    }
}

/// Whether the order of values is that of their 64-bit words.
fn is_ordered(data_type: &DataType) -> bool {
    is_integer_key(data_type) && *data_type != DataType::Boolean || matches!(data_type, DataType::Decimal128(..))
}

/// What count() counts; None: every row, as where it counts a literal (`count(*)` comes as one) or what is computed of
/// columns that are never null.
fn counted_arg<'a>(flow: &Flow, arg: &'a PhysicalExprRef) -> Option<&'a PhysicalExprRef> {
    let given = flow.current();
    let present = |expr: &PhysicalExprRef| match (expr.downcast_ref::<Literal>(), expr.downcast_ref::<Column>()) {
        (Some(literal), _) => Some(!literal.value().is_null()),
        (_, Some(column)) => Some(
            given
                .get(column.index())
                .is_some_and(|column| column.given.null.is_none()),
        ),
        _ => None,
    };
    let mut parts = vec![arg];
    while let Some(part) = parts.pop() {
        // Arithmetic has a value, or fails, where its operands have one.
        let strict = |part: &PhysicalExprRef| {
            part.downcast_ref::<CastExpr>().is_some()
                || part.downcast_ref::<BinaryExpr>().is_some_and(|binary| {
                    use Operator::*;
                    matches!(binary.op(), Plus | Minus | Multiply)
                })
                || part
                    .downcast_ref::<ScalarFunctionExpr>()
                    .is_some_and(|call| STRICT.contains(&call.name()))
        };
        match present(part) {
            Some(true) => {}
            None if strict(part) => parts.extend(part.children()),
            _ => return Some(arg),
        }
    }
    None
}

/// Functions that have a value, or fail, where their arguments have one.
const STRICT: [&str; 3] = ["checked_add", "checked_subtract", "checked_multiply"];

/// How a cell takes a row in, of which a thread gets at most so many unless they are multiplied.
pub fn update(flow: &mut Flow, taken: &Taken, thread_rows: u64, distincts: &mut Distincts) -> Translated<Update> {
    let mut when = vec![];
    if let (Some(arg), true) = (&taken.arg, taken.distinct) {
        when.push(distincts.first(flow, arg, taken.filter.as_ref())?);
    } else if let Some(filter) = &taken.filter {
        when.push(flow.translator.boolean(filter)?.is_true());
    }
    let mut update = Update {
        how: taken.how,
        when: None,
        value: "1".into(),
        wide: false,
        own_wide: false,
        bound: None,
        each: None,
    };
    let null = match &taken.arg {
        None => None,
        // A text that counts once is known by its code.
        Some(_) if taken.distinct && taken.how == How::Count => None,
        Some(arg) => {
            let value = flow.translator.translate(arg)?;
            match taken.how {
                How::Count => {}
                How::FloatSum => update.value = value.value,
                How::Sum => {
                    let (low, high) = value.range.ok_or_else(|| format!("sums of {}", value.data_type))?;
                    let magnitude = low.unsigned_abs().max(high.unsigned_abs());
                    update.each = i128::try_from(magnitude).ok();
                    let rows = match flow.multiplied {
                        true => u128::MAX,
                        false => u128::from(flow.rows_max),
                    };
                    let is_wide = |rows| magnitude.checked_mul(rows).is_none_or(|sum| sum >= 1 << 63);
                    update.wide = is_wide(rows);
                    update.own_wide = update.wide && (flow.multiplied || is_wide(thread_rows.into()));
                    // Of no more rows than there can be.
                    let bound = magnitude
                        .checked_mul(rows.min(1 << 48))
                        .and_then(|bound| i128::try_from(bound).ok());
                    update.bound = bound.filter(|bound| *bound < i128::MAX / 4);
                    if !update.wide {
                        update.bound = Some((1 << 63) - 1);
                    }
                    update.value = value.value;
                }
                How::Least | How::Greatest => {
                    let (word, (low, high)) = flow.word(&value)?;
                    update.bound = Some(low.abs().max(high.abs()));
                    update.value = match taken.how {
                        How::Least => format!("((u64){} - (u64){word} + 1)", c_number(high)),
                        _ => format!("((u64){word} - (u64){} + 1)", c_number(low)),
                    };
                }
            }
            value.null
        }
    };
    when.extend(null.map(|null| format!("!{null}")));
    update.when = (!when.is_empty()).then(|| when.join(" && "));
    Ok(update)
}
