//! TABLESAMPLE: a condition over the rows' places in their table.

use super::system_columns::WITH_ADDRESSES;
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::sample;
use crate::pg::parse::from::REPEATABLE;
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, TableSample, TableSampleKind, TableSampleMethod,
};
use tenon_executor::scan::{ADDRESS_FIELD, POSITION_FIELDS, is_place};

/// What a table's name ends with where its rows' places are wanted too.
pub(super) const WITH_POSITIONS: &str = "\u{1}positions";

fn refused(state: SqlState, message: impl Into<String>) -> datafusion::error::DataFusionError {
    to_datafusion(SqlError::new(state, message))
}

pub(super) fn plan(
    table: TableReference,
    sample: &TableSampleKind,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
    let TableSample {
        name,
        quantity,
        seed,
        bucket: None,
        offset: None,
        ..
    } = sample.as_ref()
    else {
        return Err(to_datafusion(SqlError::unsupported("this form of TABLESAMPLE")));
    };
    let Some(quantity) = quantity else {
        return Err(refused(state::SYNTAX_ERROR, "syntax error in TABLESAMPLE"));
    };
    let by_blocks = match (name, &quantity.value) {
        (Some(TableSampleMethod::System), _) => true,
        (Some(TableSampleMethod::Bernoulli), _) => false,
        // Whatever its name: the parser takes it for a function of the percentage.
        (None, ast::Expr::Function(function)) => {
            let method = crate::pg::rewrite::function_name(function);
            let message = format!("tablesample method {method} does not exist");
            return Err(refused(state::UNDEFINED_OBJECT, message));
        }
        _ => return Err(to_datafusion(SqlError::unsupported("this method of TABLESAMPLE"))),
    };
    let named = |name: String| match &table {
        TableReference::Bare { .. } => TableReference::bare(name),
        TableReference::Partial { schema, .. } => TableReference::partial(schema.clone(), name),
        TableReference::Full { catalog, schema, .. } => TableReference::full(catalog.clone(), schema.clone(), name),
    };
    let provider = context.context_provider();
    let source = provider.get_table_source(named(format!("{}{WITH_POSITIONS}", table.table())))?;
    let scan = LogicalPlanBuilder::scan(table.clone(), source, None)?;
    let place = |field: &str| Expr::Column(Column::new(Some(table.clone()), field));
    let mut args = vec![place(POSITION_FIELDS[0]), place(POSITION_FIELDS[1])];
    let empty = DFSchema::empty();
    let mut given = vec![quantity.value.clone()];
    if let ast::Expr::Function(function) = &quantity.value
        && crate::pg::rewrite::function_name(function) == REPEATABLE
        && let ast::FunctionArguments::List(list) = &function.args
    {
        given = list
            .args
            .iter()
            .filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect();
    }
    given.extend(seed.iter().map(|seed| ast::Expr::Value(seed.value.clone())));
    let seeded = given.len() > 1;
    for expr in given {
        args.push(context.sql_to_expr(expr, &empty)?);
    }
    let columns = scan.schema().columns().into_iter();
    let addressed = table.table().ends_with(WITH_ADDRESSES);
    let shown = columns.filter(|column| !is_place(&column.name) || addressed && column.name == ADDRESS_FIELD);
    let shown: Vec<Expr> = shown.map(Expr::Column).collect();
    scan.filter(sample::function(by_blocks, seeded).call(args))?
        .project(shown)?
        .build()
}
