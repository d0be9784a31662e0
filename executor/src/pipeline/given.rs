//! Rows that the CPU makes for a fragment: where the side of a join that gets a table has no device form and is small, its rows
//! are a table of their own, and the rest of the plan is a fragment over that.
//!
//! The tables, and all that was made for them, are kept as long as the same rows come again.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::{ExecutionPlan, execute_stream, execution_plan::reset_plan_states};
use futures::TryStreamExt;
use tenon_storage::{DeviceResidence, MemoryBudget, SqlType, TableVersion, table_of_rows};

use super::compile::expected;
use super::compiled::Compiled;
use super::counted::address;
use super::exec::OffloadExec;
use super::fragment::Sizes;
use super::join;
use super::kept::Kept;
use super::top::Top;
use crate::join::JoinExec;
use crate::memory_size::batch_bytes;
use crate::scan::ScanExec;

/// Rows of an input, as it is expected and as it is.
const ROWS_MAX: usize = 1 << 18;
/// Bytes of these, which are kept.
const BYTES_MAX: usize = 16 << 20;
/// The CPU reads so many times fewer rows for them than the plan has.
const READS_FEWER: u64 = 8;
/// Nodes whose rows others share, or that are of a round of a recursive query.
const SHARED: [&str; 3] = ["MaterializedExec", "ScalarSubqueryExec", "WorkTableExec"];

/// The tables by the address of the node whose rows they have.
#[derive(Debug)]
pub struct GivenRows(HashMap<usize, Arc<TableVersion>>);

impl PartialEq for GivenRows {
    fn eq(&self, other: &Self) -> bool {
        let same = |(node, table): (&usize, &Arc<TableVersion>)| {
            let others = other.0.get(node);
            others.is_some_and(|other| Arc::ptr_eq(table, other))
        };
        self.0.len() == other.0.len() && self.0.iter().all(same)
    }
}

impl GivenRows {
    pub fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<TableVersion>> {
        self.0.get(&address(plan)).cloned()
    }
}

/// Inputs that the CPU runs, the rows that they last had, and forms with these.
pub struct Given {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    rows: Vec<Vec<RecordBatch>>,
    forms: Arc<Kept>,
}

/// What is known of a plan's inputs.
#[derive(Default)]
pub enum Tried {
    #[default]
    Untried,
    /// There are none that would help.
    Useless,
    Known(Arc<Given>),
}

/// Forms of a plan that has none, with rows that the CPU makes for it; None: it has none with such, either.
pub async fn forms(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    kept: &Kept,
    context: &Arc<TaskContext>,
) -> Result<Option<Arc<Kept>>> {
    let known = match &*kept.given.lock() {
        Tried::Untried => None,
        Tried::Useless => return Ok(None),
        Tried::Known(given) => Some(Arc::clone(given)),
    };
    let useless = || {
        *kept.given.lock() = Tried::Useless;
        Ok(None)
    };
    let inputs = match &known {
        Some(given) => given.inputs.clone(),
        None => {
            let mut inputs = vec![];
            find(plan, &mut inputs)?;
            if inputs.is_empty() || Compiled::of(plan, top, &with_none(&inputs)?).is_err() {
                return useless();
            }
            // The CPU reads little for them: it knows nothing of what joins around them leave out.
            let reads: u64 = inputs.iter().map(rows_read_by_cpu).sum();
            if reads.saturating_mul(READS_FEWER) > scanned_rows(plan) {
                return useless();
            }
            inputs
        }
    };
    let mut rows = vec![];
    for input in &inputs {
        match made(input, context).await {
            Ok(Some(batches)) => rows.push(batches),
            Ok(None) => return useless(),
            // Whether that is an error the plan itself decides: it may need no row.
            Err(_) => return Ok(None),
        }
    }
    if let Some(known) = known.filter(|known| known.rows == rows) {
        return Ok(Some(Arc::clone(&known.forms)));
    }
    let forms = Arc::new(Kept::with(Arc::new(tables(&inputs, &rows)?)));
    *kept.given.lock() = Tried::Known(Arc::new(Given {
        inputs,
        rows,
        forms: Arc::clone(&forms),
    }));
    Ok(Some(forms))
}

/// The rows of an input; None: too many.
async fn made(input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Option<Vec<RecordBatch>>> {
    // The plan itself may yet run on the CPU.
    let mut stream = execute_stream(reset_plan_states(Arc::clone(input))?, Arc::clone(context))?;
    let reservation = MemoryConsumer::new("rows for the device").register(context.memory_pool());
    let (mut batches, mut rows) = (vec![], 0);
    while let Some(batch) = stream.try_next().await? {
        rows += batch.num_rows();
        if rows > ROWS_MAX {
            return Ok(None);
        }
        reservation.try_grow(batch_bytes(&batch))?;
        if reservation.size() > BYTES_MAX {
            return Ok(None);
        }
        if batch.num_rows() > 0 {
            batches.push(batch);
        }
    }
    Ok(Some(batches))
}

/// A table of each input's rows.
fn tables(inputs: &[Arc<dyn ExecutionPlan>], rows: &[Vec<RecordBatch>]) -> Result<GivenRows> {
    let of_input = |(input, rows): (&Arc<dyn ExecutionPlan>, &Vec<RecordBatch>)| {
        let schema = input.schema();
        let types = schema
            .fields()
            .iter()
            .map(|field| SqlType::from_data_type(field.data_type()));
        // Rows of types that no table has are not read: any type will do for them.
        let types: Vec<SqlType> = types.map(|own| own.unwrap_or(SqlType::Text)).collect();
        let table = table_of_rows("rows of the CPU", &types, rows, &MemoryBudget::unlimited());
        let table = table.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok((address(input), table))
    };
    let tables = inputs.iter().zip(rows).map(of_input);
    Ok(GivenRows(tables.collect::<Result<_>>()?))
}

/// The small sides of joins that have no device form, and of these the innermost with which what is around them has one.
fn find(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<dyn ExecutionPlan>>) -> Result<()> {
    let Some(own) = plan.downcast_ref::<JoinExec>() else {
        return plan.children().into_iter().try_for_each(|child| find(child, found));
    };
    let (build, probe) = join::sides(own);
    if !join::has_form(own, &Sizes::default()) {
        let before = found.len();
        find(build, found)?;
        let is_small = || expected(build).is_some_and(|rows| rows <= ROWS_MAX as u64);
        let helps = found.len() > before && join::has_form(own, &with_none(&found[before..])?);
        if !helps && is_small() && is_apart(build) {
            found.truncate(before);
            found.push(Arc::clone(build));
        }
    }
    find(probe, found)
}

/// These inputs as if they had no rows: before rows are made it is seen whether they would help.
fn with_none(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Sizes> {
    Ok(Sizes {
        given: Some(Arc::new(tables(inputs, &vec![vec![]; inputs.len()])?)),
        ..Sizes::default()
    })
}

/// Whether a part of a plan can run alone, and its rows may go to the device.
fn is_apart(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let scan = plan.downcast_ref::<ScanExec>();
    let kept_off = scan.is_some_and(|scan| scan.table().definition().device == Some(DeviceResidence::Never));
    let mut alone = !kept_off && !SHARED.contains(&plan.name());
    let seen = plan.apply_expressions(&mut |expr| {
        expr.apply(|own| {
            alone &= !own.is::<ScalarSubqueryExpr>();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    alone && seen.is_ok() && plan.children().into_iter().all(is_apart)
}

/// Rows of the tables that a plan reads.
fn scanned_rows(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.downcast_ref::<ScanExec>().map_or(0, |scan| scan.table().rows());
    own + plan.children().into_iter().map(scanned_rows).sum::<u64>()
}

/// The same, but for what fragments of their own may read.
fn rows_read_by_cpu(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    match plan.downcast_ref::<ScanExec>() {
        Some(scan) => scan.table().rows(),
        None if plan.is::<OffloadExec>() => 0,
        None => plan.children().into_iter().map(rows_read_by_cpu).sum(),
    }
}
