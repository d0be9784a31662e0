//! Functions of this database as `pg_proc` and the functions that print definitions show them.

use super::regnames::RegType;
use super::relations::{schema_oid, shown_default};
use super::rights;
use super::rows::{Row, Value, row};
use super::shown_text::shown_text;
use super::system_types;
use crate::catalog::bind::{Binder, parsed_type};
use std::fmt::Write;
use std::sync::Arc;
use tenon_storage::{Function, FunctionResult, Object, Secured, quote};

/// As `pg_language` numbers them.
const SQL: i64 = 14;
const PLPGSQL: i64 = 13_637;
/// As `pg_type` does.
const RECORD: u32 = 2249;

pub(super) fn functions(binder: &Binder) -> impl Iterator<Item = &Arc<Function>> {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Function(own) => Some(own),
        _ => None,
    })
}

pub(super) fn function(binder: &Binder, oid: i64) -> Option<&Arc<Function>> {
    functions(binder).find(|own| i64::from(own.oid) == oid)
}

fn type_oid(binder: &Binder, declared: &str) -> u32 {
    let found = RegType::Type.oid(binder, declared);
    found.or_else(|| system_types::by_name(declared)).unwrap_or_default()
}

pub(super) fn type_name(binder: &Binder, declared: &str) -> String {
    match type_oid(binder, declared) {
        0 => declared.to_string(),
        oid => match system_types::by_oid(oid).filter(|_| RegType::Type.name(binder, oid.into()) == oid.to_string()) {
            Some(pseudo) => pseudo.name.clone(),
            None => RegType::Type.name(binder, oid.into()),
        },
    }
}

/// An argument, or a column of the result: its mode, name, type, and default.
pub(super) struct Parameter<'a> {
    pub mode: char,
    pub name: Option<&'a str>,
    pub sql_type: &'a str,
    default: Option<&'a str>,
}

pub(super) fn parameters(of: &Function) -> Vec<Parameter<'_>> {
    let mut arguments = of.arguments.iter();
    if of.parameters.is_empty() {
        let plain = arguments.map(|own| Parameter {
            mode: 'i',
            name: own.name.as_deref(),
            sql_type: &own.sql_type,
            default: own.default.as_deref(),
        });
        return plain.collect();
    }
    let all = of.parameters.iter().map(|own| Parameter {
        mode: own.mode,
        name: own.name.as_deref(),
        sql_type: &own.sql_type,
        default: match own.mode {
            'i' | 'b' | 'v' => arguments.next().and_then(|own| own.default.as_deref()),
            _ => None,
        },
    });
    all.collect()
}

fn gives_set(of: &Function) -> bool {
    match of.returns {
        FunctionResult::Scalar(_) => false,
        FunctionResult::Set(_) => true,
        FunctionResult::Table(_) => !of.options.one_row,
    }
}

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    functions(binder).map(|own| proc(binder, own)).collect()
}

fn proc(binder: &Binder, of: &Arc<Function>) -> Row {
    let all = parameters(of);
    let inputs = || all.iter().filter(|own| matches!(own.mode, 'i' | 'b' | 'v'));
    let oid = |own: &Parameter<'_>| type_oid(binder, own.sql_type);
    let oids: Vec<i64> = inputs().map(|own| oid(own).into()).collect();
    let is_plain = all.iter().all(|own| own.mode == 'i');
    let has_names = all.iter().any(|own| own.name.is_some());
    let variadic = all.iter().find(|own| own.mode == 'v').map(|own| {
        let array = oid(own);
        let element = system_types::by_oid(array).map(|of| of.element);
        element
            .or_else(|| super::types::element_of(binder, array))
            .unwrap_or_default()
    });
    let defaults: Vec<String> = inputs().filter_map(|own| default(binder, own)).collect();
    let is_set = gives_set(of);
    row! {
        "oid": of.oid,
        "proname": of.name.as_str(),
        "pronamespace": schema_oid(binder, &of.schema_name),
        "proowner": binder.snapshot.owner(of.oid),
        "prolang": if of.language == "sql" { SQL } else { PLPGSQL },
        "procost": of.options.cost.unwrap_or(100.0),
        "prorows": of.options.rows.unwrap_or(if is_set { 1000.0 } else { 0.0 }),
        "provariadic": variadic.unwrap_or_default(),
        "prosupport": "-",
        "prokind": "f",
        "prosecdef": of.options.security_definer,
        "proleakproof": of.options.leakproof,
        "proisstrict": of.strict,
        "proretset": is_set,
        "provolatile": of.volatility.to_string(),
        "proparallel": of.options.parallel.unwrap_or('u').to_string(),
        "pronargs": inputs().count() as i64,
        "pronargdefaults": defaults.len() as i64,
        "prorettype": match &of.returns {
            FunctionResult::Scalar(name) | FunctionResult::Set(name) => type_oid(binder, name),
            FunctionResult::Table(columns) => match columns.as_slice() {
                [(_, only)] => type_oid(binder, only),
                _ => RECORD,
            },
        },
        "proargtypes": Value::Numbers(oids),
        "proallargtypes": match is_plain {
            true => Value::Null,
            false => Value::Numbers(all.iter().map(|own| oid(own).into()).collect()),
        },
        "proargmodes": match is_plain {
            true => Value::Null,
            false => Value::Texts(all.iter().map(|own| own.mode.to_string()).collect()),
        },
        "proargnames": match has_names {
            false => Value::Null,
            true => Value::Texts(all.iter().map(|own| own.name.unwrap_or_default().to_string()).collect()),
        },
        "proargdefaults": (!defaults.is_empty()).then(|| defaults.join(", ")),
        "prosrc": of.body.as_str(),
        "proconfig": match of.options.settings.as_slice() {
            [] => Value::Null,
            all => Value::Texts(all.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        },
        "proacl": rights::acl(binder, Secured::Function, of.oid),
    }
}

/// A default as it is printed.
pub(super) fn default(binder: &Binder, own: &Parameter<'_>) -> Option<String> {
    let text = own.default?;
    let declared = parsed_type(own.sql_type).ok();
    let sql_type = declared.and_then(|declared| binder.sql_type(&declared).ok());
    Some(match sql_type {
        Some(of) => shown_default(binder, of, text),
        None => shown_text(binder, text),
    })
}

fn one(binder: &Binder, own: &Parameter<'_>, with_default: bool) -> String {
    let mode = match own.mode {
        'o' => "OUT ",
        'b' => "INOUT ",
        'v' => "VARIADIC ",
        _ => "",
    };
    let name = own.name.map(|name| quote::identifier(name) + " ").unwrap_or_default();
    let mut out = format!("{mode}{name}{}", type_name(binder, own.sql_type));
    if let Some(default) = default(binder, own).filter(|_| with_default) {
        let _ = write!(out, " DEFAULT {default}");
    }
    out
}

/// What a `regprocedure` is shown as.
pub(super) fn signature(binder: &Binder, oid: i64) -> Option<String> {
    let all = parameters(function(binder, oid)?);
    let inputs = all.iter().filter(|own| matches!(own.mode, 'i' | 'b' | 'v'));
    let types: Vec<String> = inputs.map(|own| type_name(binder, own.sql_type)).collect();
    Some(format!("{}({})", RegType::Proc.name(binder, oid), types.join(",")))
}

/// `pg_get_function_arguments`, or without defaults `pg_get_function_identity_arguments`.
pub(super) fn arguments(binder: &Binder, oid: i64, with_defaults: bool) -> Option<String> {
    let all = parameters(function(binder, oid)?);
    let shown = all.iter().filter(|own| own.mode != 't');
    Some(
        shown
            .map(|own| one(binder, own, with_defaults))
            .collect::<Vec<_>>()
            .join(", "),
    )
}

/// `pg_get_function_arg_default`
pub(super) fn argument_default(binder: &Binder, oid: i64, at: i64) -> Option<String> {
    let all = parameters(function(binder, oid)?);
    let mut inputs = all.iter().filter(|own| matches!(own.mode, 'i' | 'b' | 'v'));
    default(binder, inputs.nth(usize::try_from(at).ok()?.checked_sub(1)?)?)
}

/// `pg_get_function_result`
pub(super) fn result(binder: &Binder, oid: i64) -> Option<String> {
    let of = function(binder, oid)?;
    let all = parameters(of);
    Some(match &of.returns {
        FunctionResult::Scalar(name) => type_name(binder, name),
        FunctionResult::Set(name) => format!("SETOF {}", type_name(binder, name)),
        FunctionResult::Table(_) if all.iter().any(|own| own.mode == 't') => {
            let columns = all.iter().filter(|own| own.mode == 't');
            let columns: Vec<String> = columns.map(|own| one(binder, own, false)).collect();
            format!("TABLE({})", columns.join(", "))
        }
        FunctionResult::Table(columns) if of.parameters.is_empty() => {
            let columns = columns
                .iter()
                .map(|(name, declared)| format!("{} {}", quote::identifier(name), type_name(binder, declared)));
            format!("TABLE({})", columns.collect::<Vec<_>>().join(", "))
        }
        FunctionResult::Table(_) if of.options.one_row => "record".into(),
        FunctionResult::Table(_) => "SETOF record".into(),
    })
}

/// `pg_get_functiondef`
pub(super) fn definition(binder: &Binder, oid: i64) -> Option<String> {
    let of = function(binder, oid)?;
    let mut out = format!(
        "CREATE OR REPLACE FUNCTION {}.{}({})\n RETURNS {}\n LANGUAGE {}\n",
        quote::identifier(&of.schema_name),
        quote::identifier(&of.name),
        arguments(binder, oid, true)?,
        result(binder, oid)?,
        quote::identifier(&of.language),
    );
    let options = &of.options;
    let mut said = String::new();
    match of.volatility {
        'i' => said.push_str(" IMMUTABLE"),
        's' => said.push_str(" STABLE"),
        _ => {}
    }
    match options.parallel {
        Some('s') => said.push_str(" PARALLEL SAFE"),
        Some('r') => said.push_str(" PARALLEL RESTRICTED"),
        _ => {}
    }
    for (on, words) in [
        (of.strict, " STRICT"),
        (options.security_definer, " SECURITY DEFINER"),
        (options.leakproof, " LEAKPROOF"),
    ] {
        said.push_str(if on { words } else { "" });
    }
    if let Some(cost) = options.cost.filter(|cost| *cost != 100.0) {
        let _ = write!(said, " COST {cost}");
    }
    if let Some(rows) = options.rows.filter(|rows| *rows != 1000.0) {
        let _ = write!(said, " ROWS {rows}");
    }
    if !said.is_empty() {
        let _ = writeln!(out, "{said}");
    }
    for (name, value) in &options.settings {
        let lists = [
            "search_path",
            "temp_tablespaces",
            "session_preload_libraries",
            "local_preload_libraries",
        ];
        let shown = match lists.contains(&name.as_str()) {
            true => value
                .split(',')
                .map(|own| quote::literal(own.trim()))
                .collect::<Vec<_>>()
                .join(", "),
            false => quote::literal(value),
        };
        let _ = writeln!(out, " SET {name} TO {shown}");
    }
    let mut mark = "function".to_string();
    while of.body.contains(&format!("${mark}")) {
        mark.push('x');
    }
    let _ = writeln!(out, "AS ${mark}${}${mark}$", of.body);
    Some(out)
}
