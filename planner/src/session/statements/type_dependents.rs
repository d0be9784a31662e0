//! What is of a type that is dropped: columns of tables and of composite types, and domains.

use super::composite::{Attributes, domains, drop_attributes, tables, told};
use super::drop::depended_on_of;
use super::{column, constraints, domain, drop, row_types};
use crate::catalog::bind::Target;
use crate::pg::error::Result;
use crate::session::Session;
use std::sync::Arc;
use tenon_storage::{Domain, SqlType};

/// A composite type, or that of a table's rows, that goes.
pub(super) struct Type<'a> {
    pub oid: u32,
    /// How DROP speaks of it.
    pub name: &'a str,
    /// What is dropped, with which the type goes.
    pub dropped: &'a str,
    /// Tables that are dropped anyway.
    pub along: &'a [u32],
}

impl Type<'_> {
    /// Takes away what is of it, `others` among that: columns of composite types.
    pub async fn release(self, session: &mut Session, others: Attributes, cascade: bool) -> Result<()> {
        let is_it = |of: SqlType| match of {
            SqlType::Composite(own) => own.oid() == self.oid,
            SqlType::Array(of) => matches!(of.element(), SqlType::Composite(own) if own.oid() == self.oid),
            _ => false,
        };
        let domains = domains(session, self.oid);
        let domains: Vec<_> = domains.into_iter().filter(|own| is_it(own.base)).collect();
        let tables = tables(session, self.oid);
        let state = session.state();
        let stays = |place: &Target| {
            let own = state.relation(&place.schema, &place.name);
            own.is_none_or(|own| !self.along.contains(&own.oid()))
        };
        let mut columns = Vec::new();
        for (place, own) in tables.iter().filter(|(place, _)| stays(place)) {
            let own = own.iter().filter(|own| own.domain.is_none() && is_it(own.sql_type));
            columns.extend(own.map(|own| (place, own.name.as_str())));
        }
        let mut dependents: Vec<String> = told(&others).collect();
        dependents.extend(
            columns
                .iter()
                .map(|(place, column)| format!("column {column} of table {}", place.name)),
        );
        dependents.extend(domains.iter().map(|own| format!("type {}", own.name)));
        let own = Dependents {
            told: dependents,
            attributes: others,
            domains,
            columns,
        };
        own.drop(session, (self.dropped, self.name), cascade).await
    }
}

/// Whether the rows of a table are divided by a column.
fn is_key(session: &Session, place: &Target, column: &str) -> bool {
    let state_now = session.state();
    let table = state_now.table(&place.schema, &place.name);
    let partitioning = table.and_then(|table| table.definition().partitioning.as_ref());
    let mut keys = partitioning.into_iter().flat_map(|own| &own.keys);
    keys.any(|key| constraints::mentions(&key.expression, column).unwrap_or(true))
}

/// What is of a type: how DROP speaks of it, columns of composite types, domains, columns of tables.
pub(super) struct Dependents<'a> {
    pub told: Vec<String>,
    pub attributes: Attributes,
    pub domains: Vec<Arc<Domain>>,
    pub columns: Vec<(&'a Target, &'a str)>,
}

impl Dependents<'_> {
    /// Drops it all, with `cascade`; without, there must be none.
    pub async fn drop(mut self, session: &mut Session, (dropped, name): (&str, &str), cascade: bool) -> Result<()> {
        // A table goes with a column that its rows are divided by.
        let divided = self
            .columns
            .iter()
            .filter(|(place, column)| is_key(session, place, column));
        let divided: Vec<&Target> = divided.map(|(place, _)| *place).collect();
        for (place, column) in &self.columns {
            let own = format!("column {column} of table {}", place.name);
            if divided.contains(place)
                && let Some(at) = self.told.iter().position(|told| *told == own)
            {
                let whole = format!("table {}", place.name);
                match self.told.contains(&whole) {
                    true => {
                        self.told.remove(at);
                    }
                    false => self.told[at] = whole,
                }
            }
        }
        if !cascade && !self.told.is_empty() {
            return Err(depended_on_of(dropped, name, &self.told));
        }
        for what in &self.told {
            session.cascades_to(what.clone());
        }
        drop_attributes(session, self.attributes).await?;
        for domain in &self.domains {
            domain::drop_one(session, domain, true)?;
        }
        for (place, column) in self.columns {
            if divided.contains(&place) {
                drop::drop_table(session, place)?;
                continue;
            }
            let relation = session.state().relation(&place.schema, &place.name).cloned();
            let of_rows = relation.and_then(|relation| row_types::before(session, &relation));
            column::remove(session, place, column, true)?;
            row_types::follow(session, of_rows).await?;
        }
        Ok(())
    }
}
