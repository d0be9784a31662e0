//! Plans that leave their statement's parameters open.
//!
//! After the logical optimizer each placeholder becomes a call of a function without arguments, which physical planning
//! takes as it is. Before each run a literal takes the call's place (`filled`), so that scans see constants: their zone
//! maps, indexes and fast comparisons work as in a plan made for the values.

use super::expressions::{comes_to_all, with_exprs_changed};
use super::narrow::{Narrowing, narrowed};
use crate::pg::functions::array;
use crate::pg::nodes::{ProjectSet, is_limit_by_value};
use datafusion::arrow::array::RecordBatchOptions;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as LogicalColumn, DFSchemaRef, ExprSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Extension, LogicalPlan, LogicalPlanBuilder, Projection, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Union, Values, Volatility,
};
use datafusion::physical_expr::expressions::{Column, InListExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// What parameters are called as functions.
pub(super) const PARAMETER: &str = "parameter";

/// `$n`, which has a value only when the plan runs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Parameter {
    /// From 0.
    index: usize,
    field: FieldRef,
    /// How its value becomes one of the field's type, where that has fewer than its own.
    narrowing: Option<Narrowing>,
    signature: Signature,
}

impl Parameter {
    /// Its value among the statement's; None: it has none of its type.
    fn value(&self, values: &[ScalarValue]) -> Option<ScalarValue> {
        let (value, of) = (values.get(self.index)?, self.field.data_type());
        match self.narrowing {
            Some(narrowing) => narrowing.of(value, of),
            None if value.data_type() == *of => Some(value.clone()),
            None => value.cast_to(of).ok(),
        }
    }
}

impl ScalarUDFImpl for Parameter {
    fn name(&self) -> &str {
        PARAMETER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(self.field.clone())
    }

    /// The placeholder's: columns keep their names.
    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("${}", self.index + 1))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("parameter ${} has no value", self.index + 1)
    }
}

/// Rows of VALUES that are projections each.
const VALUES_MAX: usize = 16;

/// An optimized plan in which VALUES of one row, or of few of which parameters say something, are projections, which `filled`
/// comes to.
pub(crate) fn by_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Values(values) = node else {
            return Ok(Transformed::no(node));
        };
        let Values { schema, values } = values;
        let is_open = |expr: &Expr| {
            expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))
                .unwrap_or(false)
        };
        let is_one = values.len() == 1;
        if !is_one && (values.len() > VALUES_MAX || !values.iter().flatten().any(is_open)) {
            return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values })));
        }
        let rows = values.into_iter().map(|exprs| {
            let columns = schema.columns().into_iter();
            let exprs = exprs.into_iter().zip(columns).map(|(expr, column)| {
                // Parameters go by the names of placeholders.
                expr.alias_qualified(column.relation, column.name)
            });
            let row = LogicalPlanBuilder::empty(true).build()?;
            let projection = Projection::try_new_with_schema(exprs.collect(), Arc::new(row), schema.clone())?;
            Ok(Arc::new(LogicalPlan::Projection(projection)))
        });
        let mut inputs = rows.collect::<Result<Vec<_>>>()?;
        Ok(Transformed::yes(match inputs.pop() {
            Some(only) if is_one => Arc::unwrap_or_clone(only),
            last => {
                inputs.extend(last);
                LogicalPlan::Union(Union { inputs, schema })
            }
        }))
    })?;
    Ok(changed.data)
}

/// An optimized plan whose placeholders physical planning takes. None where one of them stands where `filled` does not
/// come to, or has no type.
pub(crate) fn opened(plan: LogicalPlan) -> Result<Option<LogicalPlan>> {
    // A subquery that runs row by row is not looked into.
    let mut possible = !crate::pg::nodes::applies(&plan);
    let opened = plan.transform_up_with_subqueries(|node| {
        let reached = matches!(
            node,
            LogicalPlan::TableScan(_) | LogicalPlan::Filter(_) | LogicalPlan::Projection(_)
        ) || is_project_set(&node)
            || is_limit_by_value(&node);
        let type_of = types_in(&node);
        node.map_expressions(|expr| {
            let expr = match &type_of {
                Some(type_of) => narrowed(expr, type_of),
                None => expr,
            };
            expr.transform_up(|expr| match expr {
                Expr::Placeholder(Placeholder { id, field: Some(field) }) if reached => {
                    match id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()) {
                        Some(number) if number > 0 => Ok(Transformed::yes(call(number - 1, field, None))),
                        _ => internal_err!("a parameter is called {id}"),
                    }
                }
                Expr::Placeholder(_) => {
                    possible = false;
                    Ok(Transformed::no(expr))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(possible.then_some(opened.data))
}

/// The types of the columns that a node's conditions are about, where it has such; None: its expressions are others.
fn types_in(node: &LogicalPlan) -> Option<impl Fn(&LogicalColumn) -> Option<DataType> + use<>> {
    enum Types {
        Table(SchemaRef),
        Input(DFSchemaRef),
    }
    let types = match node {
        LogicalPlan::TableScan(scan) => Types::Table(scan.source.schema()),
        LogicalPlan::Filter(filter) => Types::Input(filter.input.schema().clone()),
        _ => return None,
    };
    Some(move |column: &LogicalColumn| {
        let field = match &types {
            Types::Table(table) => table.field_with_name(&column.name).ok(),
            Types::Input(input) => input.field_from_column(column).ok().map(AsRef::as_ref),
        };
        field.map(|field| field.data_type().clone())
    })
}

fn is_project_set(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Extension(Extension { node }) if node.as_any().is::<ProjectSet>())
}

pub(super) fn call(index: usize, field: FieldRef, narrowing: Option<Narrowing>) -> Expr {
    let parameter = Parameter {
        index,
        narrowing,
        field: Arc::new(field.as_ref().clone().with_nullable(true)),
        // Of a function that is not volatile, the value might be asked for while planning.
        signature: Signature::nullary(Volatility::Volatile),
    };
    let function = Arc::new(ScalarUDF::new_from_impl(parameter));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![]))
}

pub(super) fn parameter(expr: &Arc<dyn PhysicalExpr>) -> Option<&Parameter> {
    expr.downcast_ref::<ScalarFunctionExpr>()?.fun().inner().downcast_ref()
}

/// Whether `filled` comes to every parameter of the plan.
pub(crate) fn is_fillable(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    comes_to_all(plan, &|expr| parameter(expr).is_some())
}

/// What a literal or a parameter is. None: the expression is something else, or has no value of its type.
pub(super) fn value(expr: &Arc<dyn PhysicalExpr>, values: &[ScalarValue]) -> Option<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    parameter(expr)?.value(values)
}

/// One node with the values in place of its own parameters; its inputs stay as they are.
pub(super) fn filled(node: Arc<dyn ExecutionPlan>, values: &[ScalarValue]) -> Result<Arc<dyn ExecutionPlan>> {
    with_exprs_changed(node, &|expr| parameter(expr).is_some(), &|expr| valued(expr, values))
}

/// The expression with its parameters' values, and what is constant by them computed.
pub(super) fn valued(expr: Arc<dyn PhysicalExpr>, values: &[ScalarValue]) -> Result<Arc<dyn PhysicalExpr>> {
    let valued = expr.transform_up(|expr| {
        if let Some(parameter) = parameter(&expr) {
            let Some(value) = values.get(parameter.index) else {
                return internal_err!("no value for parameter ${}", parameter.index + 1);
            };
            let value = match parameter.value(values) {
                Some(value) => value,
                None => value.cast_to(parameter.field.data_type())?,
            };
            // Which type it is, functions read there: a `char(n)` has blanks.
            let literal = Literal::new_with_metadata(value, Some(FieldMetadata::from(parameter.field.as_ref())));
            return Ok(Transformed::yes(Arc::new(literal) as Arc<dyn PhysicalExpr>));
        }
        let known = constant(&expr).or_else(|| listed(&expr));
        Ok(known.map_or_else(|| Transformed::no(expr), Transformed::yes))
    })?;
    Ok(valued.data)
}

/// `column = ANY (items)` as `column IN (items)`.
fn listed(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [value, items] = call.args() else { return None };
    let column = value.downcast_ref::<Column>()?;
    let (items, negated) = array::listed(call.name(), items.downcast_ref::<Literal>()?.value())?;
    if items.is_empty() {
        return Some(Arc::new(Literal::new(ScalarValue::Boolean(Some(negated)))));
    }
    // The column has the items' type, to which both have come.
    let field = Field::new("", items.data_type().clone(), true);
    let schema = Schema::new(vec![field; column.index() + 1]);
    let list = InListExpr::try_new_from_array(Arc::clone(value), items, negated, &schema).ok()?;
    Some(Arc::new(list))
}

/// The value of an expression over literals. What fails is left to fail when, and if, a row comes to it.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let children = expr.children();
    let literals = children.iter().all(|child| child.downcast_ref::<Literal>().is_some());
    if children.is_empty() || !literals || expr.is_volatile_node() {
        return None;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()?;
    let value = match expr.evaluate(&row).ok()? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    Some(Arc::new(Literal::new(value)))
}
