//! INSERT, and what all writers of rows share: defaults, conversion to the columns' types, the write itself.
//!
//! More than 400 lines because what all writers of rows share is told where INSERT uses it.

use super::claims::{self, Claim};
use super::constraints::Checks;
use super::insert_fields::Fields;
use super::query::{Reads, StatementInput};
use super::returning::ReturningColumns;
use super::row_locks::Found;
use super::taken_columns::{self, InsertRows};
use super::untyped;
use super::updatable::{self, Through, Use};
use super::upsert::Upsert;
use super::{
    Description, conflict, conflict_predicate, conflict_through, defaults, given_rows, literal_rows, moments,
    parameters, permitted, query, returned_addresses, returning, row_cells, select, table_locks, value_rows,
};
use crate::catalog::bind::{Binder, fold, named_in_full};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::Outcome;
use crate::pg::parse::overriding::{self, Overriding};
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::{cast_to_float, cast_to_numeric, is_number, rewrite};
use crate::pg::types::pg_type;
use crate::pg::walk::null;
use crate::session::moment_words::names_a_moment;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Insert, ObjectName, OnConflict, OnConflictAction, OnInsert, SetExpr, TableObject, Value,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, atomic};
use tenon_storage::bits::BITS;
use tenon_storage::composite_type::is_record;
use tenon_storage::types::NUMERIC;
use tenon_storage::{
    ArrayType, ColumnDef, EnumType, Generated, Segment, SqlType, StorageError, TableDefinition, TableVersion,
    TableWriter, privilege,
};

/// An INSERT whose names are known.
pub(super) struct Resolved {
    pub table: Arc<TableVersion>,
    /// The view that the rows are inserted through.
    pub view: Option<Through>,
    /// The table's column for each column of the source.
    targets: Vec<usize>,
    /// The fields of columns that the statement lists: the source gives their values.
    fields: Option<Fields>,
    /// Whether the statement lists them.
    is_listed: bool,
    overriding: Option<Overriding>,
}

impl Resolved {
    /// The statement where what it says of a view's columns in ON CONFLICT is to be said of the table's.
    fn over_table(&self, insert: &Insert) -> Result<Option<Insert>> {
        let Some(view) = &self.view else { return Ok(None) };
        let target = alias(insert).unwrap_or_else(|| view.view.clone());
        conflict_through::over_table(insert, view, &target)
    }
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
    let (table, view) = updatable::target(binder, name, Use::Insert)?;
    let definition = table.definition();
    let fields = Fields::of(&insert.columns)?;
    let listed = fields.as_ref().map(Fields::columns);
    let listed = listed.as_deref().unwrap_or(&insert.columns);
    let mut targets = targets(&table, view.as_ref(), listed)?;
    if insert.columns.is_empty() {
        targets = match &view {
            Some(view) => {
                let wanted = match insert.source.as_deref().map(|source| source.body.as_ref()) {
                    Some(SetExpr::Values(values)) => values.rows.first().map_or(0, |row| row.content.len()),
                    None => 0,
                    _ => view.columns.len(),
                };
                let names = view.columns.iter().take(wanted);
                names
                    .map(|(name, _)| view.column(name, Use::Insert))
                    .collect::<Result<_>>()?
            }
            None => (0..definition.columns.len()).collect(),
        };
    }
    Ok(Resolved {
        table,
        view,
        targets,
        fields,
        is_listed: !insert.columns.is_empty(),
        overriding: overriding::of(insert),
    })
}

/// The table's columns of these names.
fn targets(table: &TableVersion, view: Option<&Through>, columns: &[ObjectName]) -> Result<Vec<usize>> {
    let definition = table.definition();
    let mut targets = Vec::new();
    for column in columns {
        if column.0.len() > 1 {
            return Err(SqlError::unsupported("a field of a column in this list"));
        }
        let name = super::last(column);
        let at = match view {
            Some(view) => view.column(&name, Use::Insert)?,
            None => definition.column_index(&name).ok_or_else(|| {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", definition.name);
                SqlError::new(state::UNDEFINED_COLUMN, message)
            })?,
        };
        if targets.contains(&at) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        targets.push(at);
    }
    Ok(targets)
}

pub(super) fn describe(session: &mut Session, insert: &Insert, types: &[u32]) -> Result<Description> {
    let binder = session.binder();
    let resolved = resolve(&binder, insert)?;
    let over_table = resolved.over_table(insert)?;
    let insert = over_table.as_ref().unwrap_or(insert);
    let returned = parameters::hints(&insert.returning)?;
    let mut named = match &insert.source {
        Some(source) => parameters::hints(source.as_ref())?.named,
        None => BTreeSet::new(),
    };
    let (mut plan, mut params) = match &insert.source {
        Some(source) => {
            let declared = types_of_values(&resolved, source, types)?;
            let columns = resolved.plain_columns(source);
            let plain = columns.map(|columns| literal_rows::described(&binder, source, &columns, &declared));
            match plain.transpose()?.flatten() {
                Some(params) => (None, params),
                None => {
                    let (plan, params) = source_plan(&binder, &resolved, source, &declared)?;
                    let count = params.len().max(returned.count);
                    let (plan, taken) = taken_columns::apart(plan)?;
                    let (plan, reusable) = moments::opened_beside(&binder, plan, count, taken)?;
                    let reusable = resolved.view.is_none() && reusable;
                    (reusable.then(|| (binder.snapshot.clone(), plan)), params)
                }
            }
        }
        None => (None, Vec::new()),
    };
    let target = on_conflict(insert)?.and_then(|on| on.conflict_target.as_ref());
    let asked = conflict_predicate::asked(&binder, resolved.table.definition(), target, types)?;
    let asks = asked.is_some();
    if let Some(asked) = asked {
        plan = None;
        params = parameters::together(params, &named, asked.fields);
        named.extend(asked.named);
    }
    if let Some(upsert) = upsert(insert, &resolved)? {
        plan = None;
        let known = match asks {
            true => parameters::known_after(&params, &named, types),
            false => {
                let mut known: Vec<u32> = params.iter().map(|field| pg_type(field).oid).collect();
                known.extend(types.iter().skip(known.len()));
                known
            }
        };
        let all = upsert.parameters(&binder, &known, asks)?;
        let count = params.len();
        params = match asks {
            true => parameters::together(params, &named, all),
            false => params.into_iter().chain(all.into_iter().skip(count)).collect(),
        };
        named.extend(count..params.len());
    }
    let columns = match &insert.returning {
        Some(items) => {
            let columns = ReturningColumns::through(&resolved.table, resolved.view.as_ref(), alias(insert));
            let known = parameters::known_after(&params, &named, types);
            let (columns, more) = returning::describe(&binder, &columns, items, &known)?;
            params = parameters::together(params, &named, more);
            Some(columns)
        }
        None => None,
    };
    Ok(Description {
        params,
        columns,
        plan,
        ..Description::default()
    })
}

/// The column of which a list names a field, or itself.
fn first(name: &ObjectName) -> String {
    let part = name.0.first().and_then(|part| part.as_ident());
    part.map(fold).unwrap_or_default()
}

fn alias(insert: &Insert) -> Option<String> {
    insert.table_alias.as_ref().map(|alias| fold(&alias.alias))
}

/// `VALUES ($1, $2)` and `SELECT $1, $2`: a parameter that stands alone has its column's type.
fn types_of_values(resolved: &Resolved, source: &ast::Query, types: &[u32]) -> Result<Vec<u32>> {
    let mut types = types.to_vec();
    let rows: Vec<Vec<&ast::Expr>> = match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.iter().map(|row| row.content.iter().collect()).collect(),
        SetExpr::Select(select) => {
            let item = |item| match item {
                &ast::SelectItem::UnnamedExpr(ref expr) | &ast::SelectItem::ExprWithAlias { ref expr, .. } => {
                    Some(expr)
                }
                _ => None,
            };
            select
                .projection
                .iter()
                .map(item)
                .collect::<Option<_>>()
                .into_iter()
                .collect()
        }
        _ => return Ok(types),
    };
    let definition = resolved.table.definition();
    let mut found: BTreeMap<usize, u32> = BTreeMap::new();
    for row in rows {
        for (place, expr) in row.into_iter().enumerate() {
            let target = match &resolved.fields {
                Some(fields) => fields.whole(place),
                None => Some(place),
            };
            if let Some(target) = target.and_then(|at| resolved.targets.get(at))
                && let ast::Expr::Value(value) = expr
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
    let mut targets: Vec<Option<usize>> = resolved.targets.iter().copied().map(Some).collect();
    if types.is_empty()
        && let Some(rows) = rows_given(binder, resolved, source, (&[], &[]))?
    {
        return Ok((plan_of_given(binder, resolved, rows)?, Vec::new()));
    }
    let mut source = source.clone();
    if let SetExpr::Values(values) = source.body.as_mut() {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if values.rows.iter().any(|row| row.content.len() != width) {
            return Err(SqlError::new(
                state::SYNTAX_ERROR,
                "VALUES lists must all be the same length",
            ));
        }
        resolved.check_width(width)?;
        match &resolved.fields {
            Some(fields) => fields.merge(binder, &resolved.columns(), values)?,
            None => targets.truncate(width),
        }
        for (at, given) in targets.iter_mut().enumerate() {
            let target = resolved.targets[at];
            let column = &definition.columns[target];
            let defaults_only = values.rows.iter().all(|row| defaults::is_default(&row.content[at]));
            let is_given = resolved.takes(column, defaults_only)?;
            let float = matches!(column.sql_type, SqlType::Float4 | SqlType::Float8);
            for row in &mut values.rows {
                let expr = &mut row.content[at];
                if !is_given {
                    *expr = null();
                } else if defaults::is_default(expr) {
                    *expr = defaults::tree(binder, definition, column)?;
                } else if let SqlType::Composite(_) = column.sql_type {
                    *expr = row_cells::cell(binder, column.sql_type, expr.clone())?;
                } else if float && (is_number(expr) || is_text(expr)) {
                    // One row's numerics would make the whole column numeric, which holds no 1e300 and no NaN.
                    cast_to_float(expr, column.sql_type == SqlType::Float4);
                } else if is_numeric(column.sql_type) && (is_number(expr) || is_text(expr)) {
                    cast_to_numeric(expr, column.sql_type);
                } else if matches!(column.sql_type, SqlType::Array(_) | SqlType::Jsonb) && is_text(expr) {
                    // Other rows may have arrays where this one has text.
                    // Lengths are checked when the row is written.
                    let of = match column.sql_type {
                        SqlType::Array(of) if of.element().is_bits() => {
                            format!("\"bit\"{}", "[]".repeat(of.dimensions()))
                        }
                        SqlType::Array(of) if of.element().is_limited_string() => {
                            format!("text{}", "[]".repeat(of.dimensions()))
                        }
                        other => named_in_full(other),
                    };
                    *expr = parse_expression(&format!("({expr})::{of}"))?;
                }
            }
            if !is_given {
                *given = None;
            }
        }
    }
    let is_values = matches!(source.body.as_ref(), SetExpr::Values(_));
    let mixed = value_rows::is_mixed(&source);
    if mixed {
        value_rows::join(&mut source);
    }
    if let SetExpr::Values(values) = source.body.as_mut() {
        // Each row is converted by itself: its columns need no type in common.
        values.explicit_row = true;
    }
    let mut tree = ast::Statement::Query(Box::new(source));
    rewrite(&mut tree);
    let (mut plan, params) = parameters::plan(binder, tree, types)?;
    if mixed {
        let columns = targets.iter().map(|at| at.map(|at| &definition.columns[at]));
        let columns: Vec<_> = columns.collect();
        plan = value_rows::split(plan, &columns)?;
    }
    match &resolved.fields {
        // Done, row by row.
        Some(_) if is_values => {}
        Some(fields) => {
            resolved.check_width(plan.schema().fields().len())?;
            plan = fields.merge_plan(binder, &resolved.columns(), plan)?;
        }
        None => {
            let width = plan.schema().fields().len();
            resolved.check_width(width)?;
            targets.truncate(width);
        }
    }
    if !is_values {
        for target in &mut targets {
            *target = match *target {
                Some(at) if resolved.takes(&definition.columns[at], false)? => Some(at),
                _ => None,
            };
        }
    }
    Ok((projected(binder, definition, plan, &targets)?, params))
}

/// Rows of plain literals, or of parameters with these values; None: there are others.
fn rows_given(
    binder: &Binder,
    resolved: &Resolved,
    source: &ast::Query,
    params: (&[FieldRef], &[ScalarValue]),
) -> Result<Option<RecordBatch>> {
    match resolved.plain_columns(source) {
        Some(columns) => literal_rows::read(binder, source, &columns, params),
        None => Ok(None),
    }
}

/// The plan of rows that are read.
fn plan_of_given(binder: &Binder, resolved: &Resolved, rows: RecordBatch) -> Result<LogicalPlan> {
    // What it holds is of this statement alone.
    binder.facts.used.store(true, atomic::Ordering::Relaxed);
    let targets = resolved.targets.iter().take(rows.num_columns()).copied().map(Some);
    let targets: Vec<Option<usize>> = targets.collect();
    projected(binder, resolved.table.definition(), given_rows::scan(rows)?, &targets)
}

/// The table's columns in order, of the rows that give `targets`.
pub(super) fn projected(
    binder: &Binder,
    definition: &TableDefinition,
    plan: LogicalPlan,
    targets: &[Option<usize>],
) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let mut exprs = Vec::with_capacity(definition.columns.len());
    for (at, column) in definition.columns.iter().enumerate() {
        let expr = match targets.iter().position(|target| *target == Some(at)) {
            Some(from) => {
                untyped::check_column(&plan, from, column)?;
                assigned(Expr::Column(columns[from].clone()), column)
            }
            None => defaults::value(binder, definition, column)?,
        };
        exprs.push(expr.alias(&column.name));
    }
    let plan = LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))?;
    defaults::generate(binder, definition, plan, 0)
}

impl Resolved {
    /// An INSERT of a table's listed columns, or of all.
    pub(super) fn of_columns(
        table: &Arc<TableVersion>,
        columns: &[ObjectName],
        overriding: Option<Overriding>,
    ) -> Result<Resolved> {
        let is_listed = !columns.is_empty();
        Ok(Resolved {
            targets: match is_listed {
                true => targets(table, None, columns)?,
                false => (0..table.definition().columns.len()).collect(),
            },
            table: table.clone(),
            view: None,
            fields: None,
            is_listed,
            overriding,
        })
    }

    /// The columns that get values.
    fn columns(&self) -> Vec<&ColumnDef> {
        let columns = &self.table.definition().columns;
        self.targets.iter().map(|at| &columns[*at]).collect()
    }

    /// The columns that get the values of VALUES as they are given; None where that is not all, or they are too many.
    fn plain_columns(&self, source: &ast::Query) -> Option<Vec<&ColumnDef>> {
        let SetExpr::Values(values) = source.body.as_ref() else {
            return None;
        };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut columns = self.columns();
        columns.truncate(width);
        let takes_all = columns
            .iter()
            .all(|column| matches!(self.takes(column, false), Ok(true)));
        (self.fields.is_none() && self.check_width(width).is_ok() && takes_all).then_some(columns)
    }

    /// Which of the given values a column of the table gets.
    pub(super) fn place(&self, column: usize) -> Option<usize> {
        self.targets.iter().position(|target| *target == column)
    }

    /// 42601 unless the source has as many columns as the list, or no list and not too many.
    pub(super) fn check_width(&self, width: usize) -> Result<()> {
        let wanted = self.fields.as_ref().map_or(self.targets.len(), |fields| fields.width);
        let message = match width.cmp(&wanted) {
            Ordering::Greater => "INSERT has more expressions than target columns",
            Ordering::Less if self.is_listed => "INSERT has more target columns than expressions",
            _ => return Ok(()),
        };
        Err(SqlError::new(state::SYNTAX_ERROR, message))
    }

    /// Whether the column gets the values that are given; 428C9 where it must not be given any.
    pub(super) fn takes(&self, column: &ColumnDef, defaults_only: bool) -> Result<bool> {
        let refused = match (column.generated, self.overriding) {
            (None, _) | (Some(Generated::ByDefault), None | Some(Overriding::System)) => return Ok(true),
            (Some(Generated::Always), Some(Overriding::System)) => return Ok(true),
            (Some(Generated::Always | Generated::ByDefault), Some(Overriding::User)) => return Ok(false),
            (Some(_), _) if defaults_only => return Ok(false),
            (Some(generated), _) => generated,
        };
        let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
        let error = SqlError::new(state::GENERATED_ALWAYS, message).detail(defaults::detail(&column.name, refused));
        Err(match refused {
            Generated::Stored => error,
            _ => error.hint("Use OVERRIDING SYSTEM VALUE to override."),
        })
    }
}

/// 42809 for a table whose rows are a query's.
pub(super) fn refuse_materialized(definition: &TableDefinition) -> Result<()> {
    if definition.query.is_none() {
        return Ok(());
    }
    let message = format!("cannot change materialized view \"{}\"", definition.name);
    Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
}

fn is_numeric(sql_type: SqlType) -> bool {
    matches!(
        sql_type,
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..)
    )
}

pub(super) fn is_null(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if matches!(value.value, Value::Null))
}

fn is_text(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// Whether an enum, or an array of one, is given for another type than text, or another type than a literal for an enum.
fn mixes_enums(given: &DataType, wanted: &DataType) -> bool {
    let leaves = (
        crate::pg::functions::array::leaf(given).0,
        crate::pg::functions::array::leaf(wanted).0,
    );
    match (EnumType::of(leaves.0), EnumType::of(leaves.1)) {
        (None, None) => false,
        (Some(given), Some(wanted)) => given.oid != wanted.oid,
        (Some(_), None) => !wanted.is_string(),
        (None, Some(_)) => !leaves.0.is_null() && !leaves.0.is_string(),
    }
}

/// 42804 where PostgreSQL has no assignment cast.
pub(super) fn check_assignable(field: &Field, column: &ColumnDef) -> Result<()> {
    let (given, wanted) = (field.data_type(), column.sql_type.data_type());
    let number = |t: &DataType| t.is_numeric() || *t == NUMERIC;
    let ranges = |of: &DataType| SqlType::range_of(of).and_then(SqlType::ranges);
    let wrong = (*given == DataType::Boolean && number(&wanted))
        || (number(given) && wanted == DataType::Boolean)
        || (number(given) && (wanted.is_temporal() || matches!(wanted, DataType::BinaryView)))
        || (given.is_temporal() && number(&wanted))
        || mixes_enums(given, &wanted)
        || matches!((ranges(given), ranges(&wanted)), (Some(given), Some(wanted)) if given != wanted)
        || is_record(given) != is_record(&wanted) && !given.is_null() && !given.is_string()
        || (*given == BITS) != (wanted == BITS) && !given.is_null() && !given.is_string() && !wanted.is_string()
        // A string of the statement itself has another type.
        || (*given == DataType::Utf8View && !wanted.is_string())
        || is_json(Some(column.sql_type)) && !may_be_json(field);
    if let (SqlType::Array(of), depth @ 1..) = (column.sql_type, crate::pg::functions::array::leaf(given).1)
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
    let unknown = if is_record(given) { "record" } else { "unknown" };
    let from = SqlType::from_field(field).map_or(unknown, |t| t.base_name());
    let message = format!(
        "column \"{}\" is of type {} but expression is of type {from}",
        column.name,
        column.sql_type.base_name()
    );
    Err(SqlError::new(state::DATATYPE_MISMATCH, message).hint("You will need to rewrite or cast the expression."))
}

fn is_json(of: Option<SqlType>) -> bool {
    matches!(of, Some(SqlType::Json | SqlType::Jsonb))
}

/// Whether a value is json, or what is read as it: NULL, or a string of the statement itself.
fn may_be_json(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Null | DataType::Utf8) || is_json(SqlType::from_field(field))
}

/// An array type of bit strings of any length.
fn unlimited_items(of: ArrayType) -> SqlType {
    SqlType::Array(ArrayType::of_items(of.element().unlimited()).with_dimensions(of.dimensions()))
}

/// A value as its column stores it.
pub(super) fn assigned(expr: Expr, column: &ColumnDef) -> Expr {
    let field = Arc::new(assigned_type(column.sql_type).field("", true));
    Expr::Cast(Cast::new_from_field(Box::new(expr), field))
}

/// The type that values of a column of this type are made before they are written.
pub(super) fn assigned_type(of: SqlType) -> SqlType {
    // Lengths are checked when the row is written: a cast would cut the string instead.
    match of {
        // Blanks at the end stay.
        SqlType::Json | SqlType::Jsonb | SqlType::Bpchar => of,
        of if of.is_string() => SqlType::Text,
        of if of.is_bits() => of.unlimited(),
        SqlType::Composite(_) => row_cells::unlimited(of),
        SqlType::Array(items) if matches!(items.element(), SqlType::Composite(_)) => row_cells::unlimited(of),
        SqlType::Array(of) if of.element().is_bits() => unlimited_items(of),
        SqlType::Array(of) if of.element().is_limited_string() => {
            (0..of.dimensions()).fold(SqlType::Text, |of, _| SqlType::Array(ArrayType::of_items(of)))
        }
        of => of,
    }
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
    let resolved = resolve(binder, insert)?;
    check(binder, insert, &resolved)?;
    plan(binder, &resolved, insert, &declared, params)
}

/// Whether the role that acts may insert these rows.
fn check(binder: &Binder, insert: &Insert, resolved: &Resolved) -> Result<()> {
    if binder.acting.superuser {
        return Ok(());
    }
    let TableObject::TableName(name) = &insert.table else {
        return Ok(());
    };
    let relation = binder.names().relation(name)?;
    let definition = resolved.table.definition();
    let named: Vec<String> = match insert.columns.is_empty() {
        true => relation
            .columns()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect(),
        false => insert.columns.iter().map(first).collect(),
    };
    permitted::columns(binder, relation, privilege::INSERT, named.iter().map(String::as_str))?;
    let (view, table) = (resolved.view.as_ref(), &resolved.table);
    permitted::below(binder, view, table, privilege::INSERT, Some(&resolved.targets))?;
    let mut read: Vec<String> = Vec::new();
    if let Some(on) = on_conflict(insert)?
        && let Some(view) = view
        && resolved.over_table(insert)?.is_some()
    {
        if let Some(target @ ast::ConflictTarget::OnConstraint(_)) = &on.conflict_target {
            let columns = conflict::columns(binder, definition, target, Some(view))?;
            read.extend(
                columns
                    .iter()
                    .filter_map(|column| conflict_through::shown(view, column)),
            );
        }
        let (changed, named) = conflict_through::named(on, view);
        if matches!(on.action, OnConflictAction::DoUpdate(_)) {
            permitted::columns(binder, relation, privilege::UPDATE, changed.iter().map(String::as_str))?;
            permitted::below(binder, Some(view), table, privilege::UPDATE, None)?;
        }
        read.extend(named);
    } else if let Some(on) = on_conflict(insert)? {
        if let Some(target) = &on.conflict_target {
            read.extend(conflict::columns(binder, definition, target, view)?);
        }
        if let OnConflictAction::DoUpdate(update) = &on.action {
            let changed = super::assign::names(&definition.columns, &update.assignments)?;
            permitted::columns(binder, relation, privilege::UPDATE, changed.iter().map(String::as_str))?;
            permitted::below(binder, view, table, privilege::UPDATE, None)?;
            let values = update.assignments.iter().map(|assignment| &assignment.value);
            let exprs: Vec<&ast::Expr> = values.chain(&update.selection).collect();
            read.extend(permitted::named(definition, &exprs));
        }
    }
    if !read.is_empty() {
        permitted::columns(binder, relation, privilege::SELECT, read.iter().map(String::as_str))?;
    }
    let own_alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
    let factor = select::factor(name.clone(), own_alias.cloned());
    let read = permitted::Read {
        target: relation,
        factor: &factor,
        beside: Vec::new(),
        with: None,
        exprs: Vec::new(),
        returning: insert.returning.as_deref(),
    };
    read.check(binder)
}

/// Runs until nobody else has added keys meanwhile that decide what the statement does.
pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    insert: &Insert,
    params: &[ScalarValue],
) -> Result<Outcome> {
    session.check_expected()?;
    loop {
        if let Some(outcome) = run_once(session, prepared, insert, params).await? {
            return Ok(outcome);
        }
    }
}

/// None: others have changed the table meanwhile, and the transaction sees what they have made of it.
async fn run_once(
    session: &mut Session,
    prepared: &Prepared,
    insert: &Insert,
    params: &[ScalarValue],
) -> Result<Option<Outcome>> {
    let binder = session.binder();
    let resolved = resolve(&binder, insert)?;
    if resolved.table.definition().schema_name != session.temporary_schema() {
        session.check_writable("INSERT")?;
    }
    check(&binder, insert, &resolved)?;
    let over_table = resolved.over_table(insert)?;
    let insert = over_table.as_ref().unwrap_or(insert);
    let on = on_conflict(insert)?;
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    let table = resolved.table.clone();
    if table_locks::for_rows(session, &table).await? == Found::Changed {
        return Ok(None);
    }
    let of_source = session.source_binder();
    let source = of_source.as_ref().unwrap_or(&binder);
    if let Some(upsert) = upsert(insert, &resolved)? {
        let rows = rows(session, source, prepared, (&resolved, insert), params).await?;
        let whole = prepared.is_insert(insert).then_some(prepared);
        return upsert.run(session, &binder, (whole, rows), &declared, params).await;
    }
    let rows = rows(session, source, prepared, (&resolved, insert), params).await?;
    let keep = insert.returning.is_some();
    let keys = match on {
        Some(on) => {
            let target = on.conflict_target.as_ref();
            let arbiters = conflict::arbiters(&binder, table.definition(), target, params, resolved.view.as_ref())?;
            Some(conflict::Keys::of(
                &table,
                &arbiters,
                session.engine.database().budget(),
            )?)
        }
        None => None,
    };
    let run = || match on {
        // Of rows that conflict with each other the first stays.
        Some(_) => session.run().in_order(),
        None => session.run(),
    };
    let checks = updatable::checks(session, resolved.view.as_ref(), &binder, table.definition())?;
    // Rows that are there already are checked before that is seen.
    let proposed = match on {
        Some(_) => Some(updatable::checks(
            session,
            resolved.view.as_ref(),
            &binder,
            table.definition(),
        )?),
        None => None,
    };
    let writer = session.transaction()?.lock().writer(&table);
    let definition = table.definition().clone();
    let sink = (writer, Vec::new(), keys);
    let (writer, kept, keys) = rows
        .drain(run, sink, move |(writer, kept, keys), batch| {
            let mut batch = as_stored(&batch)?;
            if let Some(keys) = keys {
                batch = tenon_storage::writer::conform(&batch, &definition)?;
                if let Some(proposed) = &proposed {
                    proposed.verify_proposed(&batch)?;
                }
                batch = keys.keep_new(&batch)?;
            }
            writer.append(&batch)?;
            if keep {
                kept.push(batch);
            }
            Ok(())
        })
        .await?;
    if let Some(keys) = keys
        && claims::await_rows(session, &table, keys.met()).await?
    {
        return Ok(None);
    }
    let addressed = returned_addresses::asked(&table, insert.returning.as_deref());
    let Some((rows, segments)) = written(session, table.oid(), writer, Some(checks), on.is_some()).await? else {
        return Ok(None);
    };
    match &insert.returning {
        Some(items) => {
            let mut columns = ReturningColumns::through(&table, resolved.view.as_ref(), alias(insert));
            let mut kept = kept;
            if addressed {
                kept = returned_addresses::beside(kept, &returned_addresses::of_segments(&segments))?;
                columns = columns.with_addresses();
            }
            let asked = returning::Returning {
                items,
                prepared: prepared.is_insert(insert).then_some(prepared),
                before: &source.snapshot,
                declared: &declared,
                params,
            };
            let rows = returning::rows(session, &asked, &table, &columns, kept, "INSERT 0");
            rows.await.map(Some)
        }
        None => Ok(Some(Outcome::Command(format!("INSERT 0 {rows}")))),
    }
}

/// The rows to insert, by a plan that is kept with the statement or may be.
async fn rows(
    session: &Session,
    binder: &Binder,
    prepared: &Prepared,
    (resolved, insert): (&Resolved, &Insert),
    params: &[ScalarValue],
) -> Result<InsertRows> {
    let input = input(session, binder, prepared, (resolved, insert), params).await?;
    Ok(InsertRows::of(session, input))
}

async fn input(
    session: &Session,
    binder: &Binder,
    prepared: &Prepared,
    (resolved, insert): (&Resolved, &Insert),
    params: &[ScalarValue],
) -> Result<StatementInput> {
    let described = prepared.plan.lock().take();
    let described = described.filter(|_| prepared.rights == session.plan_rights());
    let keeps = resolved.view.is_none() && prepared.is_insert(insert);
    if keeps && let Some(kept) = query::found_in(session, prepared, params, &binder.snapshot) {
        return StatementInput::of_kept(session, prepared, &kept, params);
    }
    let given = (&prepared.param_fields[..], params);
    if let Some(source) = &insert.source
        && let Some(rows) = rows_given(binder, resolved, source, given)?
    {
        let (definition, targets) = (resolved.table.definition(), &resolved.targets[..rows.num_columns()]);
        if let Some(rows) = given_rows::rows(session, binder, definition, targets, &rows).await? {
            if keeps {
                // Its other plans may be kept.
                prepared.slot.is_repeated();
            }
            return Ok(StatementInput::Few(rows));
        }
        let plan = plan_of_given(binder, resolved, rows)?;
        return query::source(session, prepared, plan, None, &[]).map(StatementInput::Source);
    }
    let (plan, reusable) = match (described, &insert.source) {
        (Some((state, plan)), Some(_)) if keeps && Arc::ptr_eq(&state, &binder.snapshot) => (plan, true),
        (_, Some(source)) => {
            let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
            let (plan, _) = source_plan(binder, resolved, source, &declared)?;
            let (plan, taken) = taken_columns::apart(plan)?;
            moments::opened_beside(binder, plan, params.len(), taken)?
        }
        (_, None) => moments::opened(binder, default_row(binder, &resolved.table)?, params.len())?,
    };
    let reusable = (keeps && reusable && have_fixed_defaults(resolved.table.definition())).then_some(Reads::Only);
    query::source_in(session, prepared, plan, reusable, params, &binder.snapshot).map(StatementInput::Source)
}

/// Whether the defaults of a table's columns are as good tomorrow: one may name a day as a text does.
pub(super) fn have_fixed_defaults(definition: &TableDefinition) -> bool {
    let mut defaults = definition.columns.iter().filter_map(|column| column.default.as_deref());
    !defaults.any(names_a_moment)
}

fn on_conflict(insert: &Insert) -> Result<Option<&OnConflict>> {
    match &insert.on {
        None => Ok(None),
        Some(OnInsert::OnConflict(on)) => Ok(Some(on)),
        Some(other) => Err(SqlError::unsupported(other)),
    }
}

/// The statement's DO UPDATE.
fn upsert<'a>(insert: &'a Insert, resolved: &Resolved) -> Result<Option<Upsert<'a>>> {
    let Some(OnConflict {
        conflict_target,
        action: OnConflictAction::DoUpdate(update),
    }) = on_conflict(insert)?
    else {
        return Ok(None);
    };
    Ok(Some(Upsert {
        table: resolved.table.clone(),
        through: resolved.view.clone(),
        alias: alias(insert),
        target: conflict_target.as_ref(),
        update,
        returning: insert.returning.as_deref(),
        with: insert.source.as_ref().and_then(|source| source.with.as_ref()),
    }))
}

fn default_row(binder: &Binder, table: &TableVersion) -> Result<LogicalPlan> {
    let columns = &table.definition().columns;
    let exprs = columns
        .iter()
        .map(|column| Ok(defaults::value(binder, table.definition(), column)?.alias(&column.name)));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let plan = LogicalPlanBuilder::empty(true)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))?;
    defaults::generate(binder, table.definition(), plan, 0)
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
    let written = written(session, table_oid, writer, checks, false).await?;
    Ok(written.map_or(0, |(rows, _)| rows))
}

/// The same; the number of rows, and the segments that they have become. None: rows were `chosen` by the keys that are there,
/// and others have added some since.
async fn written(
    session: &Session,
    table_oid: u32,
    writer: TableWriter,
    checks: Option<Checks>,
    chosen: bool,
) -> Result<Option<(u64, Vec<Arc<Segment>>)>> {
    let rows = writer.rows();
    let checks = Arc::new(checks);
    let own = checks.clone();
    let segments = run::aside_over(&session.engine, rows, async move {
        let segments = writer.finish()?;
        match own.as_ref() {
            Some(checks) => checks.verify(&segments).map(|()| segments),
            None => Ok(segments),
        }
    })
    .await?;
    loop {
        match claims::claim(session, table_oid, &segments, false).await? {
            Claim::Alone => {}
            Claim::Changed if chosen => return Ok(None),
            Claim::Changed => continue,
            Claim::Taken(_) if chosen => return Err(StorageError::serialization().into()),
            Claim::Taken(error) => return Err(error.into()),
        }
        let transaction = session.transaction()?;
        let (checks, added) = (checks.clone(), segments.clone());
        let appended = run::aside_over(&session.engine, rows, async move {
            let mut transaction = transaction.lock();
            let rows = match transaction.append(table_oid, added.clone()) {
                Ok(rows) => rows,
                Err(error) => return Ok(Err(error.into())),
            };
            if let Some(checks) = checks.as_ref() {
                checks.verify_written(&mut transaction, &added, None)?;
            }
            Ok(Ok(rows))
        })
        .await?;
        match appended {
            Ok(rows) => return Ok(Some((rows, segments))),
            Err(error) if claims::is_refused(&error) && claims::may_go(session, table_oid, &segments).await? => {}
            Err(error) => return Err(error),
        }
    }
}
