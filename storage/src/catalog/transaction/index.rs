//! CREATE, DROP and ALTER INDEX.

use super::super::index::{Deferral, ExpressionIndex, Index, IndexDef, IndexKind, IndexShown};
use super::super::index_names::default_name;
use super::super::table::{TableDefinition, TableVersion};
use super::super::unique;
use super::Transaction;
use crate::error::{ErrorKind, Result, StorageError};
use std::sync::Arc;

impl Transaction {
    /// Creates an index and gives its name. A unique one is checked against the rows there (23505).
    pub fn create_index(&mut self, schema: &str, table: &str, def: IndexDef) -> Result<String> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        let (columns, order) = definition.index_columns(&def.columns)?;
        let name = match def.name {
            Some(name) => {
                self.check_free(schema, &name)?;
                name
            }
            None => {
                let keys = def.columns.iter().map(|(name, _)| name);
                let names: Vec<&str> = keys.chain(&def.include).map(String::as_str).collect();
                let label = if def.constraint { "key" } else { "idx" };
                let is_taken = |name: &str| def.constraint && definition.constraints().any(|own| own == name);
                default_name(table, &names, label, |name| {
                    self.check_free(schema, name).is_ok() && !is_taken(name)
                })
            }
        };
        let index = Index {
            oid: self.database.new_oid(),
            name: name.clone(),
            kind: match (def.constraint, def.unique) {
                (true, _) => IndexKind::Constraint,
                (false, true) => IndexKind::Unique,
                (false, false) => IndexKind::Plain,
            },
            columns,
            order,
            include: definition.included_columns(&def.include)?,
            shown: def.shown,
            nulls_not_distinct: def.nulls_not_distinct,
            deferral: Deferral::Never,
            slot: Arc::default(),
            key_rows: Arc::default(),
        };
        self.check_rows_there(&current, &definition, &index)?;
        definition.indexes.push(index);
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        Ok(name)
    }

    /// Drops an index that no constraint needs.
    pub fn drop_index(&mut self, schema: &str, name: &str) -> Result<()> {
        let current = self.table_of_index(schema, name)?;
        let mut definition = (**current.definition()).clone();
        if definition.constraint_index(name).is_some() {
            let table = current.name();
            let message = format!("cannot drop index {name} because constraint {name} on table {table} requires it");
            return Err(StorageError::new(ErrorKind::DependentObjects, message)
                .hint(format!("You can drop constraint {name} on table {table} instead.")));
        }
        definition.indexes.retain(|index| index.name != name);
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        Ok(())
    }

    /// Creates an index on expressions; the rows that are there are the caller's to check. Gives its name.
    pub fn create_expression_index(
        &mut self,
        schema: &str,
        table: &str,
        index: ExpressionIndex,
        columns: &[&str],
    ) -> Result<String> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        let name = if index.name.is_empty() {
            default_name(table, columns, "idx", |name| self.check_free(schema, name).is_ok())
        } else {
            self.check_free(schema, &index.name)?;
            index.name
        };
        definition.expression_indexes.push(ExpressionIndex {
            oid: self.database.new_oid(),
            name: name.clone(),
            slot: Arc::default(),
            key_rows: Arc::default(),
            ..index
        });
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        Ok(name)
    }

    /// Drops an index on expressions, or with `to` renames it. False where there is none of that name.
    pub fn change_expression_index(&mut self, schema: &str, name: &str, to: Option<&str>) -> Result<bool> {
        let found = self.state.schema(schema).and_then(|entry| entry.expression_index(name));
        let Some(current) = found.map(|(table, _)| table.clone()) else {
            return Ok(false);
        };
        let mut definition = (**current.definition()).clone();
        match to {
            None => definition.expression_indexes.retain(|index| index.name != name),
            Some(to) => {
                self.check_free(schema, to)?;
                let own = definition.expression_indexes.iter_mut();
                own.filter(|index| index.name == name)
                    .for_each(|index| index.name = to.to_string());
            }
        }
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        Ok(true)
    }

    /// Renames an index, and the constraint that it belongs to.
    pub fn rename_index(&mut self, schema: &str, name: &str, to: &str) -> Result<()> {
        let current = self.table_of_index(schema, name)?;
        self.check_free(schema, to)?;
        let mut definition = (**current.definition()).clone();
        for index in definition.all_indexes_mut().filter(|index| index.name == name) {
            index.name = to.to_string();
        }
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        Ok(())
    }

    /// Keeps the columns of the primary key's INCLUDE, and what else is shown of its index.
    pub fn show_of_primary_key(
        &mut self,
        schema: &str,
        table: &str,
        include: &[String],
        shown: IndexShown,
    ) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let include = definition.included_columns(include)?;
            if let Some(key) = &mut definition.primary_key {
                key.include = include;
                key.shown = shown;
            }
            Ok(())
        })
    }

    /// ALTER INDEX ... SET or RESET: other storage parameters, of an index on columns or on expressions.
    pub fn set_index_options(
        &mut self,
        schema: &str,
        table: &str,
        name: &str,
        options: Vec<(String, String)>,
    ) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let expressions = definition.expression_indexes.iter_mut();
            let mut shown: Vec<(&String, &mut IndexShown)> =
                expressions.map(|own| (&own.name, &mut own.shown)).collect();
            let columns = definition.primary_key.iter_mut().chain(&mut definition.indexes);
            shown.extend(columns.map(|own| (&own.name, &mut own.shown)));
            for (_, shown) in shown.into_iter().filter(|(own, _)| *own == name) {
                shown.options = options.clone();
            }
            Ok(())
        })
    }

    /// Has a unique index be a constraint's, or with `primary` the primary key's; its columns are NOT NULL then.
    pub fn adopt_index(&mut self, schema: &str, table: &str, name: &str, primary: bool) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let at = definition.indexes.iter().position(|index| index.name == name);
            let at = at.ok_or_else(|| StorageError::undefined_table(name))?;
            match primary {
                true => {
                    let index = definition.indexes.remove(at);
                    definition.primary_key = Some(Index {
                        kind: IndexKind::Primary,
                        ..index
                    });
                }
                false => definition.indexes[at].kind = IndexKind::Constraint,
            }
            Ok(())
        })
    }

    /// Refuses a unique index where rows of the table are equal already.
    pub(super) fn check_rows_there(
        &self,
        table: &TableVersion,
        definition: &TableDefinition,
        index: &Index,
    ) -> Result<()> {
        let rows = table.segments();
        unique::check_one(definition, index, &[], rows, self.database.budget()).map_err(|error| match &error.detail {
            Some(detail) if error.kind == ErrorKind::UniqueViolation => {
                let message = format!("could not create unique index \"{}\"", index.name);
                StorageError::new(error.kind, message).detail(detail.replace(" already exists.", " is duplicated."))
            }
            _ => error,
        })
    }

    fn table_of_index(&self, schema: &str, name: &str) -> Result<Arc<TableVersion>> {
        let found = self.state.index(schema, name).map(|(table, _)| table.clone());
        found.ok_or_else(|| StorageError::undefined_table(&super::qualified(schema, name)))
    }
}
