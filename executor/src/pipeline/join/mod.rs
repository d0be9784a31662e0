//! Joins by equality in pipelines: the build side ends in a table with chains of its rows by key, the probe side looks its
//! rows up there and goes on.
//!
//! Chains begin in an array over the range of the key where that is not much longer than the table, else in one over hashes
//! (He 2008, section 4.4, in its simple form). A key that no two rows of the build side share needs no chains. Where a condition
//! bounds a key of the build side, instead, its rows are sorted by that, and the probe side searches them; so it does where they
//! lie in the order of a key.

mod ascending;
mod keys;
mod sorted;
mod table;

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::ColumnIndex;

use super::col::Col;
use super::compile;
use super::flow::Flow;
use super::fragment::{self, Fragment, Input};
use super::made::Made;
use super::passes::{Passes, joined};
use crate::codegen::{Given, Translated};
use crate::join::choice::Choice;
use crate::join::{JoinExec, JoinPath};
use keys::{Word, probe_words};
pub use table::Test;
use table::{Head, Table, equals};

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
        let sorts_probe = spec.range.as_ref().is_some_and(|range| range.sorted == JoinSide::Right);
        let swapped = match spec.join_type {
            JoinType::Left => Some(JoinType::Right),
            JoinType::LeftMark => Some(JoinType::RightMark),
            JoinType::Inner if spec.build_keys.is_empty() && sorts_probe => Some(JoinType::Inner),
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

/// The side of a join that gets a table, and the other side.
pub fn sides(join: &JoinExec) -> (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) {
    let sides = Sides::of(join);
    (sides.build, sides.probe)
}

/// Whether the table has a device form all of whose columns kernels can read.
pub fn has_form(join: &JoinExec, sizes: &fragment::Sizes) -> bool {
    let mut fragment = Fragment::new(sizes.clone());
    fragment.reads_all = true;
    Table::build(&mut fragment, &Sides::of(join)).is_ok()
}

pub fn flow(fragment: &mut Fragment, join: &JoinExec) -> Translated<Flow> {
    use JoinType::*;
    let spec = join.spec();
    let sides = Sides::of(join);
    if spec.null_aware && (sides.join_type != LeftAnti || spec.filter.is_some()) {
        return Err("a NOT IN with a further condition".into());
    }
    if !matches!(
        sides.join_type,
        Inner | Right | Full | RightSemi | RightAnti | RightMark | LeftSemi | LeftAnti
    ) {
        return Err(format!("a {} join", spec.join_type));
    }
    let filters = join.filters().iter();
    fragment
        .filters
        .extend(filters.map(|(_, filter)| Arc::as_ptr(filter).addr()));
    let mut table = Table::build(fragment, &sides)?;
    if let Some(test) = table.test.take() {
        let test = Arc::new(test);
        for (key, filter) in join.filters() {
            let told = (Arc::clone(&test), *key);
            fragment.tests.insert(Arc::as_ptr(filter).addr(), told);
        }
    }
    let mut flow = compile::flow(fragment, sides.probe)?;
    table.allows(flow.rows_max)?;
    let compared: Vec<_> = table
        .equals
        .iter()
        .copied()
        .zip(equals(&flow, sides.probe_keys))
        .collect();
    let (operator, indexed, reason) = table.operator(fragment, compared.first().and_then(|(_, probe)| *probe));
    let path = JoinPath {
        operator,
        on_gpu: true,
        pipelined: true,
        indexed,
        build: sides.build_side,
    };
    let choice = Choice {
        path,
        seconds: None,
        reason: reason.into(),
    };
    fragment.joins.push((std::ptr::from_ref(spec).addr(), choice));
    let both = compared.iter().filter_map(|(build, probe)| build.zip(*probe));
    fragment.equal.extend(both);
    let by_key = |passes: &Arc<Passes>| {
        compared
            .iter()
            .any(|(build, probe)| passes.has(*build) && passes.has(*probe))
    };
    let by_key = fragment.passes().is_some_and(by_key);
    let stages = (table.made.stage, flow.stage);
    let (probing, stage) = joined(stages, by_key, sides.join_type, spec.null_aware)?;
    flow.stage = probing;
    let words = probe_words(&mut flow, sides.probe_keys, &table.forms, spec.null_equal)?;
    if words.words.iter().map(|word| &word.data_type).ne(&table.types) {
        return Err("keys of different types".into());
    }
    let absent = words.absent();
    let (keys, null) = (words.words, words.null);
    let Head { name: head, row, next } = table.head(&mut flow, &keys, absent.as_deref())?;
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
        Right | Full => {
            let first = joining.fragment.arrays.len();
            let marks = (sides.join_type == Full).then(|| joining.fragment.array(table.made.room, 1, Some(0)));
            joining.fragment.arrays_of(table.made.stage, first);
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
            if let Some(marks) = marks {
                let array = flow.array(Input::Array(marks), "u8");
                flow.line(&format!("if (!{missing}) {array}[{row}] = 1;"));
            }
            joining.put_out(&mut flow, Some(&missing))?;
            if let Some(marks) = marks {
                let others = alone(joining.fragment, &sides, &table, marks, &flow.current())?;
                let made = Made::of_all(joining.fragment, vec![flow, others])?;
                let mut flow = Flow::over(&made, join.schema());
                flow.multiplied = made.multiplied;
                let columns = made.columns(joining.fragment, &mut flow, &join.schema(), "row", None);
                flow.enter(join.schema(), columns);
                return Ok(flow);
            }
        }
        RightMark => {
            let found = flow.translator.define_truth("false".into());
            joining.each_match(
                &mut flow,
                &keys,
                (&head, &next),
                &format!("{} = true; break;", found.value),
            )?;
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
            let first = joining.fragment.arrays.len();
            let marks = joining.fragment.array(table.made.room, 1, Some(0));
            joining.fragment.arrays_of(table.made.stage, first);
            let array = flow.array(Input::Array(marks), "u8");
            // A NOT IN knows no row of whose key it cannot say that it is another: whether there are rows, and null ones.
            let seen = spec.null_aware.then(|| joining.fragment.array(2, 4, Some(0)));
            if let Some(seen) = seen {
                let seen = flow.array(Input::Array(seen), "u32");
                flow.line(&format!("{seen}[0] = 1;"));
                if let Some(null) = &null {
                    flow.line(&format!("if ({null}) {seen}[1] = 1;"));
                }
            }
            joining.each_match(&mut flow, &keys, (&head, &next), &format!("{array}[{row}] = 1;"))?;
            flow.finish(joining.fragment)?;
            let mut flow = marked(joining.fragment, join, &table, marks)?;
            flow.stage = stage;
            if let Some(seen) = seen {
                let seen = flow.array(Input::Array(seen), "const u32");
                flow.only_if(&format!("{seen}[1] == 0"));
                if let Some(null_keys) = table.null_keys {
                    let null_keys = flow.array(Input::Array(null_keys), "const u8");
                    flow.only_if(&format!("{null_keys}[row] == 0 || {seen}[0] == 0"));
                }
            }
            return Ok(flow);
        }
    }
    Ok(flow)
}

/// The rows of the build side that nobody marked, with nothing of the other side: of the columns in `whole`.
fn alone(fragment: &mut Fragment, sides: &Sides<'_>, table: &Table, marks: usize, whole: &[Col]) -> Translated<Flow> {
    let (made, schema) = (&table.made, sides.build.schema());
    let mut flow = Flow::over(made, schema.clone());
    flow.multiplied = made.multiplied;
    let array = flow.array(Input::Array(marks), "const u8");
    flow.only_if(&format!("{array}[row] == 0"));
    let own = made.columns(fragment, &mut flow, &schema, "row", None);
    let output = sides.join.spec().output.iter().zip(whole);
    let columns = output.map(|(column, whole)| match column.side == sides.build_side {
        true => Ok(own[column.index].clone()),
        false => whole.nothing(),
    });
    let columns = columns.collect::<Translated<_>>()?;
    flow.enter(sides.join.schema(), columns);
    Ok(flow)
}

/// The rows of the build side by whether a partner marked them.
fn marked(fragment: &mut Fragment, join: &JoinExec, table: &Table, marks: usize) -> Translated<Flow> {
    let (made, schema) = (&table.made, join.build().schema());
    let mut flow = Flow::over(made, schema.clone());
    flow.multiplied = made.multiplied;
    let columns = made.columns(fragment, &mut flow, &schema, "row", None);
    flow.enter(schema, columns);
    let array = flow.array(Input::Array(marks), "const u8");
    let sign = if join.spec().join_type == JoinType::LeftSemi {
        "!="
    } else {
        "=="
    };
    flow.only_if(&format!("{array}[row] {sign} 0"));
    let own = flow.current();
    let output = join.spec().output.iter().map(|column| own[column.index].clone());
    flow.enter(join.schema(), output.collect());
    Ok(flow)
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
        keys: &[Word],
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
