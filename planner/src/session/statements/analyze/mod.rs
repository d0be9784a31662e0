//! ANALYZE: takes larger samples of columns for the planner.

use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::session::now_us;
use crate::pg::outcome::Outcome;
use crate::pg::parse::analyze::Analyze;
use crate::session::Session;
use crate::session::run;
use std::sync::Arc;
use tenon_storage::{Relation, TableVersion};

pub(super) async fn run(session: &mut Session, analyze: &Analyze) -> Result<Outcome> {
    let mut work: Vec<(Arc<TableVersion>, Vec<usize>)> = Vec::new();
    let snapshot = session.state();
    if analyze.targets.is_empty() {
        let tables = snapshot.relations().filter_map(Relation::as_table);
        work.extend(tables.map(|table| (table.clone(), all(table))));
    }
    let binder = session.binder();
    for (name, columns) in &analyze.targets {
        let relation = binder.names().relation(name)?;
        match relation.as_table() {
            Some(table) => work.push((table.clone(), positions(table, columns)?)),
            None => {
                let name = relation.name();
                let message = format!("skipping \"{name}\" --- cannot analyze non-tables or special system tables");
                session.warn(SqlState("01000"), message);
            }
        }
    }
    let rights = binder.rights();
    let (own, others): (Vec<_>, Vec<_>) = work.into_iter().partition(|(table, _)| rights.owns(table.oid()));
    for (table, _) in others {
        let what = if analyze.tag == "VACUUM" { "vacuum" } else { "analyze" };
        let message = format!("permission denied to {what} \"{}\", skipping it", table.name());
        session.warn(SqlState("01000"), message);
    }
    for (table, columns) in own {
        if analyze.verbose {
            let name = format!("{}.{}", table.definition().schema_name, table.name());
            session.inform(format!("analyzing \"{name}\""));
        }
        let (own, cancel) = (table.clone(), session.cancel().clone());
        run::background(&session.engine, async move {
            for column in columns {
                if cancel.is_cancelled() {
                    return Err(crate::pg::error::canceled());
                }
                own.analyze(column);
                tokio::task::yield_now().await;
            }
            own.definition().usage.analyzed(now_us());
            Ok(())
        })
        .await?;
        if analyze.verbose {
            let rows = table.rows();
            let sampled = rows.min(tenon_storage::statistics::distribution::SAMPLE_ROWS_ANALYZE as u64);
            session.inform(format!(
                "\"{}\": {rows} live rows; {sampled} rows in sample",
                table.name()
            ));
        }
    }
    Ok(Outcome::Command(analyze.tag.into()))
}

fn all(table: &TableVersion) -> Vec<usize> {
    (0..table.definition().columns.len()).collect()
}

fn positions(table: &TableVersion, columns: &[String]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok(all(table));
    }
    let mut out = Vec::new();
    for column in columns {
        let name = table.name();
        let at = table.definition().column_index(column).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })?;
        if out.contains(&at) {
            let message = format!("column \"{column}\" of relation \"{name}\" appears more than once");
            return Err(SqlError::new(SqlState("42701"), message));
        }
        out.push(at);
    }
    Ok(out)
}
