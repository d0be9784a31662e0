//! INSERT, and what all writers of rows share: defaults, conversion to the columns' types, the write itself.

use super::constraints::Checks;
use super::upsert::Upsert;
use super::{Description, conflict, parameters, query, returning};
use crate::bind::{Binder, fold};
use crate::error::{Result, SqlError, state};
use crate::errors::{from_arrow, from_datafusion};
use crate::outcome::Outcome;
use crate::parse::parse_expression;
use crate::rewrite::{cast_to_float, is_number, rewrite};
use crate::run;
use crate::session::{Prepared, Session};
use crate::types::pg_type;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Insert, OnConflict, OnConflictAction, OnInsert, SetExpr, TableObject, Value,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_storage::{ColumnDef, SqlType, TableVersion, TableWriter};

/// An INSERT whose names are known.
pub(super) struct Resolved {
    pub table: Arc<TableVersion>,
    /// The table's column for each column of the source.
    targets: Vec<usize>,
}

pub(super) fn resolve(binder: &Binder, insert: &Insert) -> Result<Resolved> {
    for (clause, present) in [
        ("INSERT OR", insert.or.is_some()),
        ("INSERT OVERWRITE", insert.overwrite),
        ("REPLACE", insert.replace_into),
        ("INSERT SET", !insert.assignments.is_empty()),
        ("INSERT IGNORE", insert.ignore),
    ] {
        if present {
            return Err(SqlError::unsupported(clause));
        }
    }
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into anything but a table"));
    };
    let relation = binder.names().relation(name)?;
    let table = relation.as_table().cloned().ok_or_else(|| {
        SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("cannot insert into view \"{}\"", relation.name()),
        )
    })?;
    let definition = table.definition();
    let mut targets = Vec::new();
    for column in &insert.columns {
        let name = column
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold)
            .unwrap_or_default();
        let at = definition.column_index(&name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", definition.name);
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })?;
        if targets.contains(&at) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        targets.push(at);
    }
    if insert.columns.is_empty() {
        targets = (0..definition.columns.len()).collect();
    }
    Ok(Resolved { table, targets })
}

pub(super) fn describe(session: &mut Session, insert: &Insert, types: &[u32]) -> Result<Description> {
    let binder = session.binder();
    let resolved = resolve(&binder, insert)?;
    let mut params = match &insert.source {
        Some(source) => {
            let declared = types_of_values(&resolved, source, types)?;
            source_plan(&binder, &resolved, source, &declared)?.1
        }
        None => Vec::new(),
    };
    if let Some(upsert) = upsert(insert, &resolved.table)? {
        let mut known: Vec<u32> = params.iter().map(|field| pg_type(field).oid).collect();
        known.extend(types.iter().skip(known.len()));
        let all = upsert.parameters(&binder, &known)?;
        params.extend(all.into_iter().skip(params.len()));
    }
    let columns = match &insert.returning {
        Some(items) => Some(returning::describe(&binder, &resolved.table, alias(insert), items)?),
        None => None,
    };
    Ok(Description {
        params,
        columns,
        plan: None,
    })
}

fn alias(insert: &Insert) -> Option<String> {
    insert.table_alias.as_ref().map(|alias| fold(&alias.alias))
}

/// `VALUES ($1, $2)`: a parameter that stands alone has its column's type.
fn types_of_values(resolved: &Resolved, source: &ast::Query, types: &[u32]) -> Result<Vec<u32>> {
    let mut types = types.to_vec();
    let SetExpr::Values(values) = source.body.as_ref() else {
        return Ok(types);
    };
    let definition = resolved.table.definition();
    let mut found: BTreeMap<usize, u32> = BTreeMap::new();
    for row in &values.rows {
        for (expr, target) in row.content.iter().zip(&resolved.targets) {
            if let ast::Expr::Value(value) = expr
                && let Value::Placeholder(id) = &value.value
                && let Some(at) = parameters::index(id)
            {
                found.entry(at).or_insert(definition.columns[*target].sql_type.oid());
            }
        }
    }
    for (at, oid) in found {
        if at < usize::from(u16::MAX) {
            if types.len() <= at {
                types.resize(at + 1, 0);
            }
            if types[at] == 0 {
                types[at] = oid;
            }
        }
    }
    Ok(types)
}

/// The plan of the rows to insert, with the table's columns in order, and its parameters.
fn source_plan(
    binder: &Binder,
    resolved: &Resolved,
    source: &ast::Query,
    types: &[u32],
) -> Result<(LogicalPlan, Vec<FieldRef>)> {
    let definition = resolved.table.definition();
    let mut source = source.clone();
    let mut targets = resolved.targets.clone();
    if let SetExpr::Values(values) = source.body.as_mut() {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if values.rows.iter().any(|row| row.content.len() != width) {
            return Err(SqlError::new(
                state::SYNTAX_ERROR,
                "VALUES lists must all be the same length",
            ));
        }
        targets.truncate(width.max(usize::from(!targets.is_empty())));
        if width <= resolved.targets.len() {
            for row in &mut values.rows {
                for (expr, target) in row.content.iter_mut().zip(&targets) {
                    let column = &definition.columns[*target];
                    let float = matches!(column.sql_type, SqlType::Float4 | SqlType::Float8);
                    if is_default(expr) {
                        *expr = default_tree(column)?;
                    } else if float && (is_number(expr) || is_text(expr)) {
                        // One row's numerics would make the whole column numeric, which holds no 1e300 and no NaN.
                        cast_to_float(expr);
                    } else if matches!(column.sql_type, SqlType::Array(_) | SqlType::Jsonb) && is_text(expr) {
                        // Other rows may have arrays where this one has text.
                        *expr = parse_expression(&format!("({expr})::{}", column.sql_type))?;
                    }
                }
            }
        }
    }
    let mut tree = ast::Statement::Query(Box::new(source));
    rewrite(&mut tree);
    let (plan, params) = parameters::plan(binder, tree, types)?;
    let width = plan.schema().fields().len();
    if width > resolved.targets.len() {
        return Err(SqlError::new(
            state::SYNTAX_ERROR,
            "INSERT has more expressions than target columns",
        ));
    }
    if width < resolved.targets.len() && targets.len() > width {
        targets.truncate(width);
    }
    let listed = resolved.targets.len() < definition.columns.len() || width < resolved.targets.len();
    if listed && width < resolved.targets.len() && resolved.targets.len() != definition.columns.len() {
        return Err(SqlError::new(
            state::SYNTAX_ERROR,
            "INSERT has more target columns than expressions",
        ));
    }
    let columns = plan.schema().columns();
    let mut exprs = Vec::with_capacity(definition.columns.len());
    for (at, column) in definition.columns.iter().enumerate() {
        let expr = match targets.iter().position(|target| *target == at) {
            Some(from) => {
                let given = plan.schema().field(from).data_type();
                check_assignable(given, column)?;
                assigned(Expr::Column(columns[from].clone()), column)
            }
            None => default_value(binder, column)?,
        };
        exprs.push(expr.alias(&column.name));
    }
    let plan = LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))?;
    Ok((plan, params))
}

/// The value, or the column's default where the value is the word DEFAULT.
pub(super) fn or_default(value: ast::Expr, column: &ColumnDef) -> Result<ast::Expr> {
    if is_default(&value) {
        default_tree(column)
    } else {
        Ok(value)
    }
}

fn is_text(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// 42804 where PostgreSQL has no assignment cast.
pub(super) fn check_assignable(given: &DataType, column: &ColumnDef) -> Result<()> {
    let wanted = column.sql_type.data_type();
    let number = |t: &DataType| t.is_numeric();
    let wrong = (*given == DataType::Boolean && number(&wanted))
        || (number(given) && wanted == DataType::Boolean)
        || (number(given) && (wanted.is_temporal() || matches!(wanted, DataType::BinaryView)))
        || (given.is_temporal() && number(&wanted));
    if let (SqlType::Array(of), depth @ 1..) = (column.sql_type, crate::functions::array::leaf(given).1)
        && depth != of.dimensions()
    {
        let message = format!("an array of {depth} dimensions in a column of type {of}");
        return Err(
            SqlError::unsupported(message).hint("Declare as many pairs of brackets as the arrays have dimensions.")
        );
    }
    if !wrong {
        return Ok(());
    }
    let from = tenon_storage::SqlType::from_data_type(given).map_or("unknown", |t| t.base_name());
    let message = format!(
        "column \"{}\" is of type {} but expression is of type {from}",
        column.name,
        column.sql_type.base_name()
    );
    Err(SqlError::new(state::DATATYPE_MISMATCH, message).hint("You will need to rewrite or cast the expression."))
}

/// A value as its column stores it.
pub(super) fn assigned(expr: Expr, column: &ColumnDef) -> Expr {
    // Lengths are checked when the row is written: a cast would cut the string instead.
    let target = if column.sql_type.is_string() && !matches!(column.sql_type, SqlType::Json | SqlType::Jsonb) {
        SqlType::Text
    } else {
        column.sql_type
    };
    let field = Arc::new(target.field("", true));
    Expr::Cast(Cast::new_from_field(Box::new(expr), field))
}

fn default_tree(column: &ColumnDef) -> Result<ast::Expr> {
    match &column.default {
        Some(text) => parse_expression(text),
        None => Ok(ast::Expr::Value(Value::Null.into())),
    }
}

/// What a column gets where no value is given.
pub(super) fn default_value(binder: &Binder, column: &ColumnDef) -> Result<Expr> {
    let mut tree = default_tree(column)?;
    rewrite(&mut tree);
    let expr = binder.expression(tree, &DFSchema::empty())?;
    Ok(assigned(expr, column))
}

/// A DEFAULT must be an expression over no columns.
pub(super) fn check_default(session: &Session, expr: &ast::Expr, column: &ColumnDef) -> Result<()> {
    let mut tree = expr.clone();
    rewrite(&mut tree);
    let expr = session
        .binder()
        .expression(tree, &DFSchema::empty())
        .map_err(|error| match error.state {
            state::UNDEFINED_COLUMN => SqlError::unsupported("a column reference in a DEFAULT expression"),
            _ => error,
        })?;
    let given = datafusion::logical_expr::ExprSchemable::get_type(&expr, &DFSchema::empty());
    check_assignable(&given.map_err(|error| from_datafusion(&error))?, column)
}

/// The plan of the rows to insert, for parameters of the declared types.
fn plan(
    binder: &Binder,
    resolved: &Resolved,
    insert: &Insert,
    declared: &[u32],
    params: &[ScalarValue],
) -> Result<LogicalPlan> {
    match &insert.source {
        Some(source) => query::bind(source_plan(binder, resolved, source, declared)?.0, params),
        None => default_row(binder, &resolved.table),
    }
}

/// The plan of the rows to insert.
pub(super) fn explained(
    binder: &Binder,
    prepared: &Prepared,
    insert: &Insert,
    params: &[ScalarValue],
) -> Result<LogicalPlan> {
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    plan(binder, &resolve(binder, insert)?, insert, &declared, params)
}

pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    insert: &Insert,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let on = on_conflict(insert)?;
    let binder = session.binder();
    let resolved = resolve(&binder, insert)?;
    if resolved.table.definition().schema_name != session.temporary_schema() {
        session.check_writable("INSERT")?;
    }
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    let plan = plan(&binder, &resolved, insert, &declared, params)?;
    let table = resolved.table.clone();
    if let Some(upsert) = upsert(insert, &table)? {
        return upsert.run(session, &binder, plan, &declared, params).await;
    }
    let keep = insert.returning.is_some();
    let mut run = session.run();
    let keys = match on {
        Some(on) => {
            // Of rows that conflict with each other the first stays.
            run = run.in_order();
            let target = conflict::target(table.definition(), on.conflict_target.as_ref())?;
            Some(conflict::Keys::of(&table, target)?)
        }
        None => None,
    };
    let checks = Checks::of(&binder, table.definition())?;
    let writer = session.transaction()?.lock().writer(&table);
    let definition = table.definition().clone();
    let sink = (writer, Vec::new(), keys);
    let (writer, kept, _) = run::drain(&run, plan, sink, move |(writer, kept, keys), batch| {
        let mut batch = as_stored(&batch)?;
        if let Some(keys) = keys {
            batch = keys.keep_new(&tenon_storage::writer::conform(&batch, &definition)?)?;
        }
        writer.append(&batch)?;
        if keep {
            kept.push(batch);
        }
        Ok(())
    })
    .await?;
    let rows = finish(session, table.oid(), writer, Some(checks)).await?;
    match &insert.returning {
        Some(items) => returning::rows(session, &table, alias(insert), items, kept, "INSERT 0").await,
        None => Ok(Outcome::Command(format!("INSERT 0 {rows}"))),
    }
}

fn on_conflict(insert: &Insert) -> Result<Option<&OnConflict>> {
    match &insert.on {
        None => Ok(None),
        Some(OnInsert::OnConflict(on)) => Ok(Some(on)),
        Some(other) => Err(SqlError::unsupported(other)),
    }
}

/// The statement's DO UPDATE.
fn upsert<'a>(insert: &'a Insert, table: &Arc<TableVersion>) -> Result<Option<Upsert<'a>>> {
    let Some(OnConflict {
        conflict_target,
        action: OnConflictAction::DoUpdate(update),
    }) = on_conflict(insert)?
    else {
        return Ok(None);
    };
    Ok(Some(Upsert {
        table: table.clone(),
        alias: alias(insert),
        target: conflict_target.as_ref(),
        update,
        returning: insert.returning.as_deref(),
    }))
}

fn default_row(binder: &Binder, table: &TableVersion) -> Result<LogicalPlan> {
    let columns = &table.definition().columns;
    let exprs = columns
        .iter()
        .map(|column| Ok(default_value(binder, column)?.alias(&column.name)));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::empty(true)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))
}

/// Columns that storage does not know as they are: unsigned numbers of window functions.
pub(super) fn as_stored(batch: &RecordBatch) -> Result<RecordBatch> {
    if !batch
        .schema()
        .fields()
        .iter()
        .any(|field| field.data_type() == &DataType::UInt64)
    {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::UInt64 => cast(column, &DataType::Int64),
        _ => Ok(column.clone()),
    });
    let columns: Vec<ArrayRef> = columns
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| from_arrow(&error))?;
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(|error| from_arrow(&error))
}

/// Finishes a writer and adds its rows, which must satisfy the checks, to the table in the session's transaction.
pub(super) async fn finish(
    session: &Session,
    table_oid: u32,
    writer: TableWriter,
    checks: Option<Checks>,
) -> Result<u64> {
    let transaction = session.transaction()?;
    run::background(&session.engine, async move {
        let segments = writer.finish()?;
        if let Some(checks) = checks {
            checks.verify(&segments)?;
        }
        Ok(transaction.lock().append(table_oid, segments)?)
    })
    .await
}
