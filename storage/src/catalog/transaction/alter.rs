//! ALTER TABLE: columns and constraints.

use super::super::declaration::{Check, ColumnDef, DeviceResidence};
use super::super::index::ExpressionIndex;
use super::super::table::{TableDefinition, TableVersion};
use super::Transaction;
use crate::error::{ErrorKind, Result, StorageError};
use arrow::array::{Array, ArrayRef};
use std::sync::Arc;

impl Transaction {
    pub fn rename_column(&mut self, schema: &str, table: &str, column: &str, to: &str) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let index = column_of(definition, column)?;
            if definition.column_index(to).is_some() {
                let message = format!("column \"{to}\" of relation \"{table}\" already exists");
                return Err(StorageError::new(ErrorKind::DuplicateColumn, message));
            }
            definition.columns[index].name = to.to_string();
            Ok(())
        })?;
        let oid = self.table(schema, table)?.oid();
        self.column_renamed(oid, column, Some(to));
        self.rename_owner(oid, column, to)
    }

    /// ALTER COLUMN ... SET DEFAULT or, with None, DROP DEFAULT.
    pub fn set_default(&mut self, schema: &str, table: &str, column: &str, default: Option<String>) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let index = column_of(definition, column)?;
            definition.columns[index].default = default;
            Ok(())
        })
    }

    /// ALTER TABLE ... SET (tenon.device = ...) or, with None, RESET; gives the table as it is now.
    pub fn set_device(
        &mut self,
        schema: &str,
        table: &str,
        device: Option<DeviceResidence>,
    ) -> Result<Arc<TableVersion>> {
        self.redefine(schema, table, |definition| {
            definition.device = device;
            Ok(())
        })?;
        self.table(schema, table)
    }

    /// ALTER TABLE ... SET or RESET: other storage parameters than the table has.
    pub fn set_options(&mut self, schema: &str, table: &str, options: Vec<(String, String)>) -> Result<()> {
        self.redefine(schema, table, |definition| {
            definition.options = options;
            Ok(())
        })
    }

    /// ALTER COLUMN ... SET NOT NULL (the rows there are checked) or DROP NOT NULL.
    pub fn set_not_null(&mut self, schema: &str, table: &str, column: &str, not_null: bool) -> Result<()> {
        let current = self.table(schema, table)?;
        self.redefine(schema, table, |definition| {
            let index = column_of(definition, column)?;
            if not_null && current.statistics().columns[index].null_count > 0 {
                let message = format!("column \"{column}\" of relation \"{table}\" contains null values");
                return Err(StorageError::new(ErrorKind::NotNullViolation, message));
            }
            if !not_null
                && definition
                    .primary_key
                    .as_ref()
                    .is_some_and(|key| key.columns.contains(&index))
            {
                let message = format!("column \"{column}\" is in a primary key");
                return Err(StorageError::new(ErrorKind::InvalidTableDefinition, message));
            }
            definition.columns[index].not_null = not_null;
            Ok(())
        })
    }

    /// ALTER TABLE ... ADD PRIMARY KEY: checks the rows there; the columns become NOT NULL. `name` is the constraint's,
    /// `{table}_pkey` where None.
    pub fn add_primary_key(
        &mut self,
        schema: &str,
        table: &str,
        columns: &[String],
        name: Option<String>,
    ) -> Result<()> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        if definition.declared_primary_key().is_some() {
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(StorageError::new(ErrorKind::InvalidTableDefinition, message));
        }
        let name = self.key_name(schema, table, name)?;
        definition.set_primary_key(columns, Some(name), self.database.new_oid())?;
        for index in definition.primary_key.iter().flat_map(|key| &key.columns) {
            if current.statistics().columns[*index].null_count > 0 {
                let message = format!(
                    "column \"{}\" of relation \"{table}\" contains null values",
                    definition.columns[*index].name
                );
                return Err(StorageError::new(ErrorKind::NotNullViolation, message));
            }
        }
        let definition = definition.checked()?;
        if let Some(key) = &definition.primary_key {
            self.check_rows_there(&current, &definition, key)?;
        }
        let next = current.redefined(definition);
        self.rewritten(&current, next);
        Ok(())
    }

    /// Adds a CHECK constraint; the rows there are the caller's to check.
    pub fn add_check(&mut self, schema: &str, table: &str, check: Check) -> Result<()> {
        self.redefine(schema, table, |definition| {
            if definition.checks.iter().any(|known| known.name == check.name) {
                let message = format!("constraint \"{}\" for relation \"{table}\" already exists", check.name);
                return Err(StorageError::new(ErrorKind::DuplicateObject, message));
            }
            definition.checks.push(check);
            Ok(())
        })
    }

    /// Gives the table other CHECK constraints: their conditions follow a column that has another name.
    pub fn set_checks(&mut self, schema: &str, table: &str, checks: Vec<Check>) -> Result<()> {
        self.redefine(schema, table, |definition| {
            definition.checks = checks;
            Ok(())
        })
    }

    /// Gives the table other indexes on expressions, whose texts follow its columns.
    pub fn set_expression_indexes(&mut self, schema: &str, table: &str, indexes: Vec<ExpressionIndex>) -> Result<()> {
        self.redefine(schema, table, |definition| {
            definition.expression_indexes = indexes;
            Ok(())
        })
    }

    /// ALTER TABLE ... DROP CONSTRAINT; the columns of a primary key stay NOT NULL. False where the table has none of
    /// that name.
    pub fn drop_constraint(&mut self, schema: &str, table: &str, name: &str) -> Result<bool> {
        let mut found = false;
        self.redefine(schema, table, |definition| {
            let count = |own: &TableDefinition| own.constraints().count();
            let before = count(definition);
            definition.primary_key = definition.primary_key.take().filter(|key| key.name != name);
            definition
                .indexes
                .retain(|index| !index.is_constraint() || index.name != name);
            definition.checks.retain(|check| check.name != name);
            definition.foreign_keys.retain(|key| key.name != name);
            found = before != count(definition);
            Ok(())
        })?;
        Ok(found)
    }

    /// Adds a column. Rows there get `fill`, one value of the column's type, or NULL where None.
    pub fn add_column(&mut self, schema: &str, table: &str, column: ColumnDef, fill: Option<ArrayRef>) -> Result<()> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        if definition.column_index(&column.name).is_some() {
            let message = format!("column \"{}\" of relation \"{table}\" already exists", column.name);
            return Err(StorageError::new(ErrorKind::DuplicateColumn, message));
        }
        let data_type = column.sql_type.data_type();
        let fill = match fill {
            Some(value) if value.len() == 1 => arrow::compute::cast(&value, &data_type)?,
            Some(_) => return Err(StorageError::internal("the fill of a new column is not one value")),
            None => arrow::array::new_null_array(&data_type, 1),
        };
        if column.not_null && fill.null_count() > 0 && current.rows() > 0 {
            let message = format!(
                "column \"{}\" of relation \"{table}\" contains null values",
                column.name
            );
            return Err(StorageError::new(ErrorKind::NotNullViolation, message));
        }
        definition.columns.push(column);
        let definition = definition.checked()?;
        let budget = self.database.budget().clone();
        let segments = current.segments().iter();
        let segments = segments.map(|segment| segment.with_column(&fill, &budget));
        let next = TableVersion::new(definition, segments.collect::<Result<_>>()?);
        self.rewritten(&current, next);
        Ok(())
    }

    /// Drops a column; one of a primary key or an index takes that with it.
    pub fn drop_column(&mut self, schema: &str, table: &str, column: &str) -> Result<()> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        let index = column_of(&definition, column)?;
        self.drop_owned_sequences(current.oid(), Some(column))?;
        self.column_renamed(current.oid(), column, None);
        self.drop_comment_of_column(current.oid(), index as u32 + 1);
        definition.columns.remove(index);
        definition.dictionaries.remove(index);
        definition.drop_from_indexes(index);
        definition.drop_from_foreign_keys(index);
        definition.forget_index_data();
        let segments = current
            .segments()
            .iter()
            .map(|segment| segment.without_column(index))
            .collect();
        let next = TableVersion::new(definition.checked()?, segments);
        self.rewritten(&current, next);
        Ok(())
    }

    /// RENAME CONSTRAINT. False where the table has none of that name.
    pub fn rename_constraint(&mut self, schema: &str, table: &str, name: &str, to: &str) -> Result<bool> {
        let current = self.table(schema, table)?;
        let definition = current.definition();
        if definition.constraints().any(|known| known == to) {
            let message = format!("constraint \"{to}\" for relation \"{table}\" already exists");
            return Err(StorageError::new(ErrorKind::DuplicateObject, message));
        }
        if definition.constraint_index(name).is_some() {
            self.rename_index(schema, name, to)?;
            return Ok(true);
        }
        let mut found = false;
        self.redefine(schema, table, |definition| {
            for check in definition.checks.iter_mut().filter(|check| check.name == name) {
                check.name = to.into();
                found = true;
            }
            for key in definition.foreign_keys.iter_mut().filter(|key| key.name == name) {
                key.name = to.into();
                found = true;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Changes what a column is declared with beside its name and its type.
    pub fn change_column(
        &mut self,
        schema: &str,
        table: &str,
        column: &str,
        change: impl FnOnce(&mut ColumnDef),
    ) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let index = column_of(definition, column)?;
            change(&mut definition.columns[index]);
            Ok(())
        })
    }

    /// Gives the table other columns in the places of those it has, and no rows: the caller writes them anew.
    pub fn retype(&mut self, schema: &str, table: &str, columns: Vec<ColumnDef>) -> Result<Arc<TableVersion>> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        definition.columns = columns;
        definition.dictionaries.clear();
        definition.forget_index_data();
        let next = TableVersion::new(definition.checked()?, Vec::new());
        self.rewritten(&current, next);
        self.table(schema, table)
    }

    /// Notes whether a materialized view has rows.
    pub fn set_populated(&mut self, schema: &str, table: &str, is_populated: bool) -> Result<()> {
        self.redefine(schema, table, |definition| {
            definition.is_populated = is_populated;
            Ok(())
        })
    }

    pub(super) fn redefine(
        &mut self,
        schema: &str,
        table: &str,
        change: impl FnOnce(&mut TableDefinition) -> Result<()>,
    ) -> Result<()> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        change(&mut definition)?;
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        Ok(())
    }
}

fn column_of(definition: &TableDefinition, column: &str) -> Result<usize> {
    definition
        .column_index(column)
        .ok_or_else(|| StorageError::undefined_column(&definition.name, column))
}
