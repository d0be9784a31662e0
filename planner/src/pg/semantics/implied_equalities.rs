//! Equalities that follow from others are dropped: of `a = b AND b = c AND a = c`, the last.
//!
//! The join graph closes equalities transitively anyway (`join_order`), while many of DataFusion's rules take time for
//! every pair of conjuncts: of thirty tables joined each with each, 29 of 435 equalities are left.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

/// Runs before types are coerced, which takes time by the square of a conjunction's length.
#[derive(Debug, Default)]
pub struct DropImpliedEqualities;

impl AnalyzerRule for DropImpliedEqualities {
    fn name(&self) -> &str {
        "drop_implied_equalities"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite_node)?.data)
    }
}

fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let conjuncts = split_conjunction(&filter.predicate);
    let mut classes = Classes::new(filter.input.schema());
    let kept: Vec<&Expr> = conjuncts.iter().copied().filter(|e| !classes.imply(e)).collect();
    if kept.len() == conjuncts.len() {
        return Ok(Transformed::no(plan));
    }
    let Some(predicate) = conjunction(kept.into_iter().cloned()) else {
        return Ok(Transformed::no(plan));
    };
    let filter = Filter::try_new(predicate, filter.input.clone())?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// Columns known to be equal: a forest of them, each tree a class.
struct Classes<'a> {
    schema: &'a DFSchema,
    /// Places in `above`.
    columns: HashMap<&'a Column, usize>,
    types: Vec<Option<&'a DataType>>,
    above: Vec<usize>,
}

impl<'a> Classes<'a> {
    fn new(schema: &'a DFSchema) -> Self {
        Self {
            schema,
            columns: HashMap::new(),
            types: vec![],
            above: vec![],
        }
    }

    /// Whether the conjunct is an equality of columns that the ones before it imply; notes it if not. Only columns of one
    /// type count: between types, equality need not be transitive.
    fn imply(&mut self, conjunct: &'a Expr) -> bool {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = conjunct
        else {
            return false;
        };
        let (Expr::Column(left), Expr::Column(right)) = (left.as_ref(), right.as_ref()) else {
            return false;
        };
        let (left, right) = (self.place(left), self.place(right));
        // `a = a` says that a is not null.
        if left == right || self.types[left].is_none() || self.types[left] != self.types[right] {
            return false;
        }
        let (left, right) = (self.root(left), self.root(right));
        self.above[left] = right;
        left == right
    }

    fn place(&mut self, column: &'a Column) -> usize {
        let (schema, types, above) = (self.schema, &mut self.types, &mut self.above);
        *self.columns.entry(column).or_insert_with(|| {
            let at = schema.maybe_index_of_column(column);
            types.push(at.map(|at| schema.field(at).data_type()));
            above.push(above.len());
            above.len() - 1
        })
    }

    fn root(&self, mut at: usize) -> usize {
        while self.above[at] != at {
            at = self.above[at];
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, table_scan};

    fn kept(predicate: Expr) -> String {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let fields = ["a", "b", "c", "d"].map(|name| field(name, DataType::Int32));
        let schema = Schema::new([&fields[..], &[field("e", DataType::Int64)]].concat());
        let plan = table_scan(Some("t"), &schema, None)
            .and_then(|scan| LogicalPlanBuilder::filter(scan, predicate))
            .and_then(LogicalPlanBuilder::build)
            .unwrap();
        let analyzed = DropImpliedEqualities.analyze(plan, &ConfigOptions::new()).unwrap();
        let LogicalPlan::Filter(filter) = analyzed else {
            panic!("no filter")
        };
        filter.predicate.to_string()
    }

    #[test]
    fn what_follows_goes_and_all_else_stays() {
        let equal = |l: &str, r: &str| col(l).eq(col(r));
        let chain = equal("a", "b").and(equal("c", "d")).and(equal("b", "c"));
        assert_eq!(
            kept(chain.clone().and(equal("d", "a")).and(equal("a", "c"))),
            kept(chain.clone())
        );
        assert_eq!(kept(chain.clone()), "t.a = t.b AND t.c = t.d AND t.b = t.c");
        // A test for null, other comparisons, other types.
        for more in [equal("a", "a"), col("a").lt(col("d")), equal("a", "e")] {
            assert_ne!(kept(chain.clone().and(more)), kept(chain.clone()));
        }
    }
}
