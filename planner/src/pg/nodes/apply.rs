//! A subquery that is run for each row of an input, with the row's values in it: what no join says.
//!
//! The subquery's references to the row are placeholders. `optimizer::apply` plans and runs it.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// What a row of the input becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ApplyKind {
    /// Itself with each row of the subquery.
    Inner,
    /// The same; with NULLs where the subquery has none.
    Left,
    /// Itself and whether the subquery has a row.
    Mark,
}

/// A value of the input's row, and the placeholder in the subquery that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Binding {
    pub value: Expr,
    pub id: String,
}

/// The id of a binding that stands in no subquery: whether the row's value is asked for at all. Where it is not true, the
/// subquery is not run, and counts as one without rows.
pub(crate) const GUARD: &str = "\u{1}guard";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Apply {
    pub left: LogicalPlan,
    /// Analyzed, and no child: the optimizer must not see its placeholders as constants.
    pub subquery: Arc<LogicalPlan>,
    pub bindings: Vec<Binding>,
    pub kind: ApplyKind,
    pub schema: DFSchemaRef,
}

impl PartialOrd for Apply {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.left.partial_cmp(&other.left).filter(|_| self == other)
    }
}

impl Apply {
    pub fn plan(
        left: LogicalPlan,
        subquery: LogicalPlan,
        bindings: Vec<Binding>,
        kind: ApplyKind,
    ) -> Result<LogicalPlan> {
        let node = Arc::new(Self::new(left, Arc::new(subquery), bindings, kind, None)?);
        Ok(LogicalPlan::Extension(Extension { node }))
    }

    /// The plan, and the column that tells whether the subquery has a row.
    pub fn marking(
        left: LogicalPlan,
        subquery: LogicalPlan,
        bindings: Vec<Binding>,
        mark: &TableReference,
    ) -> Result<LogicalPlan> {
        let node = Arc::new(Self::new(
            left,
            Arc::new(subquery),
            bindings,
            ApplyKind::Mark,
            Some(mark.clone()),
        )?);
        Ok(LogicalPlan::Extension(Extension { node }))
    }

    pub fn new(
        left: LogicalPlan,
        subquery: Arc<LogicalPlan>,
        bindings: Vec<Binding>,
        kind: ApplyKind,
        mark: Option<TableReference>,
    ) -> Result<Self> {
        let mut fields: Vec<_> = left
            .schema()
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), field.clone()))
            .collect();
        match kind {
            ApplyKind::Mark => fields.push((mark, Arc::new(Field::new("mark", DataType::Boolean, false)))),
            ApplyKind::Inner | ApplyKind::Left => fields.extend(subquery.schema().iter().map(|(qualifier, field)| {
                let nullable = field.is_nullable() || kind == ApplyKind::Left;
                let field = field.as_ref().clone().with_nullable(nullable);
                (qualifier.cloned(), Arc::new(field))
            })),
        }
        let schema = DFSchema::new_with_metadata(fields, left.schema().metadata().clone())?;
        Ok(Self {
            left,
            subquery,
            bindings,
            kind,
            schema: Arc::new(schema),
        })
    }

    pub fn mark(&self) -> Option<TableReference> {
        let last = self.schema.fields().len().checked_sub(1)?;
        self.schema.qualified_field(last).0.cloned()
    }
}

impl UserDefinedLogicalNodeCore for Apply {
    fn name(&self) -> &str {
        "Apply"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.bindings.iter().map(|binding| binding.value.clone()).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let own = self.schema.fields().iter().skip(self.left.schema().fields().len());
        own.map(|field| field.name().clone()).collect()
    }

    /// Each row of the input becomes one at least: those wanted are among the first.
    fn supports_limit_pushdown(&self) -> bool {
        self.kind != ApplyKind::Inner
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Apply")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(left) = inputs.pop() else {
            return internal_err!("Apply has one input");
        };
        let bindings = exprs.into_iter().zip(&self.bindings).map(|(value, old)| Binding {
            value: value.unalias(),
            id: old.id.clone(),
        });
        let mark = self.mark().filter(|_| self.kind == ApplyKind::Mark);
        Self::new(left, self.subquery.clone(), bindings.collect(), self.kind, mark)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|&at| at < width).collect()])
    }
}

/// Whether a plan has a subquery that runs row by row.
pub(crate) fn applies(plan: &LogicalPlan) -> bool {
    let found = plan
        .exists(|node| Ok(matches!(node, LogicalPlan::Extension(Extension { node }) if node.as_any().is::<Apply>())));
    found.unwrap_or(true)
}
