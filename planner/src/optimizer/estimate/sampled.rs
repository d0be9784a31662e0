//! Predicates that no formula covers, over one stored column: answered by trying them on the values that stand for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;

use super::Profile;
use foldhash::fast::FixedState;

thread_local! {
    /// What was found out for the plan that is being made.
    static FOUND: RefCell<Option<HashMap<Asked, Option<f64>>>> = const { RefCell::new(None) };
}

/// What is asked of a column of a table version: for what share of its rows an expression holds, or how many values it has; the
/// expression by its hash.
type Asked = (bool, usize, usize, u64);

/// Runs a computation that may ask the same of the same columns again and again.
pub fn remembering<T>(planning: impl FnOnce() -> T) -> T {
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            FOUND.set(None);
        }
    }
    FOUND.set(Some(HashMap::new()));
    let _forget = Forget;
    planning()
}

fn remembered(
    shares: bool,
    expr: &Expr,
    schema: &DFSchema,
    profile: &Profile,
    find: impl FnOnce() -> Option<f64>,
) -> Option<f64> {
    let column = only_column(expr, schema).and_then(|(column, _)| profile.known(column, schema));
    let stored = column?.stored.as_ref()?;
    // The version outlives the planning: the plan reads it.
    let (table, column) = (Arc::as_ptr(&stored.table) as usize, stored.column);
    let asked = (shares, table, column, FixedState::default().hash_one(expr));
    let known = FOUND.with_borrow(|found| found.as_ref().and_then(|found| found.get(&asked).copied()));
    known.unwrap_or_else(|| {
        let answer = find();
        FOUND.with_borrow_mut(|found| found.as_mut().and_then(|found| found.insert(asked, answer)));
        answer
    })
}

/// Share of the rows for which `predicate` holds.
pub(super) fn share(predicate: &Expr, schema: &DFSchema, profile: &Profile) -> Option<f64> {
    remembered(true, predicate, schema, profile, || {
        share_of(predicate, schema, profile)
    })
}

fn share_of(predicate: &Expr, schema: &DFSchema, profile: &Profile) -> Option<f64> {
    let (answers, shares) = evaluate(predicate, schema, profile)?;
    let answers = answers.as_boolean_opt()?;
    let holds = |at: usize| answers.is_valid(at) && answers.value(at);
    let share: f64 = (0..answers.len()).filter(|&at| holds(at)).map(|at| shares[at]).sum();
    // What none of them meets, rarer ones still may.
    let rarest = shares.iter().copied().fold(f64::INFINITY, f64::min);
    Some(share.max(rarest / 2.0).min(1.0))
}

/// Distinct values of an expression over one column; None where the sample is too small to tell.
pub(super) fn distinct(expr: &Expr, schema: &DFSchema, profile: &Profile) -> Option<f64> {
    remembered(false, expr, schema, profile, || distinct_of(expr, schema, profile))
}

fn distinct_of(expr: &Expr, schema: &DFSchema, profile: &Profile) -> Option<f64> {
    let (values, _) = evaluate(expr, schema, profile)?;
    let mut hashes = vec![0; values.len()];
    tenon_storage::statistics::sketch::hash_array(&values, &mut hashes);
    hashes.sort_unstable();
    hashes.dedup();
    (hashes.len() * 2 < values.len()).then_some(hashes.len() as f64)
}

/// The expression's values on its one column's representatives, and the share of the rows that each stands for.
fn evaluate(expr: &Expr, schema: &DFSchema, profile: &Profile) -> Option<(ArrayRef, Vec<f64>)> {
    let (column, field) = only_column(expr, schema)?;
    let stored = profile.known(column, schema)?.stored.as_ref()?;
    let (values, shares) = stored.representatives()?;
    let own = DFSchema::from_unqualified_fields(vec![field.clone()].into(), Default::default()).ok()?;
    let unqualified = unqualify(expr)?;
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let physical = create_physical_expr(&unqualified, &own, &props, &context).ok()?;
    let rows = values.len();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).ok()?;
    // A predicate that fails on a value says nothing of the others.
    let answers = physical.evaluate(&batch).ok()?.into_array(rows).ok()?;
    Some((answers, shares))
}

/// Whether an expression says the same of a row each time, by its columns alone.
pub fn is_of_row(expr: &Expr) -> bool {
    let is_more = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    };
    use datafusion::common::tree_node::TreeNode;
    !(expr.is_volatile() || expr.exists(is_more).unwrap_or(true))
}

fn only_column<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<(&'a Column, Arc<Field>)> {
    let columns = expr.column_refs();
    let mut columns = columns.into_iter();
    let (column, None) = (columns.next()?, columns.next()) else {
        return None;
    };
    if !is_of_row(expr) {
        return None;
    }
    let at = schema.maybe_index_of_column(column)?;
    let field = schema.field(at).as_ref().clone().with_nullable(true);
    Some((column, Arc::new(field)))
}

fn unqualify(expr: &Expr) -> Option<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let bare = expr.clone().transform(|e| {
        Ok(match e {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    });
    Some(bare.ok()?.data)
}
