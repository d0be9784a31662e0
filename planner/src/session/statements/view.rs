//! CREATE VIEW.

use super::create::{columns_of, target};
use super::{query, updatable};
use crate::catalog::bind::{fold, only};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::session::Session;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{self, CreateView};
use std::sync::Arc;
use tenon_storage::CheckOption;

pub(super) fn view(session: &mut Session, create: &CreateView) -> Result<Outcome> {
    session.check_writable("CREATE VIEW")?;
    let place = target(session, &create.name, create.temporary)?;
    let options = options(create)?;
    // What it reads is asked when it is read.
    let mut binder = session.binder();
    binder.describes = true;
    let mut source = create.query.clone();
    only::resolve(&binder, &mut source);
    super::qualify::query(&binder, &mut source);
    super::stars::spell_out(&binder, &mut source);
    let plan = query::plan(&binder, &source, &[])?;
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    let columns = columns_of(session.columns(&plan)?.as_arrow(), &given)?;
    session.binder().check_usage_by(&columns)?;
    let fields: Vec<_> = columns
        .iter()
        .map(|column| column.sql_type.field(&column.name, true))
        .collect();
    let (schema, sql) = (Arc::new(Schema::new(fields)), source.to_string());
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    if let Some(there) = transaction.state().relation(&place.schema, &place.name) {
        if create.if_not_exists {
            drop(transaction);
            session.notice(format!("relation \"{}\" already exists, skipping", place.name));
            return Ok(Outcome::Command("CREATE VIEW".into()));
        }
        if create.or_replace {
            binder.rights().check_owner(there)?;
        }
        if create.or_replace && there.as_table().is_none() {
            let old = there.columns().fields();
            let same = old.len() <= schema.fields().len()
                && old
                    .iter()
                    .zip(schema.fields())
                    .all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
            if !same {
                return Err(
                    SqlError::new(state::INVALID_TABLE_DEFINITION, "cannot change the columns of a view")
                        .hint("Drop the view and create it anew."),
                );
            }
        }
    }
    if create.or_replace {
        transaction.replace_view(&place.schema, &place.name, &sql, schema)?;
    } else {
        transaction.create_view(&place.schema, &place.name, &sql, schema)?;
    }
    transaction.set_view_options(&place.schema, &place.name, options)?;
    if let Some(option) = check_option(create)? {
        transaction.set_check_option(&place.schema, &place.name, option)?;
        drop(transaction);
        let binder = session.binder();
        let view = binder
            .snapshot
            .relation(&place.schema, &place.name)
            .and_then(|own| own.as_view());
        if let Some(view) = view {
            updatable::of(&binder, view, updatable::Use::Insert).map_err(|error| {
                let message = "WITH CHECK OPTION is supported only on automatically updatable views";
                let refused = SqlError::unsupported_as(message);
                match error.detail {
                    Some(detail) => refused.hint(detail),
                    None => refused,
                }
            })?;
        }
    }
    Ok(Outcome::Command("CREATE VIEW".into()))
}

/// Options that are true or false.
pub(super) const SWITCHES: [&str; 2] = ["security_barrier", "security_invoker"];

/// What is said of a switch, as it is kept.
pub(super) fn switched(name: &str, value: Option<&str>) -> Result<String> {
    let value = value.unwrap_or("true").trim_matches('\'').to_lowercase();
    match value.as_str() {
        "true" | "on" | "yes" | "1" | "false" | "off" | "no" | "0" => Ok(value),
        _ => {
            let message = format!("invalid value for boolean option \"{name}\": {value}");
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn options(create: &CreateView) -> Result<Vec<(String, String)>> {
    let ast::CreateTableOptions::With(given) = &create.options else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for option in given {
        if let ast::SqlOption::KeyValue { key, value } = option
            && let name = fold(key)
            && SWITCHES.contains(&name.as_str())
        {
            let value = switched(&name, Some(&value.to_string()))?;
            found.push((name, value));
        }
    }
    Ok(found)
}

/// WITH CHECK OPTION, as the clause or among the options in parentheses.
fn check_option(create: &CreateView) -> Result<Option<CheckOption>> {
    let mut said = create.comment.clone();
    if let ast::CreateTableOptions::With(options) = &create.options {
        for option in options {
            if let ast::SqlOption::KeyValue { key, value } = option
                && fold(key) == "check_option"
            {
                said = Some(value.to_string().trim_matches('\'').to_lowercase());
            }
        }
    }
    check_option_named(said.as_deref())
}

pub(super) fn check_option_named(said: Option<&str>) -> Result<Option<CheckOption>> {
    match said {
        None => Ok(None),
        Some("local") => Ok(Some(CheckOption::Local)),
        Some("cascaded") => Ok(Some(CheckOption::Cascaded)),
        Some(_) => Err(SqlError::new(
            state::INVALID_PARAMETER_VALUE,
            "invalid value for enum option \"check_option\"",
        )
        .detail("Valid values are \"local\" and \"cascaded\".")),
    }
}
