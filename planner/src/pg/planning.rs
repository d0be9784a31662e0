//! Bounds on planning: it ends when its statement does.
//!
//! Planning is one long computation that nothing can interrupt. So it asks, wherever it takes another step, whether its
//! statement is still wanted: when a name is looked up, before each rule of the optimizer, and inside rules that search.
//! A task that plans carries its statement's token for that.

use crate::pg::error::{SqlError, canceled, state};
use crate::pg::errors::to_datafusion;
use crate::pg::lex::depth::too_deep;
use crate::pg::settings::Settings;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    static STATEMENT: Statement;
}

/// What ends the planning of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub ended: CancellationToken,
    /// Where the task that looks at the clock is the one that plans.
    pub deadline: Option<Instant>,
}

/// Runs a future that plans for a statement.
pub(crate) async fn under<T>(statement: CancellationToken, planning: impl Future<Output = T>) -> T {
    let statement = Statement {
        ended: statement,
        deadline: None,
    };
    STATEMENT.scope(statement, planning).await
}

impl Statement {
    /// A statement that began at some time, under a session's settings.
    pub fn new(ended: CancellationToken, began: Instant, settings: &Settings) -> Self {
        Self {
            ended,
            deadline: settings
                .times()
                .statement
                .and_then(|timeout| began.checked_add(timeout)),
        }
    }
}

/// Runs a computation that plans for a statement, while other tasks of the thread go on elsewhere.
pub(crate) fn under_here<T>(statement: &Statement, planning: impl FnOnce() -> T) -> T {
    let planning = || STATEMENT.sync_scope(statement.clone(), planning);
    let handle = tokio::runtime::Handle::try_current();
    match handle.map(|handle| handle.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(planning),
        _ => planning(),
    }
}

/// 57014 if the statement that this thread plans has ended.
pub(crate) fn check() -> Result<(), SqlError> {
    let ended = STATEMENT.try_with(|statement| {
        if statement.ended.is_cancelled() {
            return Err(canceled());
        }
        match statement.deadline {
            Some(deadline) if Instant::now() > deadline => Err(SqlError::new(
                state::QUERY_CANCELED,
                "canceling statement due to statement timeout",
            )),
            _ => Ok(()),
        }
    });
    ended.unwrap_or(Ok(()))
}

/// Nodes of a plan at most, before the optimizer makes more of them.
pub(crate) const NODES_MAX: usize = 200_000;
/// Nodes of a plan above each other, at most: views in views nest as no text does.
pub(crate) const DEPTH_MAX: usize = 6_000;

/// Fails where a plan of so many nodes, and so many above each other, is too large.
pub(crate) fn fits(nodes: usize, depth: usize) -> Result<(), SqlError> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    if nodes > NODES_MAX {
        let message = format!("the statement is too complex: its plan has more than {NODES_MAX} nodes");
        return Err(SqlError::new(state::STATEMENT_TOO_COMPLEX, message));
    }
    Ok(())
}

/// A rule that changes nothing, between those that do.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint;

static ALL_RULES: LazyLock<bool> = LazyLock::new(|| std::env::var_os("TENON_TEST_ALL_RULES").is_some());

/// Whether rules shall run whatever they are about: a trial compares the plans.
pub(crate) fn all_rules() -> bool {
    *ALL_RULES
}

/// That a rule which gave an input other columns told the join above: what counts columns would take one for another.
pub(crate) fn has_columns_of_inputs(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| of_inputs(node).map(|()| TreeNodeRecursion::Continue))?;
    Ok(())
}

fn of_inputs(plan: &LogicalPlan) -> Result<()> {
    if let LogicalPlan::Join(join) = plan
        && matches!(
            join.join_type,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
        )
    {
        let [left, right, own] = [join.left.schema(), join.right.schema(), &join.schema].map(|of| of.fields().len());
        if left + right != own {
            return internal_err!("a join of {left} and {right} columns has {own}");
        }
    }
    Ok(())
}

impl PhysicalOptimizerRule for Checkpoint {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        check().map_err(to_datafusion)?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "checkpoint"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rules with a checkpoint before each.
pub(crate) fn checked<R: ?Sized>(rules: Vec<Arc<R>>, checkpoint: impl Fn() -> Arc<R>) -> Vec<Arc<R>> {
    rules.into_iter().flat_map(|rule| [checkpoint(), rule]).collect()
}
