//! MERGE.
//!
//! More than 400 lines because the clauses of MERGE become one SELECT, put together step by step.
//!
//! It is planned as a SELECT over the source's rows with the target's rows that match them: where the target's row is
//! (segment and row number), the number of the first WHEN whose condition holds, and what that one writes.

use super::constraints::Checks;
use super::query::{Reads, StatementInput};
use super::references::{self, Replaced};
use super::untyped;
use super::{
    Description, assign, change, defaults, insert, moments, parameters, permitted, query, row_locks, select,
    table_locks,
};
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::Outcome;
use crate::pg::parse::overriding::Overriding;
use crate::pg::rewrite::rewrite;
use crate::pg::tokens::merge::{DEFAULTS, NOTHING, OVERRIDING};
use crate::pg::walk::VisitMut;
use crate::pg::walk::null;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int32Type, Schema, UInt32Type};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, CaseWhen, Ident, Join, JoinConstraint, JoinOperator, Merge, MergeAction, MergeClause,
    MergeClauseKind, MergeInsertExpr, MergeInsertKind, ObjectName, Query, SelectItem, TableFactor, TableWithJoins,
    Value, VisitorMut, With,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_executor::scan::POSITION_FIELDS;
use tenon_storage::{Keys, Relation, RowLocation, TableRows, TableVersion, privilege};

const ACTION: &str = "\u{1}action";

/// What a WHEN does with a row.
enum Effect {
    Nothing,
    Delete,
    /// The new row is an expression a column.
    Update(Vec<ast::Expr>),
    Insert(Vec<ast::Expr>),
}

struct Merging {
    table: Arc<TableVersion>,
    effects: Vec<Effect>,
    select: ast::Statement,
}

pub(super) fn describe(
    session: &mut Session,
    merge: &Merge,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    let binder = session.binder();
    let merging = Merging::of(&binder, merge, with)?;
    let (plan, params) = merging.plan(&binder, types)?;
    let (plan, lasts) = moments::opened(&binder, plan, params.len())?;
    let plan = (lasts && with.is_none()).then(|| (binder.snapshot.clone(), plan));
    Ok(Description {
        params,
        plan,
        ..Description::default()
    })
}

pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    merge: &Merge,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    loop {
        if let Some(outcome) = run_once(session, prepared, merge, with, params).await? {
            return Ok(outcome);
        }
    }
}

/// None: others have changed some of the rows meanwhile, or added keys.
async fn run_once(
    session: &mut Session,
    prepared: &Prepared,
    merge: &Merge,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Option<Outcome>> {
    let binder = session.binder();
    session.check_expected()?;
    let merging = Merging::of(&binder, merge, with)?;
    if merging.table.definition().schema_name != session.temporary_schema() {
        session.check_writable("MERGE")?;
    }
    check(&binder, merge, with)?;
    let table = merging.table.clone();
    if table_locks::for_rows(session, &table).await? == row_locks::Found::Changed {
        return Ok(None);
    }
    let rows = merging.rows(session, &binder, (prepared, params), (merge, with))?;
    let found = Found {
        effects: merging.effects,
        replaced: references::concern(&session.state(), &table).then(|| Replaced::of(&table)),
        ..Found::default()
    };
    let found = rows
        .drain(|| session.run(), found, |found, batch| found.take(&batch))
        .await?;
    if found.rows > 0 {
        if row_locks::lock(session, &table, &found.changed).await? == row_locks::Found::Changed {
            return Ok(None);
        }
        let checks = Checks::of(session, &binder, table.definition())?;
        let writer = session.transaction()?.lock().writer(&table);
        let rows = (writer, found.written, Keys::Changed);
        let replaced = change::replace(session, &table, found.changed, rows, checks, found.replaced, true);
        if replaced.await?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(Outcome::Command(format!("MERGE {}", found.rows))))
}

/// Whether the role that acts may do what the clauses say.
fn check(binder: &Binder, merge: &Merge, with: Option<&With>) -> Result<()> {
    let TableFactor::Table { name, .. } = &merge.table else {
        return Ok(());
    };
    if binder.acting.superuser {
        return Ok(());
    }
    let relation = binder.names().relation(name)?;
    let mut exprs = vec![(*merge.on).clone()];
    for clause in &merge.clauses {
        exprs.extend(clause.predicate.clone());
        match &clause.action {
            MergeAction::Insert(insert) => {
                let listed: Vec<String> = insert.columns.iter().map(super::last).collect();
                let all = || {
                    relation
                        .columns()
                        .fields()
                        .iter()
                        .map(|field| field.name().clone())
                        .collect()
                };
                let named: Vec<String> = if listed.is_empty() { all() } else { listed };
                permitted::columns(binder, relation, privilege::INSERT, named.iter().map(String::as_str))?;
            }
            MergeAction::Update(update) => {
                let columns = relation.as_table().map(|table| table.definition().columns.clone());
                let named = assign::names(&columns.unwrap_or_default(), &update.assignments)?;
                permitted::columns(binder, relation, privilege::UPDATE, named.iter().map(String::as_str))?;
                exprs.extend(update.assignments.iter().map(|assignment| assignment.value.clone()));
            }
            MergeAction::Delete { .. } => permitted::whole(binder, relation, privilege::DELETE)?,
        }
    }
    let read = permitted::Read {
        target: relation,
        factor: &merge.table,
        beside: vec![TableWithJoins {
            relation: merge.source.clone(),
            joins: Vec::new(),
        }],
        with,
        exprs,
        returning: None,
    };
    read.check(binder)
}

fn refused(name: &str, what: &str) -> SqlError {
    SqlError::unsupported_as(format!("cannot execute MERGE on relation \"{name}\""))
        .detail(format!("This operation is not supported for {what}."))
}

fn target(binder: &Binder, factor: &TableFactor) -> Result<Arc<TableVersion>> {
    let TableFactor::Table { name, .. } = factor else {
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \"(\""));
    };
    match binder.names().relation(name)? {
        Relation::Table(table) if table.definition().query.is_some() => {
            Err(refused(&table.definition().name, "materialized views"))
        }
        Relation::Table(table) => Ok(table.clone()),
        Relation::View(view) => Err(refused(&view.name, "views")),
        Relation::Sequence(sequence) => Err(refused(&sequence.name, "sequences")),
        Relation::Partition(_) => Err(SqlError::unsupported("MERGE into a partition")),
    }
}

/// The name under which a relation of FROM is known.
fn known_as(factor: &TableFactor) -> Option<String> {
    let from = TableWithJoins {
        relation: factor.clone(),
        joins: Vec::new(),
    };
    let name = assign::relations(&[from]).pop()?;
    name.0.last().and_then(|part| part.as_ident()).map(fold)
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn item(expr: ast::Expr, name: impl Into<String>) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', name),
    }
}

fn integer(value: usize) -> ast::Expr {
    ast::Expr::Value(Value::Number(value.to_string(), false).into())
}

/// `CASE WHEN ... THEN ... END`
fn case(conditions: Vec<CaseWhen>, otherwise: Option<ast::Expr>) -> ast::Expr {
    let token = datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty;
    ast::Expr::Case {
        case_token: token(),
        end_token: token(),
        operand: None,
        conditions,
        else_result: otherwise.map(Box::new),
    }
}

impl Merging {
    fn of(binder: &Binder, merge: &Merge, with: Option<&With>) -> Result<Merging> {
        if with.is_some_and(|with| with.recursive) {
            let message = "WITH RECURSIVE is not supported for MERGE statement";
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        if merge.output.is_some() {
            return Err(SqlError::new(
                state::SYNTAX_ERROR,
                "syntax error at or near \"RETURNING\"",
            ));
        }
        if merge.clauses.is_empty() {
            return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at end of input"));
        }
        let table = target(binder, &merge.table)?;
        let own = known_as(&merge.table).unwrap_or_default();
        let source = known_as(&merge.source);
        if source.as_ref() == Some(&own) {
            let message = format!("name \"{own}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_ALIAS, message)
                .detail("The name is used both as MERGE target table and data source."));
        }
        let sight = SourceAlone {
            table: &table,
            target: &own,
            source: source.as_deref(),
            depth: 0,
        };
        let (mut matched, mut other) = (Vec::new(), Vec::new());
        let mut effects = Vec::new();
        let mut unconditional = [false; 2];
        for (at, clause) in merge.clauses.iter().enumerate() {
            let is_match = clause.clause_kind == MergeClauseKind::Matched;
            if !is_match && clause.clause_kind != MergeClauseKind::NotMatched {
                return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \"BY\""));
            }
            let closed = &mut unconditional[usize::from(is_match)];
            if *closed {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            *closed = clause.predicate.is_none();
            let mut clause = clause.clone();
            if !is_match {
                sight.clone().restrict(&mut clause)?;
            }
            let always = || ast::Expr::Value(Value::Boolean(true).into());
            let when = CaseWhen {
                condition: clause.predicate.clone().unwrap_or_else(always),
                result: integer(at + 1),
            };
            match is_match {
                true => matched.push(when),
                false => other.push(when),
            }
            effects.push(effect(binder, &table, &own, &clause.action)?);
        }
        let position = |name: &str| ast::Expr::CompoundIdentifier(vec![quoted(&own), quoted(name)]);
        let mut items: Vec<SelectItem> = POSITION_FIELDS.iter().map(|name| item(position(name), *name)).collect();
        let inserts = !other.is_empty();
        let is_there = CaseWhen {
            condition: ast::Expr::IsNotNull(Box::new(position(POSITION_FIELDS[0]))),
            result: match matched.is_empty() {
                true => null(),
                false => case(matched, None),
            },
        };
        let otherwise = inserts.then(|| case(other, None));
        items.push(item(case(vec![is_there], otherwise), ACTION));
        for (at, effect) in effects.iter().enumerate() {
            if let Effect::Update(values) | Effect::Insert(values) = effect {
                let named = values.iter().enumerate();
                items.extend(named.map(|(column, value)| item(value.clone(), format!("\u{1}{at} {column}"))));
            }
        }
        let constraint = JoinConstraint::On((*merge.on).clone());
        let join = Join {
            relation: merge.table.clone(),
            global: false,
            join_operator: match inserts {
                true => JoinOperator::Left(constraint),
                false => JoinOperator::Inner(constraint),
            },
        };
        let from = TableWithJoins {
            relation: merge.source.clone(),
            joins: vec![join],
        };
        let mut select = select::of(items, vec![from], None);
        if let (ast::Statement::Query(query), Some(with)) = (&mut select, with) {
            query.with = Some(with.clone());
        }
        Ok(Merging { table, effects, select })
    }

    /// What the plan gives, which is kept with the statement where that is all of it.
    fn rows(
        &self,
        session: &Session,
        binder: &Binder,
        (prepared, params): (&Prepared, &[ScalarValue]),
        (merge, with): (&Merge, Option<&With>),
    ) -> Result<StatementInput> {
        let described = prepared.plan.lock().take();
        let described = described.filter(|_| prepared.rights == session.plan_rights());
        let is_whole = matches!(prepared.tree(), Some(ast::Statement::Merge(own)) if std::ptr::eq(own, merge));
        let keeps = is_whole && with.is_none() && insert::have_fixed_defaults(self.table.definition());
        if keeps && let Some(kept) = query::found(session, prepared, params) {
            return StatementInput::of_kept(session, prepared, &kept, params);
        }
        let (plan, lasts) = match described {
            Some((state, plan)) if keeps && Arc::ptr_eq(&state, &binder.snapshot) => (plan, true),
            _ => {
                let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
                moments::opened(binder, self.plan(binder, &declared)?.0, params.len())?
            }
        };
        let reusable = (keeps && lasts).then_some(Reads::AndWrites);
        query::source(session, prepared, plan, reusable, params).map(StatementInput::Source)
    }

    /// The plan, whose columns are the place of the target's row, the number of the WHEN and the new row.
    fn plan(&self, binder: &Binder, types: &[u32]) -> Result<(LogicalPlan, Vec<FieldRef>)> {
        let mut own = binder.clone().without_asking(self.table.oid());
        own.positions_of = Some(self.table.oid());
        own.hides_places = true;
        let mut tree = self.select.clone();
        rewrite(&mut tree);
        let (plan, params) = parameters::plan(&own, tree, types)?;
        let LogicalPlan::Projection(all) = plan else {
            return Err(SqlError::unsupported("MERGE with such expressions"));
        };
        let told = |error| from_datafusion(&error);
        let exprs: Vec<Expr> = all.expr.iter().map(|expr| expr.clone().unalias()).collect();
        // The condition is evaluated once a row, and what a WHEN writes for its own rows alone.
        let mut below: Vec<Expr> = all.input.schema().columns().into_iter().map(Expr::Column).collect();
        below.push(exprs[2].clone().alias(ACTION));
        let input = LogicalPlanBuilder::from(all.input.as_ref().clone()).project(below);
        let action = Expr::Column(Column::from_name(ACTION));
        let definition = self.table.definition();
        let mut out = vec![exprs[0].clone(), exprs[1].clone(), action.clone()];
        for (at, column) in definition.columns.iter().enumerate() {
            let mut whens = Vec::new();
            let mut from = 3;
            for (number, effect) in self.effects.iter().enumerate() {
                if let Effect::Update(values) | Effect::Insert(values) = effect {
                    untyped::check_value(&all.expr[from + at], all.schema.field(from + at), column)?;
                    let value = insert::assigned(exprs[from + at].clone(), column);
                    let chosen = action.clone().eq(lit((number + 1) as i64));
                    whens.push((Box::new(chosen), Box::new(value)));
                    from += values.len();
                }
            }
            let value = match whens.is_empty() {
                true => lit(ScalarValue::Null),
                false => Expr::Case(Case::new(None, whens, None)),
            };
            out.push(insert::assigned(value, column).alias(&column.name));
        }
        let plan = input.and_then(|input| input.project(out)).map_err(told)?;
        let plan = plan.build().map_err(told)?;
        Ok((defaults::generate(binder, definition, plan, 3)?, params))
    }
}

fn effect(binder: &Binder, table: &Arc<TableVersion>, own: &str, action: &MergeAction) -> Result<Effect> {
    let definition = table.definition();
    match action {
        MergeAction::Delete { .. } => Ok(Effect::Delete),
        MergeAction::Update(update) => {
            if let [only] = update.assignments.as_slice()
                && matches!(&only.target, AssignmentTarget::ColumnName(name) if is_mark(name, NOTHING))
            {
                return Ok(Effect::Nothing);
            }
            if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \"WHERE\""));
            }
            let values = assign::values(binder, definition, None, &update.assignments)?;
            let column = |name: &str| ast::Expr::CompoundIdentifier(vec![quoted(own), quoted(name)]);
            let values = values.into_iter().zip(&definition.columns);
            Ok(Effect::Update(
                values
                    .map(|(value, own)| value.unwrap_or_else(|| column(&own.name)))
                    .collect(),
            ))
        }
        MergeAction::Insert(insert) => inserted(binder, table, insert),
    }
}

fn is_mark(name: &ObjectName, mark: &str) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|ident| ident.value == mark))
}

fn inserted(binder: &Binder, table: &Arc<TableVersion>, insert: &MergeInsertExpr) -> Result<Effect> {
    let definition = table.definition();
    let mut columns = insert.columns.clone();
    let takes = |columns: &mut Vec<ObjectName>, mark: &str| {
        let before = columns.len();
        columns.retain(|name| !is_mark(name, mark));
        columns.len() < before
    };
    if takes(&mut columns, NOTHING) {
        return Ok(Effect::Nothing);
    }
    let defaults_only = takes(&mut columns, DEFAULTS);
    let overriding = match OVERRIDING.map(|(_, mark)| takes(&mut columns, mark)) {
        [true, _] => Some(Overriding::System),
        [_, true] => Some(Overriding::User),
        _ => None,
    };
    let MergeInsertKind::Values(values) = &insert.kind else {
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \"ROW\""));
    };
    let ([row], None) = (values.rows.as_slice(), &insert.insert_predicate) else {
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \",\""));
    };
    let resolved = insert::Resolved::of_columns(table, &columns, overriding)?;
    let mut out = Vec::with_capacity(definition.columns.len());
    if !defaults_only {
        resolved.check_width(row.content.len())?;
    }
    for (at, column) in definition.columns.iter().enumerate() {
        let place = resolved.place(at).filter(|_| !defaults_only);
        let given = place.and_then(|place| row.content.get(place));
        out.push(match given {
            Some(value) if resolved.takes(column, defaults::is_default(value))? && !defaults::is_default(value) => {
                value.clone()
            }
            _ => defaults::tree(binder, definition, column)?,
        });
    }
    Ok(Effect::Insert(out))
}

/// A WHEN NOT MATCHED sees the source's columns alone.
#[derive(Clone)]
struct SourceAlone<'a> {
    table: &'a TableVersion,
    target: &'a str,
    source: Option<&'a str>,
    depth: usize,
}

impl SourceAlone<'_> {
    fn restrict(mut self, clause: &mut MergeClause) -> Result<()> {
        let mut visit = |expr: &mut ast::Expr| match expr.visit(&mut self) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        };
        clause.predicate.iter_mut().try_for_each(&mut visit)?;
        if let MergeAction::Insert(insert) = &mut clause.action
            && let MergeInsertKind::Values(values) = &mut insert.kind
        {
            let row = values.rows.iter_mut().flat_map(|row| &mut row.content);
            row.filter(|expr| !defaults::is_default(expr)).try_for_each(visit)?;
        }
        Ok(())
    }
}

impl VisitorMut for SourceAlone<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<SqlError> {
        match expr {
            _ if self.depth > 0 => {}
            ast::Expr::CompoundIdentifier(parts) if parts.len() == 2 && fold(&parts[0]) == self.target => {
                let name = self.target;
                let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
                return ControlFlow::Break(SqlError::new(state::UNDEFINED_TABLE, message).hint(format!(
                    "There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."
                )));
            }
            ast::Expr::Identifier(name) => {
                let name = fold(name);
                if let (Some(source), Some(_)) = (self.source, self.table.definition().column_index(&name)) {
                    *expr = ast::Expr::CompoundIdentifier(vec![quoted(source), quoted(&name)]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// What the plan finds, gathered.
#[derive(Default)]
struct Found {
    effects: Vec<Effect>,
    /// The rows that are updated or deleted.
    changed: TableRows,
    written: Vec<RecordBatch>,
    written_rows: u32,
    /// Which rows those are, where foreign keys ask.
    replaced: Option<Replaced>,
    rows: u64,
}

impl Found {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let told = |error| from_arrow(&error);
        let (segments, rows) = (
            batch.column(0).as_primitive::<UInt32Type>(),
            batch.column(1).as_primitive::<UInt32Type>(),
        );
        let actions = cast(batch.column(2), &DataType::Int32).map_err(told)?;
        let actions: &Int32Array = actions.as_primitive::<Int32Type>();
        let mut written = Vec::with_capacity(batch.num_rows());
        for at in 0..batch.num_rows() {
            let effect = match actions.is_null(at) {
                true => None,
                false => self.effects.get(actions.value(at) as usize - 1),
            };
            written.push(matches!(effect, Some(Effect::Update(_) | Effect::Insert(_))));
            if matches!(effect, Some(Effect::Update(_) | Effect::Delete)) {
                let (segment, row) = (segments.value(at), rows.value(at));
                let location = RowLocation {
                    segment: segment as usize,
                    row: row as usize,
                };
                if !self.changed.insert(location) {
                    let message = "MERGE command cannot affect row a second time";
                    return Err(SqlError::new(state::CARDINALITY_VIOLATION, message)
                        .hint("Ensure that not more than one source row matches any one target row."));
                }
                match (&mut self.replaced, effect) {
                    (Some(replaced), Some(Effect::Delete)) => replaced.deleted.push((segment, row)),
                    (Some(replaced), _) => {
                        replaced.updated.push(((segment, row), self.written_rows));
                    }
                    (None, _) => {}
                }
            }
            self.written_rows += u32::from(written[at]);
            self.rows += u64::from(!matches!(effect, None | Some(Effect::Nothing)));
        }
        let columns: Vec<ArrayRef> = batch.columns()[3..].to_vec();
        let fields: Vec<FieldRef> = batch.schema().fields()[3..].to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let kept = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .and_then(|batch| filter_record_batch(&batch, &BooleanArray::from(written)))
            .map_err(told)?;
        if kept.num_rows() > 0 {
            self.written.push(kept);
        }
        Ok(())
    }
}
