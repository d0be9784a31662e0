//! Statements that the SQL parser does not know.

use super::{
    alter, anonymous, comment, domain, enums, extension, function, function_alter, grant, materialized, owner,
    references, role, schema_name, sequence, table_locks, types,
};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{self, Definition};
use crate::session::Session;

pub(super) async fn run(session: &mut Session, definition: &Definition) -> Result<Outcome> {
    match definition {
        Definition::CreateSequence {
            temporary,
            if_not_exists,
            name,
            options,
        } => sequence::create(session, name, options, *temporary, *if_not_exists),
        Definition::AlterSequence {
            if_exists,
            name,
            options,
        } => sequence::alter(session, name, options, *if_exists),
        Definition::Do { language, body } => anonymous::run(session, language, body).await,
        Definition::CreateFunction(function) => function::create(session, function),
        Definition::AlterFunction {
            tag,
            name,
            arguments,
            change,
        } => function_alter::alter(session, tag, name, arguments.as_deref(), change),
        Definition::RenameSchema(from, to) => schema_name::rename(session, from, to).await,
        Definition::DropFunction {
            if_exists,
            names,
            cascade,
        } => function::drop_all(session, names, *if_exists, *cascade),
        Definition::CreateDomain(domain) => domain::create(session, domain),
        Definition::AlterDomain { name, action } => domain::alter(session, name, action).await,
        Definition::DropDomain {
            if_exists,
            names,
            cascade,
        } => domain::drop(session, names, *if_exists, *cascade),
        Definition::CreateType { name, of } => types::create(session, name, of),
        Definition::AlterType { name, change } => enums::alter(session, name, change).await,
        Definition::DropType {
            if_exists,
            names,
            cascade,
        } => types::drop(session, names, *if_exists, *cascade).await,
        Definition::Alter(alter) => alter::run(session, alter).await,
        Definition::Comment(comment) => comment::on(session, comment),
        Definition::Refresh { name, with_data } => materialized::refresh(session, name, *with_data).await,
        Definition::DropAbsent(drop) => drop_absent(session, drop),
        Definition::Lock(asked) => table_locks::run(session, asked).await,
        Definition::Role { tag, change } => role::change(session, change, tag),
        Definition::Extension(change) => extension::change(session, change),
        Definition::Grant(statement) => grant::run(session, statement),
        Definition::DefaultRights(statement) => grant::defaults(session, statement),
        Definition::OwnerTo { tag, of, to } => owner::change(session, tag, of, to),
        Definition::Owned { of, to, cascade } => Box::pin(owner::owned(session, of, to.as_ref(), *cascade)).await,
        Definition::Refused(what) => Err(SqlError::unsupported(what)),
        Definition::SetConstraints { names, deferred } => {
            references::set_constraints(session, names.as_deref(), *deferred)
        }
    }
}

fn drop_absent(session: &mut Session, drop: &definition::DropAbsent) -> Result<Outcome> {
    if let (Some(relation), false) = (&drop.relation, drop.if_exists) {
        session.binder().names().textual(relation)?;
    }
    for object in &drop.objects {
        if !drop.if_exists {
            let state = if drop.is_function {
                state::UNDEFINED_FUNCTION
            } else {
                state::UNDEFINED_OBJECT
            };
            return Err(SqlError::new(state, format!("{object} does not exist")));
        }
        session.notice(format!("{object} does not exist, skipping"));
    }
    Ok(Outcome::Command(drop.tag.clone()))
}
