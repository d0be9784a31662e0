//! From a plan to pipelines: scans, filters and projections are code in one pipeline, a join's build side ends one, its probe
//! side goes on.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use super::exec::OffloadExec;
use super::flow::{Col, Flow};
use super::fragment::{Fragment, Scan, Source};
use super::group::group;
use super::join::{self, Test};
use crate::aggregate::GroupExec;
use crate::codegen::Translated;
use crate::join::JoinExec;
use crate::scan::ScanExec;

/// The rows of a plan as an open pipeline.
pub fn flow(fragment: &mut Fragment, plan: &Arc<dyn ExecutionPlan>) -> Translated<Flow> {
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
    if let Some(own) = plan.downcast_ref::<OffloadExec>() {
        return flow(fragment, own.input());
    }
    // Which partition has a row matters to nobody here.
    if let Some(own) = plan
        .downcast_ref::<CoalescePartitionsExec>()
        .filter(|own| own.fetch().is_none())
    {
        return flow(fragment, own.input());
    }
    if let Some(own) = plan.downcast_ref::<RepartitionExec>() {
        return flow(fragment, own.input());
    }
    if let Some(own) = plan.downcast_ref::<GroupExec>() {
        let rows = flow(fragment, own.input())?;
        let groups = group(fragment, rows, own.spec(), own.estimate())?;
        return groups.flow(fragment, own.spec());
    }
    // What runs once on the CPU gives the same rows however often it runs.
    if plan.name() == "MaterializedExec"
        && let [input] = plan.children()[..]
    {
        return flow(fragment, input);
    }
    if let Some(own) = plan.downcast_ref::<CooperativeExec>() {
        return flow(fragment, own.input());
    }
    Err(format!("{} has no device form", plan.name()))
}

fn scanned(fragment: &mut Fragment, scan: &ScanExec) -> Translated<Flow> {
    let table = scan.table();
    let own = table.schema().fields().len();
    if scan.limit().is_some() || scan.columns().iter().any(|column| *column >= own) {
        return Err("a scan of some rows, or of their places".into());
    }
    let at = fragment.scans.len();
    fragment.scans.push(Scan {
        name: scan.alias().unwrap_or(table.name()).into(),
        table: Arc::clone(table),
        columns: vec![],
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
    for filter in scan.given() {
        flow.filter(filter)?;
    }
    // What joins above have found out on the device.
    let mut tests: Vec<(Arc<Test>, Vec<Option<usize>>)> = vec![];
    for (column, filter) in scan.runtime() {
        let Some((test, key)) = fragment.tests.get(&Arc::as_ptr(filter).addr()).cloned() else {
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
