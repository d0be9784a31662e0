//! Views: made, replaced, and checked by.

use super::Transaction;
use crate::catalog::rights::Secured;
use crate::catalog::state::{CheckOption, Relation, View};
use crate::error::{ErrorKind, Result, StorageError};
use crate::types::SqlType;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
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

    /// Another text for the query of a view, or of a materialized one, that gives the same.
    pub fn set_query(&mut self, schema: &str, name: &str, sql: &str) -> Result<()> {
        match self.relation(schema, name)? {
            Relation::Table(_) => self.redefine(schema, name, |definition| {
                definition.query = Some(sql.into());
                Ok(())
            }),
            relation => {
                if let Relation::View(view) = &relation {
                    self.touch(&relation).rewritten = true;
                    self.put(Relation::View(Arc::new(View {
                        sql: sql.into(),
                        ..(**view).clone()
                    })));
                }
                Ok(())
            }
        }
    }

    pub fn rename_view_column(&mut self, schema: &str, name: &str, column: &str, to: &str) -> Result<()> {
        let relation = self.relation(schema, name)?;
        let Relation::View(view) = &relation else {
            return Err(StorageError::new(
                ErrorKind::WrongObjectType,
                format!("\"{name}\" is not a view"),
            ));
        };
        let Ok(at) = view.schema.index_of(column) else {
            let message = format!("column \"{column}\" does not exist");
            return Err(StorageError::new(ErrorKind::UndefinedColumn, message));
        };
        if view.schema.index_of(to).is_ok() {
            let message = format!("column \"{to}\" of relation \"{name}\" already exists");
            return Err(StorageError::new(ErrorKind::DuplicateColumn, message));
        }
        let fields = view.schema.fields().iter().enumerate();
        let fields: Vec<Field> = fields
            .map(|(index, field)| match index == at {
                true => field.as_ref().clone().with_name(to),
                false => field.as_ref().clone(),
            })
            .collect();
        let columns = Arc::new(Schema::new_with_metadata(fields, view.schema.metadata().clone()));
        self.touch(&relation).rewritten = true;
        self.put(Relation::View(Arc::new(View {
            schema: columns,
            ..(**view).clone()
        })));
        Ok(())
    }

    /// Columns of views are of the types that `other` gives in the place of theirs: a type that they name was altered.
    pub fn retype_views(&mut self, other: &dyn Fn(SqlType) -> Option<SqlType>) {
        let views: Vec<Relation> = self.state.relations().cloned().collect();
        for relation in views {
            let Relation::View(view) = &relation else { continue };
            let mut changed = false;
            let fields = view.schema.fields().iter().map(|field| {
                let next = SqlType::from_field(field).and_then(other);
                changed |= next.is_some();
                next.map_or_else(
                    || field.clone(),
                    |next| Arc::new(next.field(field.name(), field.is_nullable())),
                )
            });
            let fields: Vec<FieldRef> = fields.collect();
            if changed {
                let schema = Arc::new(Schema::new_with_metadata(fields, view.schema.metadata().clone()));
                self.touch(&relation).rewritten = true;
                self.put(Relation::View(Arc::new(View {
                    schema,
                    ..(**view).clone()
                })));
            }
        }
    }

    /// The other options of a view that is there.
    pub fn set_view_options(&mut self, schema: &str, name: &str, options: Vec<(String, String)>) -> Result<()> {
        self.change_view(schema, name, |view| view.options = options)
    }

    /// WITH CHECK OPTION of a view that is there.
    pub fn set_check_option(&mut self, schema: &str, name: &str, check_option: CheckOption) -> Result<()> {
        self.change_view(schema, name, |view| view.check_option = check_option)
    }

    fn change_view(&mut self, schema: &str, name: &str, change: impl FnOnce(&mut View)) -> Result<()> {
        let relation = self.relation(schema, name)?;
        if let Relation::View(view) = &relation {
            self.touch(&relation).rewritten = true;
            let mut view = (**view).clone();
            change(&mut view);
            self.put(Relation::View(Arc::new(view)));
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
        options: Vec::new(),
    }))
}
