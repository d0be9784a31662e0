//! Grouping in pipelines: where a group's sums are depends on what is known of the keys.
//!
//! | groups | sums |
//! | --- | --- |
//! | one | a thread's registers, reduced at the end |
//! | few, by keys of small ranges | a thread's own in shared memory, reduced at the end |
//! | more, by keys of small ranges | a block's in shared memory, added up at the end |
//! | by keys of ranges that an array can be over | an array, by atomic operations |
//! | any | a hash table |
//!
//! Sums are exact: of 64 bits where the bounds of the argument prove that it holds them, else of two words.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use tenon_gpu::tuning::PIPELINE_THREADS;

use super::flow::{Col, Flow, codes, is_unique};
use super::fragment::{Fragment, Input, Source};
use crate::aggregate::GroupSpec;
use crate::codegen::{Given, Range, Translated, c_number, c_type};
use crate::keys::is_exact;

/// Shared memory that a block's groups may take.
const SHARED_BYTES: u64 = 96 << 10;
/// Entries of an array of groups that the host reads as they are.
const SLOTS_READ_MAX: u64 = 1 << 14;
/// Entries of an array of groups.
const DIRECT_MAX: u64 = 1 << 27;

/// What of a fragment's result is where.
pub struct Grouping {
    pub keys: Vec<Key>,
    /// The arrays of each cell's words.
    pub words: Vec<Vec<usize>>,
    pub states: Vec<State>,
    /// The largest magnitude of each cell's value.
    bounds: Vec<Option<i128>>,
    pub groups: Groups,
}

/// A key of the result.
pub struct Key {
    pub data_type: DataType,
    pub texts: Option<ArrayRef>,
    /// What its words can be.
    pub range: Range,
    pub place: Place,
}

/// Where a key's values are.
pub enum Place {
    /// A digit of the group's number: `number / stride % span`, from `low` on; the last is null, where there are nulls.
    Digit {
        stride: u64,
        span: u64,
        low: i64,
        nullable: bool,
    },
    /// A word of the group's key; the last word says which keys are null.
    Word { word: usize, null_bit: Option<usize> },
    /// Kept beside the group: a position in a scan's table of the column's row.
    Late { array: usize, scan: usize, column: usize, null: Option<usize> },
}

/// The groups of the result.
#[derive(Clone, Copy)]
pub enum Groups {
    /// There is one.
    One,
    /// Of so many numbers those that the cell has counted rows of; where these were put together, the arrays of how many
    /// there are and of their numbers.
    Numbered {
        slots: u64,
        counted: usize,
        listed: Option<(usize, usize)>,
    },
    /// As many as the first array says, with keys of so many words in the second.
    Listed { count: usize, keys: usize, words: usize, capacity: u64 },
}

/// What of each row a cell takes in.
#[derive(Clone, PartialEq)]
struct Taken {
    /// None: every row counts.
    arg: Option<PhysicalExprRef>,
    filter: Option<PhysicalExprRef>,
    how: How,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Count,
    Sum,
    Least,
    Greatest,
    FloatSum,
}

/// How a cell's value comes about.
struct Update {
    how: How,
    /// C++ of when a row counts.
    when: Option<String>,
    value: String,
    /// Of two words.
    wide: bool,
    /// The largest magnitude of the cell's value, where that is known.
    bound: Option<i128>,
}

impl Update {
    fn words(&self) -> usize {
        1 + usize::from(self.wide)
    }

    /// C++ that takes a row into the words at these places, which are a thread's own or many threads'.
    fn line(&self, words: &[String], own: bool) -> String {
        let Update { value, .. } = self;
        let first = &words[0];
        let line = match (self.how, own) {
            (How::Sum, true) if self.wide => format!(
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
    fn reduced(&self, own: &[String], words: &[String]) -> String {
        let (mine, to) = (&own[0], &words[0]);
        let body = match self.how {
            How::Sum if self.wide => format!(
                "i128 sum = warp_reduce(bits_128({}, {mine}), Sum()); \
                 if (lane_id() == 0 && sum != 0) add_wide(&{to}, &{}, sum);",
                own[1], words[1]
            ),
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
    fn flushed(&self, own: &[String], words: &[String]) -> String {
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

/// The cells of all aggregates.
#[derive(Default)]
struct Cells(Vec<Taken>);

impl Cells {
    fn cell(&mut self, taken: Taken) -> usize {
        let found = self.0.iter().position(|own| *own == taken);
        found.unwrap_or_else(|| {
            self.0.push(taken);
            self.0.len() - 1
        })
    }

    /// The state of an aggregate; `range` tells what a value can be.
    fn state(
        &mut self,
        flow: &mut Flow,
        aggregate: &AggregateFunctionExpr,
        filter: Option<&PhysicalExprRef>,
    ) -> Translated<State> {
        let refused = || format!("no device form of {}", aggregate.name());
        let (args, states) = (aggregate.expressions(), aggregate.state_fields().map_err(|error| error.to_string())?);
        let [arg] = &args[..] else { return Err(refused()) };
        if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
            return Err(refused());
        }
        let types: Vec<&DataType> = states.iter().map(|field| field.data_type()).collect();
        let own = arg.data_type(&flow.translator.schema).map_err(|error| error.to_string())?;
        let mut cell = |arg: Option<&PhysicalExprRef>, how| {
            self.cell(Taken {
                arg: arg.cloned(),
                filter: filter.cloned(),
                how,
            })
        };
        let scale_of = |data_type: &DataType| match data_type {
            DataType::Decimal128(_, scale) => Some(*scale),
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
            _ => None,
        };
        Ok(match (aggregate.fun().name(), &types[..]) {
            ("count", [DataType::Int64]) => State::Count(cell(counted_arg(arg), How::Count)),
            ("sum", [to @ (DataType::Decimal128(..) | DataType::Int64)]) if scale_of(&own).is_some() && scale_of(&own) == scale_of(to) => {
                State::Sum {
                    sum: cell(Some(arg), How::Sum),
                    count: cell(Some(arg), How::Count),
                    data_type: (*to).clone(),
                }
            }
            ("avg", [DataType::UInt64, to @ DataType::Decimal128(..)]) if scale_of(&own).is_some() && scale_of(&own) == scale_of(to) => {
                State::Average {
                    sum: cell(Some(arg), How::Sum),
                    count: cell(Some(arg), How::Count),
                    data_type: (*to).clone(),
                }
            }
            ("sum", [DataType::Float64]) if own == DataType::Float64 => State::FloatSum {
                sum: cell(Some(arg), How::FloatSum),
                count: cell(Some(arg), How::Count),
            },
            ("avg", [DataType::UInt64, DataType::Float64]) if own == DataType::Float64 => State::FloatAverage {
                sum: cell(Some(arg), How::FloatSum),
                count: cell(Some(arg), How::Count),
            },
            (name @ ("min" | "max"), [to]) if **to == own && is_exact(&own) && own != DataType::Boolean => {
                let value = flow.translator.translate(arg)?;
                let (_, (low, high)) = flow.word(&value)?;
                let least = name == "min";
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

/// What count() counts: `count(*)` comes as a literal.
fn counted_arg(arg: &PhysicalExprRef) -> Option<&PhysicalExprRef> {
    match arg.downcast_ref::<Literal>() {
        Some(literal) if !literal.value().is_null() => None,
        _ => Some(arg),
    }
}

/// A key as code.
struct Coded {
    /// C++ of a 64-bit word, from `low` to `high`.
    word: String,
    low: i128,
    high: i128,
    null: Option<String>,
    data_type: DataType,
    texts: Option<ArrayRef>,
}

/// Ends a flow in groups.
pub fn group(fragment: &mut Fragment, mut flow: Flow, spec: &GroupSpec, estimate: Option<usize>) -> Translated<Grouping> {
    let mut cells = Cells::default();
    let mut states = vec![];
    for (aggregate, filter) in spec.aggregates.iter().zip(&spec.filters) {
        states.push(cells.state(&mut flow, aggregate, filter.as_ref())?);
    }
    // Which groups there are is seen from how many rows they have.
    let counted = cells.cell(Taken {
        arg: None,
        filter: None,
        how: How::Count,
    });
    let (keys, late) = keys(fragment, &mut flow, spec)?;
    let updates = cells.0.iter().map(|taken| update(&mut flow, taken));
    let updates = updates.collect::<Translated<Vec<_>>>()?;
    let width: usize = updates.iter().map(Update::words).sum();
    let spans: Vec<u64> = keys.iter().map(Coded::span).collect();
    let slots = spans.iter().try_fold(1u64, |slots, span| slots.checked_mul(*span)).unwrap_or(u64::MAX);
    let threads = u64::from(PIPELINE_THREADS);
    let own_bytes = slots.saturating_mul(8 * width as u64);
    let numbered = late.is_empty() && slots <= DIRECT_MAX && slots <= flow.rows_max.saturating_mul(4).max(1 << 12);
    let capacity = match numbered {
        true => slots,
        false => capacity(&flow, estimate),
    };
    // The words of all cells, one array each.
    let mut words = vec![];
    let mut global = vec![];
    for update in &updates {
        let own: Vec<usize> = (0..update.words()).map(|_| fragment.array(capacity, 8, Some(0))).collect();
        global.push(own.iter().map(|id| flow.array(Input::Array(*id), "u64")).collect::<Vec<_>>());
        words.push(own);
    }
    let mut result = Grouping {
        keys: vec![],
        words,
        states,
        bounds: updates.iter().map(|update| update.bound).collect(),
        groups: Groups::One,
    };
    if !numbered {
        return listed(fragment, flow, result, (keys, late), (&updates, &global), capacity);
    }
    let number = number(&keys, &spans);
    let mut stride = 1;
    let mut places = vec![];
    for (key, span) in keys.iter().zip(&spans).rev() {
        places.push(Key {
            data_type: key.data_type.clone(),
            texts: key.texts.clone(),
            range: (key.low, key.high),
            place: Place::Digit {
                stride,
                span: *span,
                low: key.low as i64,
                nullable: key.null.is_some(),
            },
        });
        stride *= span;
    }
    places.reverse();
    result.keys = places;
    if keys.is_empty() {
        in_registers(&mut flow, &updates, &global);
    } else {
        result.groups = Groups::Numbered { slots, counted, listed: None };
        let slot = flow.translator.define("u32", number, None, DataType::UInt32, None).value;
        if own_bytes.saturating_mul(threads) <= SHARED_BYTES {
            in_own(&mut flow, &updates, &global, (&slot, slots, width));
        } else if own_bytes <= SHARED_BYTES / 2 {
            in_shared(&mut flow, &updates, &global, (&slot, slots, width));
        } else {
            for (update, words) in updates.iter().zip(&global) {
                let words: Vec<String> = words.iter().map(|array| format!("{array}[{slot}]")).collect();
                flow.line(&update.line(&words, false));
            }
        }
    }
    flow.finish(fragment)?;
    Ok(result)
}

impl Grouping {
    /// Where groups are scattered over many numbers, a pipeline puts them together.
    pub fn put_together(&mut self, fragment: &mut Fragment) -> Translated<()> {
        if let Groups::Numbered { slots, counted, listed } = &mut self.groups
            && *slots > SLOTS_READ_MAX
        {
            *listed = Some(put_together(fragment, *slots, self.words[*counted][0], &mut self.words)?);
        }
        Ok(())
    }

    /// The groups as rows.
    pub fn flow(&self, fragment: &mut Fragment, spec: &GroupSpec) -> Translated<Flow> {
        let (source, rows_max) = match self.groups {
            Groups::One => (Source::Numbers(1), 1),
            Groups::Numbered { slots, .. } => (Source::Numbers(slots), slots),
            Groups::Listed { count, capacity, .. } => (Source::Made { count, rows_max: capacity }, capacity),
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
            (Place::Digit { stride, span, low, nullable }, _) => {
                let digit = format!("(row / {stride}ull % {span}ull)");
                let null = nullable.then(|| format!("{digit} == {}ull", span - 1));
                (format!("({} + (i64){digit})", c_number((*low).into())), null)
            }
            (Place::Word { word, null_bit }, Groups::Listed { keys, words, capacity, .. }) => {
                let keys = flow.array(Input::Array(keys), "const u64");
                let room = flow.number(capacity);
                let last = words - 1;
                let null = null_bit.map(|bit| format!("({keys}[{last}u * {room} + row] >> {bit} & 1) != 0"));
                (format!("(i64){keys}[{word}u * {room} + row]"), null)
            }
            (Place::Late { array, scan, column, null }, _) => {
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
            State::Sum { sum, count, data_type: own } if own == data_type => {
                let bound = self.bounds[*sum].ok_or("a sum of unknown bounds")?;
                let load = match self.words[*sum].len() {
                    1 => format!("(i64){}", word(flow, *sum, 0)),
                    _ if *own == DataType::Int64 => return Err("a sum that 64 bits may not hold".into()),
                    _ => format!("bits_128({}, {})", word(flow, *sum, 1), word(flow, *sum, 0)),
                };
                (load, Some(format!("{} == 0", word(flow, *count, 0))), Some((-bound, bound)))
            }
            State::Extreme { cell, from, least, data_type: own } if own == data_type => {
                let word = word(flow, *cell, 0);
                let sign = if *least { "-" } else { "+" };
                let load = format!("({} {sign} (i64)({word} - 1))", c_number((*from).into()));
                let (low, high) = self.bounds[*cell].map_or((i64::MIN.into(), i64::MAX.into()), |bound| (-bound - 1, bound + 1));
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

/// A pipeline that puts the words of those numbers that have rows together; gives the arrays of their number and of these.
fn put_together(
    fragment: &mut Fragment,
    slots: u64,
    counted: usize,
    words: &mut [Vec<usize>],
) -> Translated<(usize, usize)> {
    let mut flow = Flow::new(Source::Numbers(slots), Arc::new(Schema::empty()), slots);
    let (count, numbers) = (fragment.array(1, 4, Some(0)), fragment.array(slots, 4, None));
    let counted = flow.array(Input::Array(counted), "const u64");
    flow.only_if(&format!("{counted}[row] != 0"));
    let (count_at, room) = (flow.array(Input::Array(count), "u32"), flow.number(slots));
    flow.line(&format!("u32 at = new_row(p, {count_at}, {room});"));
    flow.only_if("at != NO_ROW");
    let to = flow.array(Input::Array(numbers), "u32");
    flow.line(&format!("{to}[at] = row;"));
    for word in words.iter_mut().flatten() {
        let from = flow.array(Input::Array(*word), "const u64");
        *word = fragment.array(slots, 8, None);
        let to = flow.array(Input::Array(*word), "u64");
        flow.line(&format!("{to}[at] = {from}[row];"));
    }
    flow.finish(fragment)?;
    Ok((count, numbers))
}

/// Groups that a hash table shall have room for.
fn capacity(flow: &Flow, estimate: Option<usize>) -> u64 {
    let rows = match flow.multiplied {
        true => flow.rows_max.saturating_mul(4),
        false => flow.rows_max,
    };
    let expected = estimate.map_or(rows, |groups| (groups as u64).saturating_mul(4).saturating_add(1 << 16));
    expected.min(rows).max(1)
}

impl Coded {
    /// How many values it can have, null included.
    fn span(&self) -> u64 {
        let values = u64::try_from(self.high - self.low).unwrap_or(u64::MAX).saturating_add(1);
        values.saturating_add(u64::from(self.null.is_some()))
    }
}

/// A key that another one of the same table decides.
struct Late {
    at: usize,
    position: String,
    scan: usize,
    column: usize,
    data_type: DataType,
    null: Option<String>,
}

fn keys(fragment: &Fragment, flow: &mut Flow, spec: &GroupSpec) -> Translated<(Vec<Coded>, Vec<Late>)> {
    let column = |flow: &Flow, expr: &PhysicalExprRef| {
        let at = expr.downcast_ref::<Column>()?.index();
        Some((at, flow.columns.get(at)?.clone()))
    };
    // Scans of which a key names the row.
    let mut named = vec![];
    for (expr, _) in &spec.keys {
        if let Some((scan, own)) = column(flow, expr).and_then(|(_, col)| col.origin)
            && is_unique(&fragment.scans[scan].table, own)
        {
            named.push((scan, own));
        }
    }
    let (mut keys, mut late) = (vec![], vec![]);
    for (at, (expr, _)) in spec.keys.iter().enumerate() {
        let known = column(flow, expr);
        if let Some((index, col)) = &known {
            let given = flow.current()[*index].given.clone();
            if codes(&given).is_some() {
                let code = flow.translator.code_of(*index)?.ok_or("a code that is not there")?;
                let count = codes(&given).unwrap_or_default();
                keys.push(Coded {
                    word: format!("(i64){}", code.code),
                    low: 0,
                    high: count as i128 - 1,
                    null: code.null,
                    data_type: given.data_type.clone(),
                    texts: given.texts.clone(),
                });
                continue;
            }
            if c_type(&given.data_type)? == "Text"
                && let (Some((scan, own)), Some(position)) = (col.origin, &col.position)
                && named.iter().any(|(named, key)| *named == scan && *key != own)
            {
                late.push(Late {
                    at,
                    position: position.clone(),
                    scan,
                    column: own,
                    data_type: given.data_type.clone(),
                    null: given.null.clone(),
                });
                continue;
            }
        }
        let value = flow.translator.translate(expr)?;
        let (word, (low, high)) = flow.word(&value)?;
        keys.push(Coded {
            word,
            low,
            high,
            null: value.null,
            data_type: value.data_type,
            texts: None,
        });
    }
    Ok((keys, late))
}

fn update(flow: &mut Flow, taken: &Taken) -> Translated<Update> {
    let mut when = vec![];
    if let Some(filter) = &taken.filter {
        when.push(flow.translator.boolean(filter)?.is_true());
    }
    let mut update = Update {
        how: taken.how,
        when: None,
        value: "1".into(),
        wide: false,
        bound: None,
    };
    let column = |arg: &PhysicalExprRef| Some(arg.downcast_ref::<Column>()?.index());
    let null = match &taken.arg {
        None => None,
        // Of a column that is never null nothing is read.
        Some(arg) if taken.how == How::Count && column(arg).is_some_and(|at| flow.current()[at].given.null.is_none()) => None,
        Some(arg) => {
            let value = flow.translator.translate(arg)?;
            match taken.how {
                How::Count => {}
                How::FloatSum => update.value = value.value,
                How::Sum => {
                    let (low, high) = value.range.ok_or_else(|| format!("sums of {}", value.data_type))?;
                    let magnitude = low.unsigned_abs().max(high.unsigned_abs());
                    let rows = match flow.multiplied {
                        true => u128::MAX,
                        false => u128::from(flow.rows_max),
                    };
                    update.wide = magnitude.checked_mul(rows).is_none_or(|sum| sum >= 1 << 63);
                    // More rows than there can be.
                    let bound = magnitude.checked_mul(1 << 48).and_then(|bound| i128::try_from(bound).ok());
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

/// C++ of the number of the keys' group.
fn number(keys: &[Coded], spans: &[u64]) -> String {
    let mut number = String::from("0ull");
    for (key, span) in keys.iter().zip(spans) {
        let digit = format!("(u64)({} - ({}))", key.word, c_number(key.low));
        let digit = match &key.null {
            Some(null) => format!("({null} ? {}ull : {digit})", span - 1),
            None => digit,
        };
        number = format!("({number} * {span}ull + {digit})");
    }
    format!("(u32){number}")
}

/// One group: in registers.
fn in_registers(flow: &mut Flow, updates: &[Update], global: &[Vec<String>]) {
    for (cell, (update, words)) in updates.iter().zip(global).enumerate() {
        let own: Vec<String> = (0..words.len()).map(|word| format!("c{cell}_{word}")).collect();
        for name in &own {
            flow.begin += &format!("    u64 {name} = 0;\n");
        }
        flow.line(&update.line(&own, true));
        flow.end += &update.reduced(&own, &words.iter().map(|array| format!("{array}[0]")).collect::<Vec<_>>());
    }
}

/// Few groups: each thread's own, in shared memory, so that no two threads meet.
fn in_own(flow: &mut Flow, updates: &[Update], global: &[Vec<String>], (slot, slots, width): (&str, u64, usize)) {
    let threads = PIPELINE_THREADS;
    flow.shared_bytes = (slots * width as u64 * 8) as u32 * threads;
    flow.begin += &format!(
        "    TENON_DYNAMIC_SHARED(u64, own);\n    \
         for (u32 i = 0; i < {}u; i++) own[i * {threads}u + threadIdx.x] = 0;\n",
        slots * width as u64
    );
    flow.end += &format!("    for (u32 slot = 0; slot < {slots}u; slot++) {{\n");
    let mut first = 0;
    for (update, words) in updates.iter().zip(global) {
        let at = |slot: &str| -> Vec<String> {
            let word = |word: usize| format!("own[({slot} * {width}u + {}u) * {threads}u + threadIdx.x]", first + word);
            (0..words.len()).map(word).collect()
        };
        flow.line(&update.line(&at(slot), true));
        flow.end += &update.reduced(&at("slot"), &words.iter().map(|array| format!("{array}[slot]")).collect::<Vec<_>>());
        first += words.len();
    }
    flow.end += "    }\n";
}

/// More groups: a block's, in shared memory.
fn in_shared(flow: &mut Flow, updates: &[Update], global: &[Vec<String>], (slot, slots, width): (&str, u64, usize)) {
    let all = slots * width as u64;
    flow.shared_bytes = (all * 8) as u32;
    flow.begin += &format!(
        "    TENON_DYNAMIC_SHARED(u64, own);\n    \
         for (u32 i = threadIdx.x; i < {all}u; i += blockDim.x) own[i] = 0;\n    __syncthreads();\n"
    );
    flow.end += &format!(
        "    __syncthreads();\n    for (u32 slot = threadIdx.x; slot < {slots}u; slot += blockDim.x) {{\n"
    );
    let mut first = 0;
    for (update, words) in updates.iter().zip(global) {
        let at = |slot: &str| -> Vec<String> {
            (0..words.len()).map(|word| format!("own[{}u * {slots}u + {slot}]", first + word)).collect()
        };
        flow.line(&update.line(&at(slot), false));
        let to: Vec<String> = words.iter().map(|array| format!("{array}[slot]")).collect();
        flow.end += &format!("        {}\n", update.flushed(&at("slot"), &to));
        first += words.len();
    }
    flow.end += "    }\n";
}

/// Groups of a hash table.
fn listed(
    fragment: &mut Fragment,
    mut flow: Flow,
    mut result: Grouping,
    (keys, late): (Vec<Coded>, Vec<Late>),
    (updates, global): (&[Update], &[Vec<String>]),
    capacity: u64,
) -> Translated<Grouping> {
    let nullable: Vec<usize> = (0..keys.len()).filter(|&key| keys[key].null.is_some()).collect();
    let words = keys.len() + usize::from(!nullable.is_empty());
    let slots = capacity.saturating_mul(2).next_power_of_two().max(2);
    let key_array = fragment.array(capacity.saturating_mul(words as u64), 8, None);
    let count = fragment.array(1, 4, Some(0));
    let slot_array = fragment.array(slots, 4, Some(0));
    let arrays = [
        flow.array(Input::Array(slot_array), "u32"),
        flow.array(Input::Array(key_array), "u64"),
        flow.array(Input::Array(count), "u32"),
        flow.number(capacity),
        flow.number(slots - 1),
    ];
    flow.begin += &format!("    const Groups<{words}> groups{{{}}};\n", arrays.join(", "));
    let mut parts: Vec<String> = keys
        .iter()
        .map(|key| match &key.null {
            Some(null) => format!("({null} ? 0ull : (u64){})", key.word),
            None => format!("(u64){}", key.word),
        })
        .collect();
    if !nullable.is_empty() {
        let bits = nullable.iter().enumerate();
        let bits = bits.map(|(bit, key)| format!("(u64){} << {bit}", keys[*key].null.as_deref().unwrap_or("false")));
        parts.push(bits.collect::<Vec<_>>().join(" | "));
    }
    flow.line(&format!("const u64 key[{words}] = {{{}}};", parts.join(", ")));
    flow.line("bool is_new; u32 group = groups.find(p, key, is_new);");
    flow.only_if("group != NO_ROW");
    let mut places: Vec<(usize, Key)> = vec![];
    let late_at: Vec<usize> = late.iter().map(|late| late.at).collect();
    let key_at = (0..keys.len() + late.len()).filter(|at| !late_at.contains(at));
    for ((word, key), at) in keys.into_iter().enumerate().zip(key_at) {
        let place = Place::Word {
            word,
            null_bit: nullable.iter().position(|&own| own == word),
        };
        places.push((
            at,
            Key {
                data_type: key.data_type,
                texts: key.texts,
                range: (key.low, key.high),
                place,
            },
        ));
    }
    for late in late {
        let array = fragment.array(capacity, 4, None);
        let to = flow.array(Input::Array(array), "u32");
        let null = late.null.as_ref().map(|_| fragment.array(capacity, 1, None));
        let null_to = null.map(|id| flow.array(Input::Array(id), "u8"));
        let null_line = match (&late.null, null_to) {
            (Some(null), Some(to)) => format!(" {to}[group] = {null};"),
            _ => String::new(),
        };
        flow.line(&format!("if (is_new) {{ {to}[group] = {};{null_line} }}", late.position));
        let place = Place::Late {
            array,
            scan: late.scan,
            column: late.column,
            null,
        };
        places.push((
            late.at,
            Key {
                data_type: late.data_type,
                texts: None,
                range: (0, 0),
                place,
            },
        ));
    }
    places.sort_by_key(|(at, _)| *at);
    result.keys = places.into_iter().map(|(_, key)| key).collect();
    for (update, words) in updates.iter().zip(global) {
        let words: Vec<String> = words.iter().map(|array| format!("{array}[group]")).collect();
        flow.line(&update.line(&words, false));
    }
    result.groups = Groups::Listed {
        count,
        keys: key_array,
        words,
        capacity,
    };
    flow.finish(fragment)?;
    Ok(result)
}
