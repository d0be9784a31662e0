//! `CREATE TABLE ... (LIKE table INCLUDING ...)`: what a new table takes from others, where the parser has left its mark
//! (`parse::like`).

use super::declared::OwnSequence;
use super::sequence;
use crate::catalog::bind::{Binder, Target};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::like::MARK;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::index_key_name;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{ColumnDef as Declared, DataType, ForeignKeyConstraint};
use tenon_storage::{
    Check, ColumnDef, Deferral, ExpressionIndex, Generated, IndexDef, IndexKind, IndexShown, Object, ObjectKey,
    Relation, TableDef, TableDefinition, privilege,
};

/// What LIKE takes over beside names, types and NOT NULL.
#[derive(Clone, Copy, Debug, Default)]
struct Including {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

/// The table and the options that a column stands for; None: it is a column.
fn marked(column: &Declared) -> Option<(String, Including)> {
    let DataType::Custom(name, words) = &column.data_type else {
        return None;
    };
    if super::last(name) != MARK {
        return None;
    }
    let words: Vec<String> = words.iter().map(|word| word.trim_matches('\'').to_string()).collect();
    let (name, options) = words.split_first()?;
    let mut including = Including::default();
    for pair in options.chunks(2) {
        let [verb, what] = pair else { continue };
        let on = verb == "including";
        match what.as_str() {
            "comments" => including.comments = on,
            "constraints" => including.constraints = on,
            "defaults" => including.defaults = on,
            "generated" => including.generated = on,
            "identity" => including.identity = on,
            "indexes" => including.indexes = on,
            "all" => {
                including = Including {
                    comments: on,
                    constraints: on,
                    defaults: on,
                    generated: on,
                    identity: on,
                    indexes: on,
                }
            }
            _ => {}
        }
    }
    Some((name.replace("''", "'"), including))
}

/// What the new table gets once it is there, from others or declared.
#[derive(Default)]
pub(super) struct Taken {
    pub sequences: Vec<OwnSequence>,
    /// Of the new table itself: what they reference may be the table.
    pub foreign_keys: Vec<ForeignKeyConstraint>,
    /// Plain and unique indexes: those of constraints are in the definition.
    pub indexes: Vec<IndexDef>,
    pub expression_indexes: Vec<ExpressionIndex>,
    /// Names of columns with what is said of them.
    pub comments: Vec<(String, Object)>,
    /// The columns of keys with when these are checked.
    pub deferred: Vec<(Vec<String>, Deferral)>,
    /// What is shown of the primary key: INCLUDE's columns and the rest.
    pub primary_key: Option<(Vec<String>, IndexShown)>,
}

/// Expands a column that stands for LIKE into a definition. False where it is an ordinary column.
pub(super) fn expand(
    session: &Session,
    column: &Declared,
    place: &Target,
    into: &mut TableDef,
    taken: &mut Taken,
) -> Result<bool> {
    let Some((name, including)) = marked(column) else {
        return Ok(false);
    };
    let binder = session.binder();
    let relation = binder.names().textual(&name)?;
    if relation.as_sequence().is_some() {
        let message = format!("relation \"{}\" is invalid in LIKE clause", relation.name());
        return Err(
            SqlError::new(state::WRONG_OBJECT_TYPE, message).detail("This operation is not supported for sequences.")
        );
    }
    binder.rights().check(relation, privilege::SELECT)?;
    match relation.as_table() {
        Some(table) => of_table(session, &binder, table.definition(), including, place, into, taken)?,
        None => into.columns.extend(super::create::columns_of(relation.columns(), &[])?),
    }
    if including.comments {
        comments(&binder, relation, taken);
    }
    Ok(true)
}

fn of_table(
    session: &Session,
    binder: &Binder,
    source: &TableDefinition,
    including: Including,
    place: &Target,
    into: &mut TableDef,
    taken: &mut Taken,
) -> Result<()> {
    for column in &source.columns {
        let keeps = match column.generated {
            Some(Generated::Stored) => including.generated,
            Some(_) => including.identity,
            None => including.defaults,
        };
        let mut own = ColumnDef {
            default: column.default.clone().filter(|_| keeps),
            generated: column.generated.filter(|_| keeps),
            ..column.clone()
        };
        if let Some(identity) = binder
            .snapshot
            .identity(source.oid, &column.name)
            .filter(|_| own.generated.is_some())
        {
            taken.sequences.push(OwnSequence {
                column: own.name.clone(),
                name: sequence::free_name(session, &place.schema, &place.name, &own.name),
                def: identity.def.clone(),
                identity: true,
            });
        }
        own.not_null = column.not_null;
        into.columns.push(own);
    }
    if including.constraints {
        into.checks.extend(source.checks.iter().map(|check| Check {
            comment: check.comment.clone().filter(|_| including.comments),
            ..check.clone()
        }));
    }
    if !including.indexes {
        return Ok(());
    }
    for index in source.all_indexes() {
        let def = source.index_def(index);
        let columns: Vec<String> = def.columns.iter().map(|(name, _)| name.clone()).collect();
        taken.deferred.push((columns.clone(), index.deferral));
        match index.kind {
            IndexKind::Primary if into.primary_key.is_empty() => {
                into.primary_key = columns;
                taken.primary_key = Some((def.include, def.shown));
            }
            IndexKind::Primary => {
                let message = format!("multiple primary keys for table \"{}\" are not allowed", place.name);
                return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
            }
            IndexKind::Constraint => into.unique.push(def),
            _ => taken.indexes.push(def),
        }
    }
    taken
        .expression_indexes
        .extend(source.expression_indexes.iter().cloned());
    Ok(())
}

fn comments(binder: &Binder, relation: &Relation, taken: &mut Taken) {
    for (at, field) in relation.columns().fields().iter().enumerate() {
        let key = ObjectKey::Comment {
            oid: relation.oid(),
            column: at as u32 + 1,
        };
        if let Some(comment) = binder.snapshot.objects().get(&key) {
            taken.comments.push((field.name().clone(), comment.clone()));
        }
    }
}

impl Taken {
    /// What needs the table to be there.
    pub(super) fn finish(self, session: &Session, table: &tenon_storage::TableVersion) -> Result<()> {
        let definition = table.definition();
        for own in self.sequences {
            own.create(session, table)?;
        }
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        for index in self.indexes {
            transaction.create_index(&definition.schema_name, &definition.name, index)?;
        }
        for index in self.expression_indexes {
            let names = index.keys.iter().map(|key| Ok(index_key_name(&parse_expression(key)?)));
            let mut names = names.collect::<Result<Vec<_>>>()?;
            names.extend(index.include.iter().cloned());
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let index = ExpressionIndex {
                name: String::new(),
                ..index
            };
            transaction.create_expression_index(&definition.schema_name, &definition.name, index, &names)?;
        }
        for (column, comment) in self.comments {
            if let Some(at) = definition.column_index(&column) {
                let key = ObjectKey::Comment {
                    oid: definition.oid,
                    column: at as u32 + 1,
                };
                transaction.put_object(key, Some(comment));
            }
        }
        Ok(())
    }
}
