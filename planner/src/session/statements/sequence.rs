//! CREATE and ALTER SEQUENCE, and the sequences behind serial and identity columns.

use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::SequenceOptions;
use crate::pg::types::planner::sql_type;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use tenon_storage::{Sequence, SequenceDef, SequenceOwner, SqlType};

pub(super) fn create(
    session: &mut Session,
    name: &ObjectName,
    options: &SequenceOptions,
    temporary: bool,
    if_not_exists: bool,
) -> Result<Outcome> {
    let tag = || Ok(Outcome::Command("CREATE SEQUENCE".into()));
    session.check_writable("CREATE SEQUENCE")?;
    let place = super::create::target(session, name, temporary)?;
    if if_not_exists && session.state().relation(&place.schema, &place.name).is_some() {
        session.notice(format!("relation \"{}\" already exists, skipping", place.name));
        return tag();
    }
    let (def, _) = definition(options, None)?;
    let owner = owner(session, options, &place.schema)?.flatten();
    let transaction = session.transaction()?;
    transaction
        .lock()
        .create_sequence(&place.schema, &place.name, def, owner)?;
    tag()
}

pub(super) fn alter(
    session: &mut Session,
    name: &ObjectName,
    options: &SequenceOptions,
    if_exists: bool,
) -> Result<Outcome> {
    session.check_writable("ALTER SEQUENCE")?;
    let binder = session.binder();
    let tag = || Ok(Outcome::Command("ALTER SEQUENCE".into()));
    let relation = match binder.names().existing(name)? {
        Some(relation) => relation,
        None if if_exists => {
            let last = super::last(name);
            session.notice(format!("relation \"{last}\" does not exist, skipping"));
            return tag();
        }
        None => binder.names().relation(name)?,
    };
    let Some(sequence) = relation.as_sequence() else {
        let message = format!("\"{}\" is not a sequence", relation.name());
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
    };
    binder.rights().check_owner(relation)?;
    let owner = owner(session, options, &sequence.schema_name)?;
    if owner.is_some() && sequence.owner.as_ref().is_some_and(|owner| owner.identity) {
        return Err(
            SqlError::unsupported_as("cannot change ownership of identity sequence").detail(format!(
                "Sequence \"{}\" is linked to a table by an identity column.",
                sequence.name
            )),
        );
    }
    change(session, sequence, options, owner)?;
    tag()
}

/// Changes a sequence by options.
pub(super) fn change(
    session: &Session,
    sequence: &Arc<Sequence>,
    options: &SequenceOptions,
    owner: Option<Option<SequenceOwner>>,
) -> Result<()> {
    let (def, restart) = definition(options, Some(sequence))?;
    let owner = owner.unwrap_or_else(|| sequence.owner.clone());
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    let (schema, name) = (&sequence.schema_name, &sequence.name);
    let is_same = restart.is_none() && def == sequence.def;
    transaction.alter_sequence(schema, name, def, owner, restart)?;
    if is_same && options.says_more_than_owner() {
        transaction.recount_sequence(schema, name)?;
    }
    session.taken.lock().forget_ahead(sequence.oid);
    Ok(())
}

/// OWNED BY: `Some(None)` for NONE.
fn owner(session: &Session, options: &SequenceOptions, schema: &str) -> Result<Option<Option<SequenceOwner>>> {
    let name = match &options.owner {
        None => return Ok(None),
        Some(None) => return Ok(Some(None)),
        Some(Some(name)) => name,
    };
    let mut table = name.clone();
    let column = match (table.0.pop(), table.0.is_empty()) {
        (Some(column), false) => column.as_ident().map(fold).unwrap_or_default(),
        _ => {
            return Err(SqlError::new(state::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."));
        }
    };
    let binder = session.binder();
    let relation = binder.names().relation(&table)?;
    let Some(table) = relation.as_table() else {
        let message = format!("sequence cannot be owned by relation \"{}\"", relation.name());
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message)
            .detail(format!("This operation is not supported for {}s.", relation.kind())));
    };
    let definition = table.definition();
    if definition.schema_name != schema {
        let message = "sequence must be in same schema as table it is linked to";
        return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    if definition.column_index(&column).is_none() {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", definition.name);
        return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
    }
    Ok(Some(Some(SequenceOwner {
        table_oid: definition.oid,
        column,
        identity: false,
    })))
}

fn wrong<T>(message: String) -> Result<T> {
    Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
}

/// A sequence as the options make it of `before`, or of nothing, and where it is to start anew.
pub(super) fn definition(
    options: &SequenceOptions,
    before: Option<&Arc<Sequence>>,
) -> Result<(SequenceDef, Option<i64>)> {
    if options.repeated {
        return Err(SqlError::new(state::SYNTAX_ERROR, "conflicting or redundant options"));
    }
    if options.name.is_some() {
        return Err(SqlError::new(
            state::SYNTAX_ERROR,
            "invalid sequence option SEQUENCE NAME",
        ));
    }
    let old = before.map(|before| &before.def);
    let own_type = match &options.data_type {
        Some(declared) => match sql_type(declared)? {
            own @ (SqlType::Int2 | SqlType::Int4 | SqlType::Int8) => own,
            _ => return wrong("sequence type must be smallint, integer, or bigint".into()),
        },
        None => old.map_or(SqlType::Int8, |old| old.sql_type),
    };
    let increment = options.increment.or(old.map(|old| old.increment)).unwrap_or(1);
    if increment == 0 {
        return wrong("INCREMENT must not be zero".into());
    }
    let (least, greatest) = SequenceDef::type_range(own_type);
    // A limit that was the old type's follows the new type.
    let retyped = old.filter(|_| options.data_type.is_some());
    let old_range = retyped.map(|old| (old, SequenceDef::type_range(old.sql_type)));
    let up = increment > 0;
    let max = match (options.max, old) {
        (Some(Some(max)), _) => max,
        _ if old_range.is_some_and(|(old, (_, max))| old.max == max) => greatest,
        (None, Some(old)) => old.max,
        _ if up => greatest,
        _ => -1,
    };
    let min = match (options.min, old) {
        (Some(Some(min)), _) => min,
        _ if old_range.is_some_and(|(old, (min, _))| old.min == min) => least,
        (None, Some(old)) => old.min,
        _ if up => 1,
        _ => least,
    };
    let type_name = own_type.base_name();
    if !(least..=greatest).contains(&max) {
        return wrong(format!(
            "MAXVALUE ({max}) is out of range for sequence data type {type_name}"
        ));
    }
    if !(least..=greatest).contains(&min) {
        return wrong(format!(
            "MINVALUE ({min}) is out of range for sequence data type {type_name}"
        ));
    }
    if min >= max {
        return wrong(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    let start = options
        .start
        .or(old.map(|old| old.start))
        .unwrap_or(if up { min } else { max });
    let check = |what: &str, value: i64| match () {
        () if value < min => wrong(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")),
        () if value > max => wrong(format!(
            "{what} value ({value}) cannot be greater than MAXVALUE ({max})"
        )),
        () => Ok(()),
    };
    check("START", start)?;
    let restart = options.restart.map(|at| at.unwrap_or(start));
    match (restart, before) {
        (Some(at), _) => check("RESTART", at)?,
        (None, Some(before)) => check("RESTART", before.counter().last_value)?,
        (None, None) => {}
    }
    let cache = options.cache.or(old.map(|old| old.cache)).unwrap_or(1);
    if cache <= 0 {
        return wrong(format!("CACHE ({cache}) must be greater than zero"));
    }
    let def = SequenceDef {
        sql_type: own_type,
        start,
        increment,
        min,
        max,
        cache,
        cycle: options.cycle.or(old.map(|old| old.cycle)).unwrap_or(false),
    };
    Ok((def, restart))
}

/// The type of a serial column.
pub(super) fn serial_type(name: &str) -> Option<SqlType> {
    Some(match name {
        "smallserial" | "serial2" => SqlType::Int2,
        "serial" | "serial4" => SqlType::Int4,
        "bigserial" | "serial8" => SqlType::Int8,
        _ => return None,
    })
}

/// A name for a column's sequence that nothing in the schema has.
pub(super) fn free_name(session: &Session, schema: &str, table: &str, column: &str) -> String {
    let state = session.state();
    let is_free = |name: &str| state.relation(schema, name).is_none() && state.index(schema, name).is_none();
    tenon_storage::default_name(table, &[column], "seq", is_free)
}
