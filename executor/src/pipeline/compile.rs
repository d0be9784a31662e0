//! From a plan to pipelines: scans, filters and projections are code in one pipeline, a join's build side ends one, its probe
//! side goes on.

use std::sync::Arc;

use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::col::Col;
use super::counted::{address, count};
use super::exec::OffloadExec;
use super::flow::Flow;
use super::fragment::{Fragment, Scan, Source};
use super::group::{Steps, group};
use super::join::{self, Test};
use super::made::Made;
use super::passes::Stage;
use super::sorted::Sorted;
use super::window;
use crate::aggregate::GroupExec;
use crate::codegen::Translated;
use crate::join::JoinExec;
use crate::scan::ScanExec;
use crate::window::WindowExec;
use tenon_storage::{DeviceResidence, TableVersion};

/// Nodes that give rows as they come, or may as well.
const HANDS_ON: [&str; 4] = ["CooperativeExec", "GroupTopExec", "PiecesExec", "UnorderedExec"];

/// The rows of a plan as an open pipeline.
pub fn flow(fragment: &mut Fragment, plan: &Arc<dyn ExecutionPlan>) -> Translated<Flow> {
    let mut flow = flow_of(fragment, plan)?;
    if fragment.is_sparing() {
        let in_pass = match (fragment.passes(), flow.stage) {
            (Some(passes), Stage::Pass) => passes.count,
            _ => 1,
        };
        flow.expected = expected(plan).map(|rows| rows.div_ceil(in_pass));
    }
    count(fragment, &mut flow, plan);
    Ok(flow)
}

/// Rows that the planner expects.
pub fn expected(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = statistics.ok()?.num_rows.get_value().copied()?;
    Some(rows as u64)
}

fn flow_of(fragment: &mut Fragment, plan: &Arc<dyn ExecutionPlan>) -> Translated<Flow> {
    if let Some(table) = fragment.given(plan) {
        return given(fragment, plan, table);
    }
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return scanned(fragment, scan);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mut flow = flow(fragment, projection.input())?;
        let columns = flow.projected(projection.expr().iter().map(|own| &own.expr))?;
        flow.enter(plan.schema(), columns);
        return Ok(flow);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let mut flow = flow(fragment, filter.input())?;
        flow.filter(filter.predicate())?;
        let own = flow.current();
        let columns = match filter.projection() {
            Some(columns) => columns.iter().map(|&column| own[column].clone()).collect(),
            None => own,
        };
        flow.enter(plan.schema(), columns);
        return Ok(flow);
    }
    if let Some(own) = plan.downcast_ref::<JoinExec>() {
        return join::flow(fragment, own);
    }
    if let Some(input) = handed_on(plan) {
        return flow(fragment, input);
    }
    if let Some(steps) = Steps::of(plan) {
        let steps = steps?;
        if steps.are_first_values() {
            return window::firsts(fragment, &steps);
        }
        let rows = flow(fragment, steps.input)?;
        let groups = group(fragment, rows, &steps.spec, &steps.distinct, steps.estimate)?;
        return groups.flow(fragment, &steps.spec);
    }
    if let Some(own) = plan.downcast_ref::<GroupExec>() {
        let rows = flow(fragment, own.input())?;
        let groups = group(fragment, rows, own.spec(), &[], own.estimate())?;
        return groups.flow(fragment, own.spec());
    }
    if let Some(own) = plan.downcast_ref::<WindowExec>() {
        return window::flow(fragment, plan, own.window_expr());
    }
    if let Some(own) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return window::flow(fragment, plan, own.window_expr());
    }
    if let Some(own) = plan.downcast_ref::<SortExec>() {
        let apart = own.preserve_partitioning() && own.input().output_partitioning().partition_count() > 1;
        return match own.fetch() {
            // In which order rows come matters to nobody here.
            None => flow(fragment, own.input()),
            Some(_) if apart => Err("the first rows of each partition".into()),
            Some(fetch) => first(fragment, own.input(), own.expr(), (0, fetch)),
        };
    }
    if let Some(own) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return match own.fetch() {
            None => flow(fragment, own.input()),
            Some(fetch) => first(fragment, own.input(), own.expr(), (0, fetch)),
        };
    }
    if let Some(own) = plan.downcast_ref::<GlobalLimitExec>() {
        return match (own.input().output_ordering(), own.fetch()) {
            (Some(order), Some(fetch)) => first(fragment, own.input(), order, (own.skip(), fetch)),
            _ => Err("a LIMIT of rows in no order".into()),
        };
    }
    // The latter puts rows of one input before those of the next, which matters to nobody here.
    if plan.is::<UnionExec>() || plan.name() == "AppendExec" {
        let flows = plan.children().into_iter().map(|input| {
            let mut own = flow(fragment, input)?;
            let columns = own.current();
            own.enter(plan.schema(), columns);
            Ok(own)
        });
        let flows = flows.collect::<Translated<Vec<_>>>()?;
        let made = Made::of_all(fragment, flows)?;
        let mut flow = Flow::over(&made, plan.schema());
        let columns = made.columns(fragment, &mut flow, &plan.schema(), "row", None);
        flow.enter(plan.schema(), columns);
        return Ok(flow);
    }
    Err(format!("{} has no device form", plan.name()))
}

/// The input of a node that gives its rows, in whatever partitions and order: neither matters to anybody here.
fn handed_on(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let coalesced = plan.downcast_ref::<CoalescePartitionsExec>();
    let gives_all = plan.is::<OffloadExec>()
        || plan.is::<RepartitionExec>()
        || coalesced.is_some_and(|own| own.fetch().is_none())
        // What runs once on the CPU gives the same rows however often it runs.
        || plan.name() == "MaterializedExec"
        || HANDS_ON.contains(&plan.name());
    match plan.children()[..] {
        [input] if gives_all => Some(input),
        _ => None,
    }
}

/// So many of the first rows in an order, but for so many before them.
fn first(
    fragment: &mut Fragment,
    input: &Arc<dyn ExecutionPlan>,
    order: &LexOrdering,
    (skip, fetch): (usize, usize),
) -> Translated<Flow> {
    // Sorts below by the same order that leave out rows behind these.
    let mut input = input;
    loop {
        let below = match (
            input.downcast_ref::<SortExec>(),
            input.downcast_ref::<SortPreservingMergeExec>(),
        ) {
            (Some(sort), _) if sort.expr() == order => (sort.input(), sort.fetch()),
            (_, Some(merge)) if merge.expr() == order => (merge.input(), merge.fetch()),
            _ => break,
        };
        match below {
            (below, fetched) if fetched.is_none_or(|fetched| fetched >= skip.saturating_add(fetch)) => input = below,
            _ => break,
        }
    }
    let rows = flow(fragment, input)?;
    Sorted::first(fragment, rows, input.schema(), order, (skip, fetch))
}

/// Rows that the CPU has made. What it keeps in another type than the node gives is for nobody to read.
fn given(fragment: &mut Fragment, plan: &Arc<dyn ExecutionPlan>, table: Arc<TableVersion>) -> Translated<Flow> {
    let at = fragment.scans.len();
    fragment.scans.push(Scan {
        name: "rows of the CPU".into(),
        node: address(plan),
        table: Arc::clone(&table),
        columns: vec![],
        given: true,
    });
    let mut flow = Flow::new(Source::Scan(at), plan.schema(), table.rows());
    let schema = plan.schema();
    let fields = schema.fields().iter().zip(table.schema().fields()).enumerate();
    let columns = fields.map(|(column, (field, kept))| match field.data_type() == kept.data_type() {
        true => flow.scanned(fragment, at, column),
        false => Ok(Col::unread(field.data_type())),
    });
    let columns = columns.collect::<Translated<Vec<_>>>()?;
    flow.enter(schema, columns);
    Ok(flow)
}

fn scanned(fragment: &mut Fragment, scan: &ScanExec) -> Translated<Flow> {
    let table = scan.table();
    let own = table.schema().fields().len();
    if scan.limit().is_some() || scan.columns().iter().any(|column| *column >= own) {
        return Err("a scan of some rows, or of their places".into());
    }
    if table.definition().device == Some(DeviceResidence::Never) {
        return Err(format!("{} is kept off the GPU", table.name()));
    }
    let at = fragment.scans.len();
    fragment.scans.push(Scan {
        name: scan.alias().unwrap_or(table.name()).into(),
        node: std::ptr::from_ref(scan).addr(),
        table: Arc::clone(table),
        columns: vec![],
        given: false,
    });
    let mut flow = Flow::new(Source::Scan(at), scan.full_schema().clone(), table.rows());
    // Filters see all columns; those that nothing reads are not loaded.
    let mut read = scan.columns().to_vec();
    for filter in scan.given() {
        let columns = datafusion::physical_expr::utils::collect_columns(filter);
        read.extend(columns.iter().map(|column| column.index()));
    }
    let mut columns: Vec<Col> = vec![];
    for (column, field) in scan.full_schema().fields().iter().enumerate() {
        columns.push(match read.contains(&column) && column < own {
            true => flow.scanned(fragment, at, column)?,
            false => Col::unread(field.data_type()),
        });
    }
    flow.enter(scan.full_schema().clone(), columns);
    let passes = fragment.passes().cloned();
    let key = passes.as_ref().and_then(|passes| passes.column(at));
    if let (Some(passes), Some(key)) = (&passes, key) {
        let column = flow.scanned(fragment, at, key)?;
        flow.only_in_pass(column)?;
        flow.room = passes.rows_max(table, key);
    }
    for filter in scan.given() {
        flow.filter(filter)?;
    }
    // What joins above have found out on the device.
    let mut tests: Vec<(Arc<Test>, Vec<Option<usize>>)> = vec![];
    for (column, filter) in scan.runtime() {
        let address = Arc::as_ptr(filter).addr();
        let Some((test, key)) = fragment.tests.get(&address).cloned() else {
            fragment.filtered_outside |= !fragment.filters.contains(&address);
            continue;
        };
        let known = tests.iter().position(|(known, _)| Arc::ptr_eq(known, &test));
        let known = known.unwrap_or_else(|| {
            tests.push((Arc::clone(&test), vec![None; test.keys()]));
            tests.len() - 1
        });
        tests[known].1[key] = Some(*column);
    }
    for (test, columns) in tests {
        // What rows it rules out must be known by then, and the same in all passes that read these.
        if test.stage() != Stage::Once && test.stage() != flow.stage {
            continue;
        }
        // A test is of all keys together.
        if let Some(columns) = columns.into_iter().collect::<Option<Vec<usize>>>() {
            let keys = columns.into_iter().map(|column| flow.scanned(fragment, at, column));
            let keys = keys.collect::<Translated<_>>()?;
            test.apply(&mut flow, keys)?;
        }
    }
    flow.list_here();
    let own = flow.current();
    let columns = scan.columns().iter().map(|&column| own[column].clone()).collect();
    flow.enter(scan.schema(), columns);
    Ok(flow)
}
