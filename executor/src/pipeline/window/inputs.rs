//! What window functions read of rows in order: where partitions and peers begin, and the sums and trees of aggregates.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use super::super::aggregated::Cell;
use super::super::col::Col;
use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input};
use super::super::group::{AggregateState, Cells, Distincts, How, Update, update};
use super::function::Function;
use super::values::{Bounds, Values};
use super::{Numbered, Ordered, name, tree};
use crate::codegen::Translated;

/// Arrays of words, and their bits.
type Words = [(usize, u32)];

/// The arrays of all functions.
pub struct Inputs {
    /// None: there is one partition.
    parts: Option<Numbered>,
    /// None: nobody asks, or all rows of a partition are peers.
    peers: Option<Numbered>,
    cells: Vec<Summed>,
    /// The state of each aggregate, over the cells.
    states: Vec<Option<AggregateState>>,
}

/// What there is of a cell.
pub enum Summed {
    /// Every row counts.
    Rows,
    /// Sums of 32 bits.
    Counts(usize),
    /// Sums of 64 bits that the values' sums fit.
    Narrow(usize, Known),
    /// Sums of the values' lowest 32 bits, and of what is above; or of the next 32 bits, and of what is above those.
    Wide(Vec<usize>, Known),
    /// The largest word is that of the value.
    Most(usize, u64, Known),
}

/// The largest magnitude of a cell's value, and of one row's.
#[derive(Clone, Copy)]
pub struct Known {
    pub bound: Option<i128>,
    pub each: Option<i128>,
}

/// Sums whose magnitude is below this are told by two words, whatever is below 2^126 by three.
const TWO_WORDS: u128 = 1 << 94;
const THREE_WORDS: u128 = 1 << 126;

impl Inputs {
    /// The steps that find it all.
    pub fn put(
        fragment: &mut Fragment,
        ordered: &Ordered,
        functions: &[Function],
        [partition, order]: [&Words; 2],
        peers: bool,
    ) -> Translated<Self> {
        let table = (ordered.rows.count, ordered.rows.room);
        let mut flow = ordered.flow(fragment)?;
        let mut cells = Cells::default();
        let mut states = vec![];
        for function in functions {
            states.push(match function {
                Function::Aggregate(aggregate, _) => Some(cells.state(&mut flow, aggregate, None, false)?),
                _ => None,
            });
        }
        let parts = !partition.is_empty();
        let flags = |fragment: &mut Fragment, wanted: bool| wanted.then(|| fragment.array(table.1, 4, None));
        let (part_flags, peer_flags) = (flags(fragment, parts), flags(fragment, peers));
        if parts || peers {
            let at = ordered.at(&mut flow, "row");
            let before = ordered.at(&mut flow, "(row == 0 ? row : row - 1)");
            let mut begins = "row == 0".to_string();
            for (words, flags) in [(partition, part_flags), (order, peer_flags)] {
                for (word, _) in words {
                    let word = flow.array(Input::Array(*word), "const u64");
                    begins = format!("{begins} || {word}[{at}] != {word}[{before}]");
                }
                begins = name(&mut flow, "bool", begins);
                if let Some(flags) = flags {
                    let flags = flow.array(Input::Array(flags), "u32");
                    flow.line(&format!("{flags}[row] = {begins};"));
                }
            }
        }
        let Cells { taken, mut args } = cells;
        if taken.iter().any(|taken| taken.squared) {
            return Err("variances over windows".into());
        }
        let rows = flow.rows_max;
        let updates = taken
            .iter()
            .map(|taken| update(&mut flow, taken, &mut args, rows, &mut Distincts::default()));
        let updates = updates.collect::<Translated<Vec<_>>>()?;
        let mut taken = vec![];
        for update in &updates {
            taken.push(taken_in(fragment, &mut flow, update)?);
        }
        if parts || peers || taken.iter().any(|taken| !matches!(taken, Summed::Rows)) {
            flow.finish(fragment)?;
        }
        let [part_before, peer_before] =
            [part_flags, peer_flags].map(|flags| flags.map(|flags| fragment.sums(table, flags, false)));
        let mut summed = vec![];
        for taken in taken {
            summed.push(match taken {
                Summed::Counts(from) => Summed::Counts(fragment.sums(table, from, false)),
                Summed::Narrow(from, known) => Summed::Narrow(fragment.sums(table, from, true), known),
                Summed::Wide(from, known) => {
                    let sums = from.into_iter().map(|from| fragment.sums(table, from, true));
                    Summed::Wide(sums.collect(), known)
                }
                Summed::Most(tree, leaves, known) => {
                    tree::grown(fragment, tree, leaves)?;
                    Summed::Most(tree, leaves, known)
                }
                Summed::Rows => Summed::Rows,
            });
        }
        let [parts, peers] = [part_before, peer_before].map(|before| {
            before.map(|before| Numbered {
                before,
                starts: fragment.array(table.1.saturating_add(1), 4, None),
            })
        });
        starts(fragment, ordered, [parts, peers])?;
        Ok(Self {
            parts,
            peers,
            cells: summed,
            states,
        })
    }

    /// The columns of the node's rows, in a pipeline over these.
    pub fn columns(
        &self,
        fragment: &mut Fragment,
        flow: &mut Flow,
        ordered: &Ordered,
        functions: &[Function],
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Translated<Vec<Col>> {
        let mut columns = flow.current();
        let own = columns.len();
        let schema = plan.schema();
        let bounds = Bounds::of(flow, self.parts, self.peers);
        let mut values = Values {
            fragment,
            flow,
            ordered,
            bounds,
            frames: vec![],
        };
        for (at, (function, state)) in functions.iter().zip(&self.states).enumerate() {
            let field = schema.fields().get(own + at).ok_or("a window function of no column")?;
            columns.push(values.column(function, state.as_ref(), &self.cells, field.data_type())?);
        }
        // What values of other rows were read by is not the row at hand.
        values.flow.enter(ordered.schema.clone(), columns[..own].to_vec());
        Ok(columns)
    }
}

/// Keeps what a cell takes of the row at hand.
fn taken_in(fragment: &mut Fragment, flow: &mut Flow, update: &Update) -> Translated<Summed> {
    let (rows, room) = (flow.rows_max, flow.room);
    let known = Known {
        bound: update.bound,
        each: update.each,
    };
    let mut put = |flow: &mut Flow, c_type: &str, width: u64, value: String| {
        let id = fragment.array(room, width, None);
        let array = flow.array(Input::Array(id), c_type);
        let value = match &update.when {
            Some(when) => format!("({when}) ? {value} : ({c_type})0"),
            None => value,
        };
        flow.line(&format!("{array}[row] = {value};"));
        id
    };
    let value = &update.value;
    Ok(match update.how {
        How::Count if update.when.is_none() => Summed::Rows,
        How::Count => Summed::Counts(put(flow, "u32", 4, "1u".into())),
        How::Sum if !update.wide => Summed::Narrow(put(flow, "u64", 8, format!("(u64){value}")), known),
        How::Sum => {
            let all = known.each.and_then(|each| each.unsigned_abs().checked_mul(rows.into()));
            let parts: &[&str] = match all {
                Some(..TWO_WORDS) => &["(u64)V & 0xffffffffull", "(u64)(i64)((i128)V >> 32)"],
                Some(..THREE_WORDS) => &["(u64)V & 0xffffffffull", "(u64)V >> 32", "(u64)(i64)((i128)V >> 64)"],
                _ => return Err("sums beyond 128 bits".into()),
            };
            let parts = parts
                .iter()
                .map(|part| put(flow, "u64", 8, format!("({})", part.replace('V', value))));
            Summed::Wide(parts.collect(), known)
        }
        How::Least | How::Greatest | How::Shown if update.wide => {
            return Err("extremes of numbers beyond 64 bits over windows".into());
        }
        How::Least | How::Greatest | How::Shown => {
            let tree = tree::room(fragment, room);
            let array = flow.array(Input::Array(tree), "u64");
            match &update.when {
                Some(when) => flow.line(&format!("if ({when}) {array}[row] = {value};")),
                None => flow.line(&format!("{array}[row] = {value};")),
            }
            Summed::Most(tree, room, known)
        }
        How::FloatSum => return Err("sums of floats, which depend on the order".into()),
    })
}

/// Where what is numbered begins, and behind the last of it how many rows there are.
fn starts(fragment: &mut Fragment, ordered: &Ordered, numbered: [Option<Numbered>; 2]) -> Translated<()> {
    if numbered.iter().all(Option::is_none) {
        return Ok(());
    }
    let mut flow = Flow::over(&ordered.rows, ordered.schema.clone());
    for own in numbered.into_iter().flatten() {
        let before = flow.array(Input::Array(own.before), "const u32");
        let starts = flow.array(Input::Array(own.starts), "u32");
        flow.line(&format!(
            "if ({before}[row + 1] != {before}[row]) {starts}[{before}[row]] = row;"
        ));
        flow.line(&format!(
            "if (row + 1 == rows_all) {starts}[{before}[row + 1]] = row + 1;"
        ));
    }
    flow.finish(fragment)
}

impl Summed {
    /// C++ of the words of a cell over a frame from one place up to another.
    pub fn over(&self, flow: &mut Flow, (start, end): (&str, &str)) -> Cell {
        let none = Known {
            bound: None,
            each: None,
        };
        let (words, known) = match self {
            Self::Rows => (vec![format!("(u64)({end} - {start})")], none),
            Self::Counts(sums) => {
                let sums = flow.array(Input::Array(*sums), "const u32");
                (vec![format!("(u64)({sums}[{end}] - {sums}[{start}])")], none)
            }
            Self::Narrow(sums, known) => {
                let sums = flow.array(Input::Array(*sums), "const u64");
                (vec![format!("({sums}[{end}] - {sums}[{start}])")], *known)
            }
            Self::Wide(parts, known) => {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|sums| {
                        let sums = flow.array(Input::Array(*sums), "const u64");
                        format!("({sums}[{end}] - {sums}[{start}])")
                    })
                    .collect();
                let sum = match &parts[..] {
                    [low, high] => format!("(i128)(i64){high} * 4294967296ll + (i128){low}"),
                    [low, middle, high] => {
                        format!("(i128)(((u128)(i128)(i64){high} << 64) + ((u128){middle} << 32) + (u128){low})")
                    }
                    _ => parts.concat(),
                };
                let sum = name(flow, "i128", sum);
                let words = [format!("(u64){sum}"), format!("(u64)((u128){sum} >> 64)")];
                (words.to_vec(), *known)
            }
            Self::Most(tree, leaves, known) => {
                let tree = flow.array(Input::Array(*tree), "const u64");
                let leaves = flow.number(*leaves);
                let most = name(flow, "u64", format!("most_within({tree}, {leaves}, {start}, {end})"));
                (vec![most], *known)
            }
        };
        Cell {
            words,
            bound: known.bound,
            each: known.each,
        }
    }
}
