//! Views: made, replaced, and checked by.

use super::Transaction;
use crate::catalog::rights::Secured;
use crate::catalog::state::{CheckOption, Relation, View};
use crate::error::{ErrorKind, Result, StorageError};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

impl Transaction {
    pub fn create_view(&mut self, schema: &str, name: &str, sql: &str, columns: SchemaRef) -> Result<()> {
        self.check_free(schema, name)?;
        let oid = self.database.new_oid();
        self.touch_created(oid);
        self.put(view(oid, schema, name, sql, columns));
        self.own_relation(schema, oid, Secured::Table);
        Ok(())
    }

    /// CREATE OR REPLACE VIEW: keeps the oid of a view that is there.
    pub fn replace_view(&mut self, schema: &str, name: &str, sql: &str, columns: SchemaRef) -> Result<()> {
        let Some(relation) = self.state.relation(schema, name).cloned() else {
            return self.create_view(schema, name, sql, columns);
        };
        let Relation::View(_) = &relation else {
            return Err(StorageError::new(
                ErrorKind::WrongObjectType,
                format!("\"{name}\" is not a view"),
            ));
        };
        let oid = relation.oid();
        self.touch(&relation).rewritten = true;
        self.put(view(oid, schema, name, sql, columns));
        Ok(())
    }

    /// WITH CHECK OPTION of a view that is there.
    pub fn set_check_option(&mut self, schema: &str, name: &str, check_option: CheckOption) -> Result<()> {
        let relation = self.relation(schema, name)?;
        if let Relation::View(view) = &relation {
            self.touch(&relation).rewritten = true;
            self.put(Relation::View(Arc::new(View {
                check_option,
                ..(**view).clone()
            })));
        }
        Ok(())
    }
}

fn view(oid: u32, schema: &str, name: &str, sql: &str, columns: SchemaRef) -> Relation {
    Relation::View(Arc::new(View {
        oid,
        schema_name: schema.into(),
        name: name.into(),
        sql: sql.into(),
        schema: columns,
        check_option: CheckOption::None,
    }))
}
