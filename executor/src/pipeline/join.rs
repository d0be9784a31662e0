//! Joins by equality in pipelines: the build side ends in a table with chains of its rows by key, the probe side looks its
//! rows up there and goes on.
//!
//! Chains begin in an array over the range of the key where that is not much longer than the table, else in one over hashes
//! (He 2008, section 4.4, in its simple form). A key that no two rows of the build side share needs no chains.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::ColumnIndex;

use super::compile;
use super::flow::{Col, Flow};
use super::fragment::{Fragment, Input, Source};
use super::made::Made;
use crate::codegen::{Given, Range, Translated, c_number};
use crate::join::JoinExec;

/// Entries of an array over a key's range: always allowed, and for each row of the table.
const RANGE_ALWAYS: u64 = 1 << 20;
const RANGE_PER_ROW: u64 = 16;

/// Rows of a build side each of which may be a partner of every row.
const ALL_ROWS_MAX: u64 = 1 << 16;

/// How the rows of a build side are found.
struct Table {
    made: Made,
    heads: usize,
    /// None: no two rows have one key.
    next: Option<usize>,
    index: Index,
}

enum Index {
    Range(Range),
    /// Buckets less one, and the keys by row.
    Hash(u64, Vec<usize>),
    /// There is no key: all rows are one chain, from the last to the first.
    All,
}

/// A join with the side that gets a table, and the side that looks rows up there: an outer join's preserved side does.
struct Sides<'a> {
    join: &'a JoinExec,
    join_type: JoinType,
    build: &'a Arc<dyn ExecutionPlan>,
    probe: &'a Arc<dyn ExecutionPlan>,
    build_keys: &'a [PhysicalExprRef],
    probe_keys: &'a [PhysicalExprRef],
    build_side: JoinSide,
}

impl<'a> Sides<'a> {
    fn of(join: &'a JoinExec) -> Self {
        let spec = join.spec();
        let swapped = match spec.join_type {
            JoinType::Left => Some(JoinType::Right),
            JoinType::LeftMark => Some(JoinType::RightMark),
            _ => None,
        };
        match swapped {
            Some(join_type) => Self {
                join,
                join_type,
                build: join.probe(),
                probe: join.build(),
                build_keys: &spec.probe_keys,
                probe_keys: &spec.build_keys,
                build_side: JoinSide::Right,
            },
            None => Self {
                join,
                join_type: spec.join_type,
                build: join.build(),
                probe: join.probe(),
                build_keys: &spec.build_keys,
                probe_keys: &spec.probe_keys,
                build_side: JoinSide::Left,
            },
        }
    }

    fn reads_build(&self, index: usize) -> bool {
        match self.build_side {
            JoinSide::Left => self.join.spec().reads_build(index),
            _ => self.join.spec().reads_probe(index),
        }
    }
}

pub fn flow(fragment: &mut Fragment, join: &JoinExec) -> Translated<Flow> {
    use JoinType::*;
    let spec = join.spec();
    let sides = Sides::of(join);
    if spec.null_equal || spec.null_aware {
        return Err("a join that compares nulls".into());
    }
    if !matches!(sides.join_type, Inner | Right | RightSemi | RightAnti | RightMark | LeftSemi | LeftAnti) {
        return Err(format!("a {} join", spec.join_type));
    }
    let table = Table::build(fragment, &sides)?;
    let mut flow = compile::flow(fragment, sides.probe)?;
    let (keys, null) = words(&mut flow, sides.probe_keys)?;
    let keys: Vec<String> = keys.into_iter().map(|(key, _)| key).collect();
    let head = table.head(&mut flow, &keys, null.as_deref());
    let next = table.next_of(&mut flow, &head);
    let row = format!("({head} - 1)");
    let mut joining = Joining {
        fragment,
        sides: &sides,
        table: &table,
        row: &row,
        mark: None,
    };
    match sides.join_type {
        Inner => {
            match table.next {
                None => flow.only_if(&format!("{head} != 0")),
                Some(_) => flow.open(&format!("for (; {head} != 0; {head} = {next}) {{"), ""),
            }
            flow.multiplied |= table.next.is_some();
            let equal = table.equal(&mut flow, &keys, &row);
            let passed = joining.condition(&mut flow, &equal)?;
            flow.only_if(&passed);
            joining.put_out(&mut flow, None)?;
        }
        Right => {
            let any = flow.translator.define_truth("false".into()).value;
            let missing = flow.translator.define_truth("false".into()).value;
            let last = format!("if ({missing}) break;");
            flow.open(&format!("for (;; {head} = {next}) {{"), &last);
            flow.line(&format!("{missing} = {head} == 0;"));
            flow.line(&format!("if ({missing} && {any}) break;"));
            let equal = table.equal(&mut flow, &keys, &row);
            let passed = joining.condition(&mut flow, &format!("!{missing} && {equal}"))?;
            flow.only_if(&format!("{missing} || {passed}"));
            flow.line(&format!("{any} = true;"));
            flow.multiplied |= table.next.is_some();
            joining.put_out(&mut flow, Some(&missing))?;
        }
        RightMark => {
            let found = flow.translator.define_truth("false".into());
            joining.each_match(&mut flow, &keys, (&head, &next), &format!("{} = true; break;", found.value))?;
            joining.mark = Some(Col::computed(Given::of(found)));
            joining.put_out(&mut flow, None)?;
        }
        RightSemi | RightAnti => {
            let found = flow.translator.define_truth("false".into()).value;
            joining.each_match(&mut flow, &keys, (&head, &next), &format!("{found} = true; break;"))?;
            let not = if spec.join_type == RightAnti { "!" } else { "" };
            flow.only_if(&format!("{not}{found}"));
            joining.put_out(&mut flow, None)?;
        }
        _ => {
            let marks = joining.fragment.array(table.made.rows_max, 1, Some(0));
            let array = flow.array(Input::Array(marks), "u8");
            joining.each_match(&mut flow, &keys, (&head, &next), &format!("{array}[{row}] = 1;"))?;
            flow.finish(joining.fragment)?;
            return marked(joining.fragment, join, &table, marks);
        }
    }
    Ok(flow)
}

/// The rows of the build side by whether a partner marked them.
fn marked(fragment: &mut Fragment, join: &JoinExec, table: &Table, marks: usize) -> Translated<Flow> {
    let (made, schema) = (&table.made, join.build().schema());
    let source = Source::Made {
        count: made.count,
        rows_max: made.rows_max,
    };
    let mut flow = Flow::new(source, schema.clone(), made.rows_max);
    flow.multiplied = made.multiplied;
    let columns = made.columns(fragment, &mut flow, &schema, "row", None);
    flow.enter(schema, columns);
    let array = flow.array(Input::Array(marks), "const u8");
    let sign = if join.spec().join_type == JoinType::LeftSemi { "!=" } else { "==" };
    flow.only_if(&format!("{array}[row] {sign} 0"));
    let own = flow.current();
    let output = join.spec().output.iter().map(|column| own[column.index].clone());
    flow.enter(join.schema(), output.collect());
    Ok(flow)
}

/// Names of keys as words, with what they can be, and of whether any is null.
type Words = (Vec<(String, Range)>, Option<String>);

fn words(flow: &mut Flow, keys: &[PhysicalExprRef]) -> Translated<Words> {
    let mut words = vec![];
    let mut values = vec![];
    for key in keys {
        let value = flow.translator.translate(key)?;
        words.push(flow.word(&value)?);
        values.push(value);
    }
    let null = flow.translator.any_null(&values);
    Ok((words, null))
}

impl Table {
    fn build(fragment: &mut Fragment, sides: &Sides<'_>) -> Translated<Table> {
        let mut flow = compile::flow(fragment, sides.build)?;
        let unique = has_unique_key(&flow, sides.build_keys);
        let (keys, null) = words(&mut flow, sides.build_keys)?;
        let present = null.map(|null| format!("!{null}"));
        // Rows without a key have no partner; an anti join puts them out.
        let keeps_all = sides.join_type == JoinType::LeftAnti;
        if let Some(present) = present.as_ref().filter(|_| !keeps_all) {
            flow.only_if(present);
        }
        let made = Made::of(fragment, &mut flow, |index| sides.reads_build(index))?;
        if let Some(present) = present.as_ref().filter(|_| keeps_all) {
            flow.only_if(present);
        }
        if keys.is_empty() {
            if made.rows_max > ALL_ROWS_MAX {
                return Err("a join by other than equality with many rows".into());
            }
            flow.finish(fragment)?;
            return Ok(Table {
                heads: made.count,
                next: Some(made.count),
                made,
                index: Index::All,
            });
        }
        let length = |(low, high): Range| u64::try_from(high - low).unwrap_or(u64::MAX).saturating_add(1);
        let allowed = RANGE_ALWAYS.max(made.rows_max.saturating_mul(RANGE_PER_ROW));
        let (index, buckets, bucket) = match &keys[..] {
            [(key, range)] if length(*range) <= allowed => {
                (Index::Range(*range), length(*range), format!("(u64)({key} - ({}))", c_number(range.0)))
            }
            _ => {
                let buckets = made.rows_max.saturating_mul(2).next_power_of_two().max(2);
                let mut arrays = vec![];
                for (key, _) in &keys {
                    let id = fragment.array(made.rows_max, 8, None);
                    let array = flow.array(Input::Array(id), "i64");
                    flow.line(&format!("{array}[at] = {key};"));
                    arrays.push(id);
                }
                let names: Vec<String> = keys.iter().map(|(key, _)| key.clone()).collect();
                let mask = flow.number(buckets - 1);
                (Index::Hash(buckets - 1, arrays), buckets, format!("{} & {mask}", hash(&names)))
            }
        };
        let heads = fragment.array(buckets, 4, Some(0));
        let heads_at = flow.array(Input::Array(heads), "u32");
        let single = unique && matches!(index, Index::Range(_));
        let next = (!single).then(|| fragment.array(made.rows_max, 4, None));
        match next {
            None => flow.line(&format!("{heads_at}[{bucket}] = at + 1;")),
            Some(next) => {
                let next = flow.array(Input::Array(next), "u32");
                flow.line(&format!("chain({heads_at}, {next}, {bucket}, at);"));
            }
        }
        flow.finish(fragment)?;
        Ok(Table {
            made,
            heads,
            next,
            index,
        })
    }

    /// A name for the first row of a key's chain, counted from 1; 0: there is none.
    fn head(&self, flow: &mut Flow, keys: &[String], null: Option<&str>) -> String {
        let heads = flow.array(Input::Array(self.heads), "const u32");
        let (bucket, within) = match &self.index {
            Index::Range((low, high)) => {
                let key = &keys[0];
                let (low, high) = (c_number(*low), c_number(*high));
                (
                    format!("(u64)({key} - ({low}))"),
                    Some(format!("{key} >= {low} && {key} <= {high}")),
                )
            }
            Index::All => {
                let room = flow.number(self.made.rows_max);
                let load = format!("(u32)min_of<u64>({heads}[0], {room})");
                return flow.translator.define("u32", load, None, DataType::UInt32, None).value;
            }
            Index::Hash(mask, _) => {
                let mask = flow.number(*mask);
                (format!("{} & {mask}", hash(keys)), None)
            }
        };
        let tests: Vec<String> = null.map(|null| format!("!{null}")).into_iter().chain(within).collect();
        let load = match tests.is_empty() {
            true => format!("{heads}[{bucket}]"),
            false => format!("{} ? {heads}[{bucket}] : 0u", tests.join(" && ")),
        };
        flow.translator.define("u32", load, None, DataType::UInt32, None).value
    }

    /// C++ of the row behind the one at hand.
    fn next_of(&self, flow: &mut Flow, head: &str) -> String {
        match self.next {
            Some(_) if matches!(self.index, Index::All) => format!("{head} - 1"),
            Some(next) => format!("{}[{head} - 1]", flow.array(Input::Array(next), "const u32")),
            None => "0".into(),
        }
    }

    /// C++ of whether the row at hand has these keys.
    fn equal(&self, flow: &mut Flow, keys: &[String], row: &str) -> String {
        let Index::Hash(_, arrays) = &self.index else {
            return "true".into();
        };
        let tests = arrays.iter().zip(keys).map(|(id, key)| {
            let array = flow.array(Input::Array(*id), "const i64");
            format!("{array}[{row}] == {key}")
        });
        let tests: Vec<String> = tests.collect();
        format!("({})", tests.join(" && "))
    }
}

fn hash(keys: &[String]) -> String {
    let words = keys.iter();
    let hash = words.fold("0ull".to_string(), |hash, key| format!("mixed({hash}, (u64){key})"));
    format!("({hash} >> 3)")
}

/// Whether no two rows of the build side have one key, as statistics prove it.
fn has_unique_key(flow: &Flow, keys: &[PhysicalExprRef]) -> bool {
    let [key] = keys else {
        return false;
    };
    let column = key.downcast_ref::<Column>();
    let column = column.and_then(|column| flow.columns.get(column.index()));
    !flow.multiplied && column.is_some_and(|column| column.unique)
}

/// A join whose probe side's code is written.
struct Joining<'a> {
    fragment: &'a mut Fragment,
    sides: &'a Sides<'a>,
    table: &'a Table,
    /// C++ of the number of the build side's row.
    row: &'a str,
    /// Whether there was a partner, of a mark join.
    mark: Option<Col>,
}

impl Joining<'_> {
    /// Columns of both sides.
    fn pick(&mut self, flow: &mut Flow, columns: &[ColumnIndex], missing: Option<&str>) -> Vec<Col> {
        let probe = flow.current();
        let (schema, side) = (self.sides.build.schema(), self.sides.build_side);
        let reads = columns.iter().any(|column| column.side == side);
        let build = match reads {
            true => self.table.made.columns(self.fragment, flow, &schema, self.row, missing),
            false => vec![],
        };
        let pick = |column: &ColumnIndex| match (column.side, &self.mark) {
            (JoinSide::None, Some(mark)) => mark.clone(),
            (own, _) if own == side => Col {
                unique: false,
                ..build[column.index].clone()
            },
            _ => probe[column.index].clone(),
        };
        columns.iter().map(pick).collect()
    }

    /// A name for whether `equal` holds and the join's filter, too.
    fn condition(&mut self, flow: &mut Flow, equal: &str) -> Translated<String> {
        let Some(filter) = &self.sides.join.spec().filter else {
            return Ok(flow.translator.define_truth(equal.into()).value);
        };
        let passed = flow.translator.define_truth("false".into()).value;
        let (schema, before) = (flow.translator.schema.clone(), flow.current());
        flow.line(&format!("if ({equal}) {{"));
        let columns = self.pick(flow, filter.column_indices(), None);
        flow.enter(filter.schema().clone(), columns);
        let value = flow.translator.boolean(filter.expression())?;
        flow.line(&format!("{passed} = {}; }}", value.is_true()));
        // What was named in there is not known outside.
        flow.enter(schema, before);
        Ok(passed)
    }

    /// Does something for each partner.
    fn each_match(
        &mut self,
        flow: &mut Flow,
        keys: &[String],
        (head, next): (&str, &str),
        action: &str,
    ) -> Translated<()> {
        flow.line(&format!("for (; {head} != 0; {head} = {next}) {{"));
        let equal = self.table.equal(flow, keys, self.row);
        let passed = self.condition(flow, &equal)?;
        flow.line(&format!("if ({passed}) {{ {action} }} }}"));
        Ok(())
    }

    /// The row has the join's columns from here on.
    fn put_out(&mut self, flow: &mut Flow, missing: Option<&str>) -> Translated<()> {
        let columns = self.pick(flow, &self.sides.join.spec().output, missing);
        flow.enter(self.sides.join.schema(), columns);
        Ok(())
    }
}
