//! GROUPING SETS, ROLLUP and CUBE: rows are looked at once, for the groups by all keys; these are rows of a further pipeline, each
//! of which goes into its group of every set, so that all sets' groups are in one hash table, told apart by the set's number
//! among the keys. A key that a set lacks is null there.
//!
//! A row costs what it costs without sets, a group by all keys one search and as many atomic additions for each set: the groups of
//! few keys are met by all of those, but these are no more than the groups.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input, ROWS_MAX, Source};
use super::super::passes::Stage;
use super::keys::{Coded, keys};
use super::listed::{Table, listed};
use super::{Distincts, Grouping, Groups, Update, group};
use crate::aggregate::GroupSpec;
use crate::codegen::Translated;

/// Sets are told by the bits of a word.
const SETS_MAX: usize = 64;

/// Ends a flow in the groups of all sets.
pub fn grouped(
    fragment: &mut Fragment,
    flow: Flow,
    spec: &GroupSpec,
    distinct: &[bool],
    estimate: Option<usize>,
) -> Translated<Grouping> {
    if spec.sets.len() > SETS_MAX {
        return Err("very many grouping sets".into());
    }
    if distinct.contains(&true) {
        return Err("grouping sets of values that count once".into());
    }
    let number_at = spec.keys.len();
    let fields = spec.schema.fields().iter().enumerate();
    let fields = fields
        .filter(|(at, _)| *at != number_at)
        .map(|(_, field)| Arc::clone(field));
    let finest_spec = GroupSpec {
        sets: vec![],
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        ..spec.clone()
    };
    let finest = group(fragment, flow, &finest_spec, &[], estimate)?;
    let first = fragment.arrays.len();
    let mut flow = finest.flow(fragment, &finest_spec)?;
    let sets = spec.sets.len() as u64;
    flow.open(&format!("for (u32 set = 0; set < {sets}u; set++) {{"), "");
    let mut columns = flow.current();
    for (at, column) in columns.iter_mut().take(number_at).enumerate() {
        let having = spec.sets.iter().enumerate().filter(|(_, set)| set.has[at]);
        let having = having.fold(0u64, |bits, (set, _)| bits | 1 << set);
        let lacks = format!("({having:#x}ull >> set & 1) == 0");
        let null = match &column.given.null {
            Some(null) => format!("({null} || {lacks})"),
            None => format!("({lacks})"),
        };
        column.given = column.given.clone().with_null(Some(null));
        // Rows of one table are no more told by it.
        column.unique = false;
        column.equals = None;
    }
    flow.enter(Arc::clone(&finest_spec.schema), columns);
    let names = finest_spec.keys.iter().enumerate();
    let own_keys = names.map(|(at, (_, name))| (Arc::new(Column::new(name, at)) as PhysicalExprRef, name.clone()));
    let by_columns = GroupSpec {
        keys: own_keys.collect(),
        ..finest_spec.clone()
    };
    let (mut coded, _) = keys(fragment, &mut flow, &by_columns, false)?;
    let numbers: Vec<i64> = spec.sets.iter().map(|set| set.number as i64).collect();
    let number = numbers.iter().enumerate().rev();
    let number = number.fold("0".to_string(), |rest, (set, number)| {
        format!("set == {set}u ? {number}ll : ({rest})")
    });
    let range = numbers
        .iter()
        .fold((0, 0), |(low, high), &number| (number.min(low), number.max(high)));
    coded.push(Coded {
        word: format!("(i64)({number})"),
        low: range.0.into(),
        high: range.1.into(),
        null: None,
        data_type: spec.schema.field(number_at).data_type().clone(),
        texts: None,
        text: None,
        equals: None,
        pass: None,
        above: None,
        of_numeric: false,
    });
    let mut updates = vec![];
    for ((how, words), bounds) in finest.hows.iter().zip(&finest.words).zip(&finest.bounds) {
        let words = words
            .iter()
            .map(|word| format!("{}[row]", flow.array(Input::Array(*word), "const u64")));
        updates.push(Update::merging(*how, &words.collect::<Vec<_>>(), *bounds));
    }
    let stage = match flow.stage {
        Stage::Pass => Stage::After,
        other => other,
    };
    let groups_max = flow.rows_max.saturating_mul(sets).min(ROWS_MAX);
    let usual = flow.room.saturating_mul(sets).min(groups_max);
    let count = fragment.array(1, 4, Some(0));
    // Sets of fewer keys have fewer groups.
    let expected = finest.expected.map(|groups| groups.saturating_mul(2));
    let capacity = fragment.table(count, stage, usual, groups_max, expected);
    let (mut words, mut global) = (vec![], vec![]);
    for update in &updates {
        let own: Vec<usize> = (0..update.words())
            .map(|_| fragment.array(capacity, 8, Some(0)))
            .collect();
        let arrays = own.iter().map(|id| flow.array(Input::Array(*id), "u64"));
        global.push(arrays.collect::<Vec<_>>());
        words.push(own);
    }
    let result = Grouping {
        keys: vec![],
        words,
        states: finest.states,
        hows: finest.hows,
        bounds: finest.bounds,
        rows_max: finest.rows_max,
        groups: Groups::One,
        expected,
        stage,
    };
    flow.far = true;
    let groups = Table {
        count,
        groups_max: groups_max.max(capacity),
        capacity,
    };
    let taken = (&updates[..], &global[..], &Distincts::default());
    let all = listed(fragment, flow, result, (coded, vec![]), taken, groups)?;
    if number_at > 0 && spec.sets.iter().any(|set| !set.has.contains(&true)) {
        // The set of no keys has a group of no rows, too, which the CPU makes.
        let mut flow = Flow::new(Source::Numbers(1), Arc::new(Schema::empty()), 1);
        flow.stage = stage;
        let count = flow.array(Input::Array(count), "const u32");
        flow.line(&format!("if ({count}[0] == 0) p.fail();"));
        flow.finish(fragment)?;
    }
    fragment.arrays_of(stage, first);
    Ok(all)
}
