//! The views of `information_schema` that are about functions.

use super::data_types::{Typed, described};
use super::information::yes_or_no;
use super::procs::{self, Parameter};
use super::rows::{Row, row};
use crate::catalog::bind::{Binder, parsed_type};
use std::sync::Arc;
use tenon_storage::{Function, FunctionResult, Secured, SqlType, privilege};

/// Functions that the role may call.
fn shown(binder: &Binder) -> impl Iterator<Item = &Arc<Function>> {
    let rights = binder.rights();
    procs::functions(binder).filter(move |own| {
        let granted = rights
            .state
            .granted(rights.acting.role, Secured::Function, own.oid, privilege::EXECUTE);
        rights.owns(own.oid) || granted != 0
    })
}

/// The name that no other function has.
pub(super) fn specific_name(of: &Function) -> String {
    format!("{}_{}", of.name, of.oid)
}

fn type_of(binder: &Binder, declared: &str) -> Option<SqlType> {
    let declared = parsed_type(declared).ok()?;
    match binder.domain_of(&declared) {
        Some(domain) => Some(domain.base),
        None => binder.sql_type(&declared).ok(),
    }
}

/// How a type is called; without lengths and precisions, which functions do not keep.
fn called(binder: &Binder, declared: &str, database: &str) -> Row {
    let named = ["data_type", "udt_catalog", "udt_schema", "udt_name"];
    let domain = parsed_type(declared)
        .ok()
        .and_then(|declared| binder.domain_of(&declared));
    match (domain, type_of(binder, declared)) {
        (Some(domain), _) => row! {
            "data_type": "USER-DEFINED",
            "udt_catalog": database,
            "udt_schema": domain.schema_name.as_str(),
            "udt_name": domain.name.as_str(),
        },
        (None, Some(of)) => {
            let mut row = described(binder, of, None, database);
            row.retain(|(column, _)| named.contains(column));
            row
        }
        (None, None) => {
            let name = procs::type_name(binder, declared);
            row! {
                "data_type": name.as_str(),
                "udt_catalog": database,
                "udt_schema": super::PG_CATALOG,
                "udt_name": name.as_str(),
            }
        }
    }
}

/// The type of what one call gives, or of each of its rows.
fn result(of: &Function) -> &str {
    match &of.returns {
        FunctionResult::Scalar(name) | FunctionResult::Set(name) => name,
        FunctionResult::Table(columns) => match columns.as_slice() {
            [(_, only)] => only,
            _ => "record",
        },
    }
}

pub(super) fn routines(binder: &Binder, database: &str) -> Vec<Row> {
    let routine = |of: &Arc<Function>| {
        let owned = binder.rights().owns(of.oid);
        let mut row = row! {
            "specific_catalog": database,
            "specific_schema": of.schema_name.as_str(),
            "specific_name": specific_name(of),
            "routine_catalog": database,
            "routine_schema": of.schema_name.as_str(),
            "routine_name": of.name.as_str(),
            "routine_type": "FUNCTION",
            "dtd_identifier": "0",
            "routine_body": if of.language == "sql" { "SQL" } else { "EXTERNAL" },
            "routine_definition": owned.then(|| of.body.clone()),
            "external_language": of.language.to_uppercase(),
            "parameter_style": "GENERAL",
            "is_deterministic": yes_or_no(of.volatility == 'i'),
            "sql_data_access": "MODIFIES",
            "is_null_call": yes_or_no(of.strict),
            "schema_level_routine": "YES",
            "max_dynamic_result_sets": 0_i64,
            "security_type": if of.options.security_definer { "DEFINER" } else { "INVOKER" },
            "as_locator": "NO",
            "is_udt_dependent": "NO",
        };
        for (column, value) in called(binder, result(of), database) {
            let column = match column {
                "udt_catalog" => "type_udt_catalog",
                "udt_schema" => "type_udt_schema",
                "udt_name" => "type_udt_name",
                other => other,
            };
            row.push((column, value));
        }
        row
    };
    shown(binder).map(routine).collect()
}

pub(super) fn parameters(binder: &Binder, database: &str) -> Vec<Row> {
    let parameters = |of: &Arc<Function>| -> Vec<Row> {
        let all = procs::parameters(of);
        let parameter = |(at, own): (usize, &Parameter<'_>)| {
            let mut row = row! {
                "specific_catalog": database,
                "specific_schema": of.schema_name.as_str(),
                "specific_name": specific_name(of),
                "ordinal_position": at as i64 + 1,
                "parameter_mode": match own.mode {
                    'o' | 't' => "OUT",
                    'b' => "INOUT",
                    _ => "IN",
                },
                "is_result": "NO",
                "as_locator": "NO",
                "parameter_name": own.name.map(str::to_string),
                "dtd_identifier": (at + 1).to_string(),
                "parameter_default": procs::default(binder, own),
            };
            row.extend(called(binder, own.sql_type, database));
            row
        };
        all.iter().enumerate().map(parameter).collect()
    };
    shown(binder).flat_map(parameters).collect()
}

/// What of functions has types.
pub(super) fn typed(binder: &Binder) -> Vec<Typed> {
    let mut out = Vec::new();
    for of in shown(binder) {
        let one = |identifier: String, declared: &str| Typed {
            schema: of.schema_name.clone(),
            name: specific_name(of),
            kind: "ROUTINE",
            identifier,
            sql_type: type_of(binder, declared),
        };
        out.push(one("0".into(), result(of)));
        let all = procs::parameters(of);
        out.extend(
            all.iter()
                .enumerate()
                .map(|(at, own)| one((at + 1).to_string(), own.sql_type)),
        );
    }
    out
}
