//! `information_schema` (SQL standard part 11): relations, their columns and constraints; which columns each view has is in
//! `information_columns.txt`.
//!
//! More than 400 lines because it is a table of views, a few lines each.

use super::indexes::ShownIndex;
use super::relations::{Column, collation_name, columns, relations, shown_default, stored};
use super::rights;
use super::rows::{self, Row, row};
use super::shown_text::shown_text;
use super::{checks, data_types, dependencies, foreign_keys, routines};
use crate::catalog::bind::Binder;
use crate::catalog::through::{self, Through, Use};
use datafusion::datasource::TableProvider;
use datafusion::error::Result;
use std::sync::Arc;
use tenon_storage::{CheckOption, Deferral, Generated, Relation, Sequence, SqlType};

/// The views, each with its columns.
const COLUMNS: &str = include_str!("information_columns.txt");

/// A view of the information schema; None: no such view.
pub(super) fn table(binder: &Binder, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(columns) = rows::listed(COLUMNS, name) else {
        return Ok(None);
    };
    let rows = rows_of(binder, name, binder.facts.info.database.as_str());
    let made = rows::table(&rows::schema(&columns), &[], &rows)?;
    Ok(Some(made))
}

/// None of what there is nothing of: triggers, foreign tables, transforms, and what functions use.
fn rows_of(binder: &Binder, name: &str, database: &str) -> Vec<Row> {
    match name {
        "information_schema_catalog_name" => vec![row! { "catalog_name": database }],
        "schemata" => schemata(binder, database),
        "tables" => relations(binder)
            .filter(|relation| matches!(relation.kind(), "table" | "view"))
            .filter(|relation| rights::is_accessible(binder, relation))
            .map(|relation| relation_row(binder, relation, database))
            .collect(),
        "views" => views(binder, database),
        "columns" => all_columns(binder, database),
        "table_privileges" => rights::table_privileges(binder, database, true),
        "role_table_grants" => rights::table_privileges(binder, database, false),
        "column_privileges" => rights::column_privileges(binder, database, true),
        "role_column_grants" => rights::column_privileges(binder, database, false),
        "table_constraints" => ShownIndex::constraints(binder)
            .map(|key| constraint(&key, database))
            .chain(foreign_keys::table_constraints(binder, database))
            .chain(checks::table_constraints(binder, database))
            .collect(),
        "check_constraints" => checks::clauses(binder, database),
        "key_column_usage" => key_columns(binder, database)
            .into_iter()
            .chain(foreign_keys::key_columns(binder, database))
            .collect(),
        "sequences" => sequences(binder, database),
        "referential_constraints" => foreign_keys::referential(binder, database),
        "constraint_column_usage" => key_columns(binder, database)
            .into_iter()
            .chain(foreign_keys::used_columns(binder, database))
            .chain(checks::used_columns(binder, database))
            .collect(),
        "constraint_table_usage" => tables_of_constraints(binder, database),
        "character_sets" => vec![row! {
            "character_set_name": "UTF8",
            "character_repertoire": "UCS",
            "form_of_use": "UTF8",
            "default_collate_catalog": database,
            "default_collate_schema": super::PG_CATALOG,
            "default_collate_name": "C.UTF-8",
        }],
        "collations" | "collation_character_set_applicability" => collations(database),
        "enabled_roles" | "applicable_roles" | "administrable_role_authorizations" => rights::own_roles(binder, name),
        "usage_privileges" | "role_usage_grants" => {
            rights::usage_privileges(binder, database, name == "usage_privileges")
        }
        "udt_privileges" | "role_udt_grants" => rights::type_privileges(binder, database, name == "udt_privileges"),
        "routine_privileges" | "role_routine_grants" => {
            rights::routine_privileges(binder, database, name == "routine_privileges")
        }
        "view_table_usage" => usage_of_views(binder, database, false),
        "view_column_usage" => usage_of_views(binder, database, true),
        "routines" => routines::routines(binder, database),
        "parameters" => routines::parameters(binder, database),
        other => data_types::rows(binder, other, database),
    }
}

pub(super) fn yes_or_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

fn schemata(binder: &Binder, database: &str) -> Vec<Row> {
    let system = [super::PG_CATALOG, super::INFORMATION_SCHEMA];
    let names = system
        .into_iter()
        .chain(binder.snapshot.schemas().map(|(name, _)| name));
    let schema_owner = |name: &str| {
        let oid = binder
            .snapshot
            .schema(name)
            .map_or(super::PG_CATALOG_OID, |schema| schema.oid);
        rights::owner(binder, oid)
    };
    let schema = |name| {
        row! { "catalog_name": database, "schema_name": name, "schema_owner": schema_owner(name) }
    };
    names.map(schema).collect()
}

fn relation_row(binder: &Binder, relation: &Relation, database: &str) -> Row {
    let table = relation.as_table().is_some() || relation.as_partition().is_some();
    let temporary = relation.schema_name().starts_with("pg_temp_");
    row! {
        "table_catalog": database,
        "table_schema": relation.schema_name(),
        "table_name": relation.name(),
        "table_type": if temporary { "LOCAL TEMPORARY" } else if table { "BASE TABLE" } else { "VIEW" },
        "is_insertable_into": yes_or_no(
            table || relation.as_view().is_some_and(|view| through::is_updatable(binder, view)),
        ),
        "is_typed": "NO",
    }
}

fn views(binder: &Binder, database: &str) -> Vec<Row> {
    let view = |relation: &Relation| match relation {
        Relation::View(view) => Some(row! {
            "table_catalog": database,
            "table_schema": view.schema_name.as_str(),
            "table_name": view.name.as_str(),
            "view_definition": view.sql.as_str(),
            "check_option": match view.check_option {
                CheckOption::None => "NONE",
                CheckOption::Local => "LOCAL",
                CheckOption::Cascaded => "CASCADED",
            },
            "is_updatable": yes_or_no(through::is_updatable(binder, view)),
            "is_insertable_into": yes_or_no(through::is_updatable(binder, view)),
            "is_trigger_updatable": "NO",
            "is_trigger_deletable": "NO",
            "is_trigger_insertable_into": "NO",
        }),
        Relation::Table(_) | Relation::Sequence(_) | Relation::Partition(_) => None,
    };
    relations(binder).filter_map(view).collect()
}

fn all_columns(binder: &Binder, database: &str) -> Vec<Row> {
    let mut out = Vec::new();
    let shown = relations(binder).filter(|relation| matches!(relation.kind(), "table" | "view"));
    for relation in shown.filter(|relation| rights::is_accessible(binder, relation)) {
        // Of a view those that are columns of its table.
        let through = relation
            .as_view()
            .map(|view| through::of(binder, view, Use::Update).ok());
        let is_plain = |through: &Through, at: usize| {
            let column = through.columns.get(at);
            column.is_some_and(|(_, value)| through::plain(value).is_some())
        };
        for (number, column) in columns(binder, relation).iter().enumerate() {
            let is_updatable = match &through {
                Some(through) => through.as_ref().is_some_and(|through| is_plain(through, number)),
                None => true,
            };
            let mut row = column_row(binder, relation, number, column, is_updatable, database);
            if let Some(sequence) = binder.snapshot.identity(relation.oid(), column.name) {
                row.extend(row! {
                    "identity_start": sequence.def.start.to_string(),
                    "identity_increment": sequence.def.increment.to_string(),
                    "identity_maximum": sequence.def.max.to_string(),
                    "identity_minimum": sequence.def.min.to_string(),
                });
            }
            out.push(row);
        }
    }
    out
}

fn sequences(binder: &Binder, database: &str) -> Vec<Row> {
    let own = relations(binder).filter_map(Relation::as_sequence);
    let shown = own.filter(|sequence| !sequence.owner.as_ref().is_some_and(|owner| owner.identity));
    let sequence = |own: &Arc<Sequence>| {
        row! {
            "sequence_catalog": database,
            "sequence_schema": own.schema_name.as_str(),
            "sequence_name": own.name.as_str(),
            "data_type": own.def.sql_type.base_name(),
            "numeric_precision": match own.def.sql_type {
                SqlType::Int2 => 16,
                SqlType::Int4 => 32,
                _ => 64,
            },
            "numeric_precision_radix": 2,
            "numeric_scale": 0,
            "start_value": own.def.start.to_string(),
            "minimum_value": own.def.min.to_string(),
            "maximum_value": own.def.max.to_string(),
            "increment": own.def.increment.to_string(),
            "cycle_option": yes_or_no(own.def.cycle),
        }
    };
    shown.map(sequence).collect()
}

fn column_row(
    binder: &Binder,
    relation: &Relation,
    number: usize,
    column: &Column<'_>,
    is_updatable: bool,
    database: &str,
) -> Row {
    let is_computed = column.generated == Some(Generated::Stored);
    let is_identity = column.generated.is_some() && !is_computed;
    let mut row = row! {
        "table_catalog": database,
        "table_schema": relation.schema_name(),
        "table_name": relation.name(),
        "column_name": column.name,
        "ordinal_position": number as i64 + 1,
        "column_default": column
            .default
            .filter(|_| column.generated.is_none())
            .map(|default| shown_default(binder, column.sql_type, default)),
        "is_nullable": yes_or_no(!column.not_null),
        "domain_catalog": column.domain.map(|_| database.to_string()),
        "domain_schema": column.domain.map(|(schema, _)| schema.clone()),
        "domain_name": column.domain.map(|(_, name)| name.clone()),
        "dtd_identifier": (number + 1).to_string(),
        "is_self_referencing": "NO",
        "is_identity": yes_or_no(is_identity),
        "identity_generation": match column.generated {
            Some(Generated::Always) => Some("ALWAYS"),
            Some(Generated::ByDefault) => Some("BY DEFAULT"),
            _ => None,
        }
        .map(str::to_string),
        "identity_cycle": "NO",
        "is_generated": if is_computed { "ALWAYS" } else { "NEVER" },
        "generation_expression": column.default.filter(|_| is_computed).map(|text| generated_as(&shown_text(binder, text))),
        "is_updatable": yes_or_no(is_updatable),
    };
    let collation = collation_name(column);
    row.extend(data_types::described(binder, column.sql_type, collation, database));
    row
}

fn constraint(key: &ShownIndex<'_>, database: &str) -> Row {
    let schema = key.relation.schema_name();
    row! {
        "constraint_catalog": database,
        "constraint_schema": schema,
        "constraint_name": key.name,
        "table_catalog": database,
        "table_schema": schema,
        "table_name": key.relation.name(),
        "constraint_type": if key.is_primary() { "PRIMARY KEY" } else { "UNIQUE" },
        "is_deferrable": yes_or_no(key.deferral() != Deferral::Never),
        "initially_deferred": yes_or_no(key.deferral() == Deferral::Deferred),
        "enforced": "YES",
        "nulls_distinct": (!key.is_primary()).then(|| yes_or_no(!key.nulls_not_distinct()).to_string()),
    }
}

/// The tables that keys are of, and those that foreign keys reference.
fn tables_of_constraints(binder: &Binder, database: &str) -> Vec<Row> {
    let mut out = Vec::new();
    let mut add = |(table_schema, table): (&str, &str), name: &str, schema: &str| {
        out.push(row! {
            "table_catalog": database,
            "table_schema": table_schema,
            "table_name": table,
            "constraint_catalog": database,
            "constraint_schema": schema,
            "constraint_name": name,
        });
    };
    for key in ShownIndex::constraints(binder) {
        let schema = key.relation.schema_name();
        add((schema, key.relation.name()), key.name, schema);
    }
    for table in stored(binder) {
        for key in &table.definition().foreign_keys {
            if let Some(referenced) = binder.snapshot.table_by_oid(key.references) {
                let place = (referenced.definition().schema_name.as_str(), referenced.name());
                add(place, &key.name, &table.definition().schema_name);
            }
        }
    }
    out
}

fn collations(database: &str) -> Vec<Row> {
    let row = |own: &crate::pg::collations::Collation| {
        row! {
            "collation_catalog": database,
            "collation_schema": super::PG_CATALOG,
            "collation_name": own.name,
            "pad_attribute": "NO PAD",
            "character_set_name": "UTF8",
        }
    };
    crate::pg::collations::ALL.iter().map(row).collect()
}

/// The tables that views read, or which of their columns.
fn usage_of_views(binder: &Binder, database: &str, of_columns: bool) -> Vec<Row> {
    let mut out = Vec::new();
    for view in relations(binder).filter_map(Relation::as_view) {
        for read in dependencies::reads(binder, &view.sql) {
            let Some(relation) = binder.snapshot.relation_by_oid(read) else {
                continue;
            };
            let row = row! {
                "view_catalog": database,
                "view_schema": view.schema_name.as_str(),
                "view_name": view.name.as_str(),
                "table_catalog": database,
                "table_schema": relation.schema_name(),
                "table_name": relation.name(),
            };
            if !of_columns {
                out.push(row);
                continue;
            }
            for column in dependencies::columns_read(binder, view, relation) {
                let mut row = row.clone();
                row.extend(row! { "column_name": column });
                out.push(row);
            }
        }
    }
    out
}

fn key_columns(binder: &Binder, database: &str) -> Vec<Row> {
    let mut out = Vec::new();
    for key in ShownIndex::constraints(binder) {
        let schema = key.relation.schema_name();
        for (number, column) in key.key_columns().into_iter().enumerate() {
            out.push(row! {
                "constraint_catalog": database,
                "constraint_schema": schema,
                "constraint_name": key.name,
                "table_catalog": database,
                "table_schema": schema,
                "table_name": key.relation.name(),
                "column_name": column,
                "ordinal_position": number as i64 + 1,
            });
        }
    }
    out
}

/// An expression as PostgreSQL shows it: a number stands bare.
fn generated_as(text: &str) -> String {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.into(),
        false => format!("({text})"),
    }
}
