//! ENABLE and DISABLE TRIGGER.

use super::references;
use super::role::rights;
use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::definition::Triggers;
use crate::session::Session;
use tenon_storage::Relation;

pub(super) fn no_rule(name: &str, relation: &Relation) -> SqlError {
    let message = format!("rule \"{name}\" for relation \"{}\" does not exist", relation.name());
    SqlError::new(state::UNDEFINED_OBJECT, message)
}

/// ENABLE and DISABLE TRIGGER: the triggers that there are look after foreign keys.
pub(super) fn switch(session: &Session, relation: &Relation, on: bool, which: &Triggers) -> Result<()> {
    match which {
        Triggers::User => Ok(()),
        Triggers::Named(name) => {
            let message = format!(
                "trigger \"{}\" for table \"{}\" does not exist",
                fold(name),
                relation.name()
            );
            Err(SqlError::new(state::UNDEFINED_OBJECT, message))
        }
        Triggers::All => {
            let state_now = session.state();
            let table = relation.as_table();
            let concerned = table.filter(|table| references::concern(&state_now, table));
            let Some(table) = concerned else { return Ok(()) };
            if !rights(session, &state_now).acting.superuser {
                let own = table.definition().foreign_keys.first();
                let (side, oid) = own.map_or(("a", table.oid()), |key| ("c", key.oid));
                let message = format!("permission denied: \"RI_ConstraintTrigger_{side}_{oid}\" is a system trigger");
                return Err(crate::catalog::rights::refused(message));
            }
            session.transaction()?.lock().switch_references(table.oid(), on)?;
            Ok(())
        }
    }
}
