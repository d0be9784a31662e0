//! INSERT ... ON CONFLICT DO UPDATE.
//!
//! The proposed rows are gathered, and their keys located in the table. Rows without a conflict are inserted. For the
//! others the assignments are planned as a SELECT over pairs of the row that is there and the row proposed, in which
//! `excluded.c` is a column of its own; what it gives replaces the rows that are there.

use super::conflict::Arbiter;
use super::references::{self, Replaced};
use super::returning::ReturningColumns;
use super::taken_columns::InsertRows;
use super::untyped;
use super::updatable::{self, Through};
use super::{
    assign, change, claims, conflict, defaults, insert, parameters, query, returned_addresses, returning, row_locks,
    rows_plan, select, xmax,
};
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::Outcome;
use crate::pg::rewrite::rewrite;
use crate::pg::walk::VisitMut;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, DoUpdate, Ident, ObjectName, ObjectNamePart, SelectItem, VisitorMut, With,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{Keys, RowLocation, Segment, StorageError, TableVersion};

/// The column that numbers the pairs.
const PAIR: &str = "\u{1}pair";

pub(super) struct Upsert<'a> {
    pub table: Arc<TableVersion>,
    /// The view or partition that the rows are written through.
    pub through: Option<Through>,
    pub alias: Option<String>,
    pub target: Option<&'a ConflictTarget>,
    pub update: &'a DoUpdate,
    pub returning: Option<&'a [SelectItem]>,
    /// The WITH of the statement, whose queries the assignments may name.
    pub with: Option<&'a With>,
}

impl Upsert<'_> {
    /// The types of the parameters, of which the source has said some; `asks`: the target's predicate names some.
    pub(super) fn parameters(&self, binder: &Binder, types: &[u32], asks: bool) -> Result<Vec<FieldRef>> {
        // Whose predicate names parameters is known with their values.
        if !asks {
            self.arbiters(binder, &[])?;
        }
        Ok(self.assignments(binder, Vec::new(), types)?.1)
    }

    fn arbiters(&self, binder: &Binder, params: &[ScalarValue]) -> Result<Vec<Arbiter>> {
        if self.target.is_none() {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).hint("For example, ON CONFLICT (column_name)."));
        }
        conflict::arbiters(
            binder,
            self.table.definition(),
            self.target,
            params,
            self.through.as_ref(),
        )
    }

    /// Runs the statement over the rows that `source` gives, which have the table's columns. None: others have added keys
    /// meanwhile, and it is to be run again. `prepared`: where plans may be kept, if it is all of that statement.
    pub(super) async fn run(
        mut self,
        session: &mut Session,
        binder: &Binder,
        (prepared, source): (Option<&Prepared>, InsertRows),
        types: &[u32],
        params: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        let definition = self.table.definition().clone();
        let own = definition.clone();
        let take = move |rows: &mut Vec<RecordBatch>, batch| {
            rows.push(tenon_storage::writer::conform(&insert::as_stored(&batch)?, &own)?);
            Ok(())
        };
        let rows = source.drain(|| session.run(), Vec::new(), take).await?;
        let proposed = concat_batches(&definition.schema, &rows).map_err(|error| from_arrow(&error))?;
        // Rows that are there already are checked before that is seen.
        updatable::checks(session, self.through.as_ref(), binder, &definition)?.verify_proposed(&proposed)?;
        let arbiters = self.arbiters(binder, params)?;
        for arbiter in &arbiters {
            if !conflict::Seen::of(&self.table, arbiter)?.all_new(&proposed)? {
                return Err(second_time());
            }
        }
        let located = loop {
            let (table, arbiters, proposed) = (self.table.clone(), arbiters.clone(), proposed.clone());
            let budget = session.engine.database().budget().clone();
            let located = run::aside_over(&session.engine, proposed.num_rows(), async move {
                let mut found = vec![None; proposed.num_rows()];
                for arbiter in &arbiters {
                    let own = arbiter.locate(&table, &proposed, &budget)?;
                    found
                        .iter_mut()
                        .zip(own)
                        .for_each(|(found, own)| *found = found.or(own));
                }
                Ok(found)
            })
            .await?;
            let met: Vec<RowLocation> = located.iter().flatten().copied().collect();
            // Rows proposed may meet one row by different indexes.
            let mut places = HashSet::new();
            if !met.iter().all(|at| places.insert((at.segment, at.row))) {
                return Err(second_time());
            }
            if row_locks::lock(session, &self.table, &met.into_iter().collect()).await? == row_locks::Found::Stand {
                break located;
            }
            let state = session.state();
            let table = state.table_by_oid(self.table.oid()).cloned();
            let same = table.filter(|table| Arc::ptr_eq(table.definition(), &definition));
            self.table = same.ok_or_else(StorageError::serialization)?;
        };
        let (mut new, mut met) = (Vec::new(), Vec::new());
        for (row, there) in located.iter().enumerate() {
            match there {
                Some(there) => met.push((row as u32, *there)),
                None => new.push(row as u32),
            }
        }
        let pick =
            |rows: Vec<u32>| take_record_batch(&proposed, &UInt32Array::from(rows)).map_err(|error| from_arrow(&error));
        // The row proposed, for each row written.
        let mut places: Vec<u32> = new.clone();
        let inserted = pick(new)?;
        if inserted.num_rows() > 0 {
            let mut writer = session.transaction()?.lock().writer(&self.table);
            let (rows, batch) = (inserted.num_rows(), inserted.clone());
            let segments = run::aside_over(&session.engine, rows, async move {
                writer.append(&batch)?;
                Ok(writer.finish()?)
            });
            if !claims::claimed(session, self.table.oid(), &segments.await?, false).await? {
                return Ok(None);
            }
        }
        let mut written = vec![inserted];
        let mut changed: Vec<RowLocation> = Vec::new();
        if !met.is_empty() {
            let excluded = pick(met.iter().map(|(row, _)| *row).collect())?;
            let pairs = self.pairs(&excluded, &met.iter().map(|(_, there)| *there).collect::<Vec<_>>())?;
            let updated = self.updated(session, binder, prepared, pairs, (types, params));
            for batch in updated.await? {
                let pairs = batch.column(0).as_primitive::<Int64Type>();
                places.extend(pairs.values().iter().map(|pair| met[*pair as usize].0));
                changed.extend(pairs.values().iter().map(|pair| met[*pair as usize].1));
                let columns: Vec<usize> = (1..batch.num_columns()).collect();
                let rows = batch.project(&columns).map_err(|error| from_arrow(&error))?;
                written.push(tenon_storage::writer::conform(&insert::as_stored(&rows)?, &definition)?);
            }
        }
        let addressed = returned_addresses::asked(&self.table, self.returning);
        let Some((rows, segments)) = self.write(session, binder, &written, &changed).await? else {
            return Ok(None);
        };
        match self.returning {
            Some(items) => {
                let all = concat_batches(&definition.schema, &written).map_err(|error| from_arrow(&error))?;
                let mut order: Vec<u32> = (0..places.len() as u32).collect();
                order.sort_by_key(|at| places[*at as usize]);
                let order = UInt32Array::from(order);
                let mut rows = take_record_batch(&all, &order).map_err(|error| from_arrow(&error))?;
                let mut columns = ReturningColumns::through(&self.table, self.through.as_ref(), self.alias.clone());
                if xmax::is_named(items) {
                    // Those that were there come after the new ones.
                    let first_met = (places.len() - changed.len()) as u32;
                    let locked = order.values().iter().map(|at| *at >= first_met);
                    columns = columns.with_hidden();
                    rows = xmax::beside(binder, &rows, locked)?;
                }
                let mut rows = vec![rows];
                if addressed {
                    let all = returned_addresses::of_segments(&segments);
                    let addresses: Vec<u64> = order.values().iter().map(|at| all[*at as usize]).collect();
                    rows = returned_addresses::beside(rows, &addresses)?;
                    columns = columns.with_addresses();
                }
                let asked = returning::Returning {
                    items,
                    prepared,
                    before: &binder.snapshot,
                    declared: types,
                    params,
                };
                let rows = returning::rows(session, &asked, &self.table, &columns, rows, "INSERT 0");
                rows.await.map(Some)
            }
            None => Ok(Some(Outcome::Command(format!("INSERT 0 {rows}")))),
        }
    }

    /// What the assignments make of pairs.
    async fn updated(
        &self,
        session: &Session,
        binder: &Binder,
        prepared: Option<&Prepared>,
        pairs: RecordBatch,
        (types, params): (&[u32], &[ScalarValue]),
    ) -> Result<Vec<RecordBatch>> {
        let plain = self.with.is_none() && self.through.is_none() && !session.surroundings.are_some();
        let prepared = prepared.filter(|_| plain && session.watch.is_none());
        let definition = self.table.definition();
        if let Some(prepared) = prepared
            && let Some(rows) = rows_plan::rows(session, &prepared.pairs_plan, definition, &pairs, params)?
        {
            return Ok(rows);
        }
        let (plan, _) = self.assignments(binder, vec![pairs], types)?;
        if let Some(prepared) = prepared {
            rows_plan::keep(
                session,
                binder,
                (prepared, &prepared.pairs_plan),
                definition,
                (&plan, params.len()),
            )
            .await?;
        }
        let take = |rows: &mut Vec<RecordBatch>, batch| {
            rows.push(batch);
            Ok(())
        };
        run::drain(&session.run(), query::bind(plan, params)?, Vec::new(), take).await
    }

    /// Takes the changed rows out of the table and adds the written ones: how many those are, and what segments they are in.
    async fn write(
        &self,
        session: &mut Session,
        binder: &Binder,
        written: &[RecordBatch],
        changed: &[RowLocation],
    ) -> Result<Option<(usize, Vec<Arc<Segment>>)>> {
        let rows = written.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 {
            return Ok(Some((0, Vec::new())));
        }
        let checks = updatable::checks(session, self.through.as_ref(), binder, self.table.definition())?;
        // The rows that others had before come last.
        let replaced = references::concern(&session.state(), &self.table).then(|| {
            let mut replaced = Replaced::of(&self.table);
            let places = changed.iter().map(|there| (there.segment as u32, there.row as u32));
            replaced.updated = places.zip((rows - changed.len()) as u32..).collect();
            replaced
        });
        let writer = session.transaction()?.lock().writer(&self.table);
        let rows_and_keys = (writer, written.to_vec(), Keys::Changed);
        // The new rows' keys are claimed. Rows that keep theirs are locked: to claim those, too, could be to wait for who waits
        // for the row.
        let definition = self.table.definition();
        let assigned = assign::names(&definition.columns, &self.update.assignments)?;
        let changes_keys = definition.has_keys_of(|at| assigned.contains(&definition.columns[at].name));
        let segments = change::replace(
            session,
            &self.table,
            changed.iter().copied().collect(),
            rows_and_keys,
            checks,
            replaced,
            changes_keys,
        )
        .await?;
        Ok(segments.map(|segments| (rows, segments)))
    }

    /// The columns of the pairs: the row that is there, the row proposed, the pair's number.
    fn pair_schema(&self) -> Arc<Schema> {
        let own = self.table.schema().fields();
        let nullable =
            |field: &FieldRef, name: String| Arc::new(field.as_ref().clone().with_name(name).with_nullable(true));
        let mut fields: Vec<FieldRef> = own.iter().map(|field| nullable(field, field.name().clone())).collect();
        fields.extend(own.iter().map(|field| nullable(field, excluded(field.name()))));
        fields.push(Arc::new(Field::new(PAIR, DataType::Int64, false)));
        Arc::new(Schema::new(fields))
    }

    fn pairs(&self, proposed: &RecordBatch, there: &[RowLocation]) -> Result<RecordBatch> {
        let places: Vec<(u32, u32)> = there.iter().map(|at| (at.segment as u32, at.row as u32)).collect();
        let own = (0..proposed.num_columns()).map(|at| references::gather(&self.table, at, &places));
        let mut columns = own.collect::<Result<Vec<_>>>()?;
        columns.extend(proposed.columns().iter().cloned());
        columns.push(Arc::new(Int64Array::from_iter_values(0..there.len() as i64)));
        RecordBatch::try_new(self.pair_schema(), columns).map_err(|error| from_arrow(&error))
    }

    /// The plan that gives, for each pair that WHERE lets through, its number and the whole new row.
    fn assignments(
        &self,
        binder: &Binder,
        pairs: Vec<RecordBatch>,
        types: &[u32],
    ) -> Result<(LogicalPlan, Vec<FieldRef>)> {
        let definition = self.table.definition();
        let own = self.through.as_ref().map_or(&definition.name, |through| &through.view);
        let name = self.alias.clone().unwrap_or_else(|| own.clone());
        let column = |column: &str| {
            ast::Expr::CompoundIdentifier(vec![Ident::with_quote('"', &name), Ident::with_quote('"', column)])
        };
        let values = assign::values(binder, definition, None, &self.update.assignments)?;
        let types = &parameters::of_assigned(definition, &values, types);
        let item = |expr, name: String| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', name),
        };
        let mut items = vec![item(column(PAIR), PAIR.to_string())];
        for (value, own) in values.into_iter().zip(&definition.columns) {
            let value = value.unwrap_or_else(|| column(&own.name));
            items.push(item(value, format!("\u{1}new {}", own.name)));
        }
        let memory = MemTable::try_new(self.pair_schema(), vec![pairs]).map_err(|error| from_datafusion(&error))?;
        let mut binder = binder.clone();
        binder.overlay = Some((name.clone(), provider_as_source(Arc::new(memory))));
        let relation = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', &name))]);
        let mut tree = select::over(relation, items);
        select::restrict(&mut tree, self.update.selection.clone());
        if let (ast::Statement::Query(query), Some(with)) = (&mut tree, self.with) {
            query.with = Some(with.clone());
        }
        let _ = tree.visit(&mut Excluded(&name));
        rewrite(&mut tree);
        let (plan, params) = parameters::plan(&binder, tree, types)?;
        let columns = plan.schema().columns();
        let mut exprs = vec![Expr::Column(columns[0].clone())];
        let given = columns[1..].iter().zip(&plan.schema().fields()[1..]);
        for (at, (own, (column, field))) in definition.columns.iter().zip(given).enumerate() {
            // Columns that are not assigned have their own types.
            match field.data_type() == own.sql_type.field("", true).data_type() {
                true => insert::check_assignable(field, own)?,
                false => untyped::check_column(&plan, at + 1, own)?,
            }
            exprs.push(insert::assigned(Expr::Column(column.clone()), own).alias(&own.name));
        }
        let plan = LogicalPlanBuilder::from(plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build);
        let plan = plan.map_err(|error| from_datafusion(&error))?;
        Ok((defaults::generate(&binder, definition, plan, 1)?, params))
    }
}

fn second_time() -> SqlError {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(state::CARDINALITY_VIOLATION, message)
        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}

fn excluded(column: &str) -> String {
    format!("\u{1}excluded {column}")
}

/// Names the proposed row's columns as the pairs do.
struct Excluded<'a>(&'a str);

impl VisitorMut for Excluded<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && let [qualifier, column] = parts.as_mut_slice()
            && crate::catalog::bind::fold(qualifier) == "excluded"
        {
            *column = Ident::with_quote('"', excluded(&crate::catalog::bind::fold(column)));
            *qualifier = Ident::with_quote('"', self.0);
        }
        ControlFlow::Continue(())
    }
}
