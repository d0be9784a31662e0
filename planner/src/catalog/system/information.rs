//! `information_schema` (SQL standard part 11), as far as tools read it.
//!
//! More than 400 lines because it is a table of views, a few lines each.

use super::relations::{Column, collation_name, columns, keyed, relations, shown_default};
use super::rights;
use super::rows::{self, Row, row};
use super::{checks, foreign_keys, names};
use crate::catalog::bind::Binder;
use datafusion::datasource::TableProvider;
use datafusion::error::Result;
use std::sync::Arc;
use tenon_storage::range::RangeType;
use tenon_storage::{CheckOption, Generated, Index, Relation, Sequence, SqlType, TableVersion};

const TABLE_PRIVILEGES: [(&str, &str); 8] = [
    ("grantor", "text"),
    ("grantee", "text"),
    ("table_catalog", "text"),
    ("table_schema", "text"),
    ("table_name", "text"),
    ("privilege_type", "text"),
    ("is_grantable", "text"),
    ("with_hierarchy", "text"),
];

/// A view of the information schema; None: no such view.
pub(super) fn table(binder: &Binder, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let database = binder.facts.info.database.as_str();
    let (columns, rows): (&[(&str, &str)], Vec<Row>) = match name {
        "schemata" => (
            &[
                ("catalog_name", "text"),
                ("schema_name", "text"),
                ("schema_owner", "text"),
            ],
            schemata(binder, database),
        ),
        "tables" => (
            &[
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("table_type", "text"),
                ("self_referencing_column_name", "text"),
                ("reference_generation", "text"),
                ("is_insertable_into", "text"),
                ("is_typed", "text"),
                ("commit_action", "text"),
            ],
            relations(binder)
                .filter(|relation| matches!(relation.kind(), "table" | "view"))
                .filter(|relation| rights::is_accessible(binder, relation))
                .map(|relation| relation_row(binder, relation, database))
                .collect(),
        ),
        "table_privileges" | "role_table_grants" => (
            &TABLE_PRIVILEGES,
            rights::table_privileges(binder, database, name == "table_privileges"),
        ),
        "column_privileges" => (
            &[
                ("grantor", "text"),
                ("grantee", "text"),
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("column_name", "text"),
                ("privilege_type", "text"),
                ("is_grantable", "text"),
            ],
            rights::column_privileges(binder, database),
        ),
        "views" => (
            &[
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("view_definition", "text"),
                ("check_option", "text"),
                ("is_updatable", "text"),
                ("is_insertable_into", "text"),
            ],
            views(binder, database),
        ),
        "columns" => (
            &[
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("column_name", "text"),
                ("ordinal_position", "int"),
                ("column_default", "text"),
                ("is_nullable", "text"),
                ("data_type", "text"),
                ("character_maximum_length", "int"),
                ("character_octet_length", "int"),
                ("numeric_precision", "int"),
                ("numeric_precision_radix", "int"),
                ("numeric_scale", "int"),
                ("datetime_precision", "int"),
                ("collation_catalog", "text"),
                ("collation_schema", "text"),
                ("collation_name", "text"),
                ("udt_catalog", "text"),
                ("udt_schema", "text"),
                ("udt_name", "text"),
                ("is_identity", "text"),
                ("identity_generation", "text"),
                ("identity_start", "text"),
                ("identity_increment", "text"),
                ("identity_maximum", "text"),
                ("identity_minimum", "text"),
                ("identity_cycle", "text"),
                ("is_generated", "text"),
                ("generation_expression", "text"),
                ("is_updatable", "text"),
            ],
            all_columns(binder, database),
        ),
        "table_constraints" => (
            &[
                ("constraint_catalog", "text"),
                ("constraint_schema", "text"),
                ("constraint_name", "text"),
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("constraint_type", "text"),
                ("is_deferrable", "text"),
                ("initially_deferred", "text"),
                ("enforced", "text"),
            ],
            keyed(binder)
                .map(|(table, key)| constraint(table, key, database))
                .chain(foreign_keys::table_constraints(binder, database))
                .chain(checks::table_constraints(binder, database))
                .collect(),
        ),
        "check_constraints" => (
            &[
                ("constraint_catalog", "text"),
                ("constraint_schema", "text"),
                ("constraint_name", "text"),
                ("check_clause", "text"),
            ],
            checks::clauses(binder, database),
        ),
        "key_column_usage" => (
            &[
                ("constraint_catalog", "text"),
                ("constraint_schema", "text"),
                ("constraint_name", "text"),
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("column_name", "text"),
                ("ordinal_position", "int"),
                ("position_in_unique_constraint", "int"),
            ],
            key_columns(binder, database)
                .into_iter()
                .chain(foreign_keys::key_columns(binder, database))
                .collect(),
        ),
        "sequences" => (
            &[
                ("sequence_catalog", "text"),
                ("sequence_schema", "text"),
                ("sequence_name", "text"),
                ("data_type", "text"),
                ("numeric_precision", "int"),
                ("numeric_precision_radix", "int"),
                ("numeric_scale", "int"),
                ("start_value", "text"),
                ("minimum_value", "text"),
                ("maximum_value", "text"),
                ("increment", "text"),
                ("cycle_option", "text"),
            ],
            sequences(binder, database),
        ),
        "referential_constraints" => (
            &[
                ("constraint_catalog", "text"),
                ("constraint_schema", "text"),
                ("constraint_name", "text"),
                ("unique_constraint_catalog", "text"),
                ("unique_constraint_schema", "text"),
                ("unique_constraint_name", "text"),
                ("match_option", "text"),
                ("update_rule", "text"),
                ("delete_rule", "text"),
            ],
            foreign_keys::referential(binder, database),
        ),
        "constraint_column_usage" => (
            &[
                ("table_catalog", "text"),
                ("table_schema", "text"),
                ("table_name", "text"),
                ("column_name", "text"),
                ("constraint_catalog", "text"),
                ("constraint_schema", "text"),
                ("constraint_name", "text"),
            ],
            key_columns(binder, database)
                .into_iter()
                .chain(foreign_keys::used_columns(binder, database))
                .chain(checks::used_columns(binder, database))
                .collect(),
        ),
        "routines" => (
            &[
                ("routine_schema", "text"),
                ("routine_name", "text"),
                ("routine_type", "text"),
            ],
            Vec::new(),
        ),
        "character_sets" => (
            &[("character_set_name", "text")],
            vec![row! { "character_set_name": "UTF8" }],
        ),
        _ => return Ok(None),
    };
    let made = rows::table(&rows::schema(columns), &[], &rows)?;
    Ok(Some(made))
}

fn yes_or_no(yes: bool) -> &'static str {
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
            table || relation.as_view().is_some_and(|view| crate::catalog::through::is_updatable(binder, view)),
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
            "is_updatable": yes_or_no(crate::catalog::through::is_updatable(binder, view)),
            "is_insertable_into": yes_or_no(crate::catalog::through::is_updatable(binder, view)),
        }),
        Relation::Table(_) | Relation::Sequence(_) | Relation::Partition(_) => None,
    };
    relations(binder).filter_map(view).collect()
}

fn all_columns(binder: &Binder, database: &str) -> Vec<Row> {
    let mut out = Vec::new();
    let shown = relations(binder).filter(|relation| matches!(relation.kind(), "table" | "view"));
    for relation in shown.filter(|relation| rights::is_accessible(binder, relation)) {
        for (number, column) in columns(relation).iter().enumerate() {
            let mut row = column_row(binder, relation, number, column, database);
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

fn column_row(binder: &Binder, relation: &Relation, number: usize, column: &Column<'_>, database: &str) -> Row {
    let of = column.sql_type;
    let characters = match of {
        SqlType::VarcharOf(length) | SqlType::CharOf(length) => Some(i64::from(length)),
        _ => None,
    };
    let bits = match of {
        SqlType::BitOf(length) | SqlType::VarBitOf(length) => Some(i64::from(length)),
        _ => None,
    };
    // Precision, its radix and scale.
    let number_format = match of {
        SqlType::Int2 => Some((16, 2, Some(0))),
        SqlType::Int4 => Some((32, 2, Some(0))),
        SqlType::Int8 => Some((64, 2, Some(0))),
        SqlType::Float4 => Some((24, 2, None)),
        SqlType::Float8 => Some((53, 2, None)),
        SqlType::NumericOf(precision, scale) => Some((i64::from(precision), 10, Some(i64::from(scale)))),
        SqlType::NumericWide(precision, scale) => Some((i64::from(precision), 10, Some(i64::from(scale)))),
        _ => None,
    };
    let fraction = match of {
        SqlType::Date => Some(0_i64),
        of if of.is_temporal() => Some(of.seconds_digits().map_or(6, i64::from)),
        _ => None,
    };
    let is_computed = column.generated == Some(Generated::Stored);
    let is_identity = column.generated.is_some() && !is_computed;
    let collation = collation_name(column);
    row! {
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
        "data_type": match of {
            SqlType::Array(_) => Some("ARRAY".to_string()),
            SqlType::Enum(_)
            | SqlType::Composite(_)
            | SqlType::Range(RangeType::User(_))
            | SqlType::Multirange(RangeType::User(_)) => Some("USER-DEFINED".to_string()),
            _ => names::format_type(of.oid().into(), None),
        },
        "character_maximum_length": characters.or(bits),
        "character_octet_length": characters.map(|characters| characters * 4),
        "numeric_precision": number_format.map(|(precision, _, _)| precision),
        "numeric_precision_radix": number_format.map(|(_, radix, _)| radix),
        "numeric_scale": number_format.and_then(|(_, _, scale)| scale),
        "datetime_precision": fraction,
        "collation_catalog": collation.map(|_| database.to_string()),
        "collation_schema": collation.map(|_| super::PG_CATALOG.to_string()),
        "collation_name": collation.map(str::to_string),
        "udt_catalog": database,
        "udt_schema": match of {
            SqlType::Enum(of) => of.schema_name.as_str(),
            SqlType::Range(RangeType::User(of)) | SqlType::Multirange(RangeType::User(of)) => of.schema_name.as_str(),
            SqlType::Composite(of) => of.schema_name(),
            SqlType::Array(array) if let SqlType::Composite(of) = array.element() => of.schema_name(),
            _ => super::PG_CATALOG,
        },
        "udt_name": udt_name(of),
        "is_identity": yes_or_no(is_identity),
        "identity_generation": match column.generated {
            Some(Generated::Always) => Some("ALWAYS"),
            Some(Generated::ByDefault) => Some("BY DEFAULT"),
            _ => None,
        }
        .map(str::to_string),
        "identity_cycle": "NO",
        "is_generated": if is_computed { "ALWAYS" } else { "NEVER" },
        "generation_expression": column.default.filter(|_| is_computed).map(generated_as),
        "is_updatable": yes_or_no(relation.as_table().is_some()),
    }
}

/// `pg_type.typname`.
fn udt_name(of: SqlType) -> &'static str {
    match of {
        SqlType::Bool => "bool",
        SqlType::Int2 => "int2",
        SqlType::Int4 => "int4",
        SqlType::Int8 => "int8",
        SqlType::Float4 => "float4",
        SqlType::Float8 => "float8",
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => "numeric",
        SqlType::Text => "text",
        SqlType::Name => "name",
        SqlType::Varchar | SqlType::VarcharOf(_) => "varchar",
        SqlType::CharOf(_) => "bpchar",
        SqlType::Date => "date",
        SqlType::Time | SqlType::TimeOf(_) => "time",
        SqlType::TimeTz | SqlType::TimeTzOf(_) => "timetz",
        SqlType::Timestamp | SqlType::TimestampOf(_) => "timestamp",
        SqlType::TimestampTz | SqlType::TimestampTzOf(_) => "timestamptz",
        SqlType::Interval | SqlType::IntervalOf(..) => "interval",
        SqlType::Enum(of) => &of.name,
        SqlType::Composite(of) => of.name(),
        SqlType::Bytea => "bytea",
        SqlType::Uuid => "uuid",
        SqlType::Json => "json",
        SqlType::Jsonb => "jsonb",
        SqlType::Bit | SqlType::BitOf(_) => "bit",
        SqlType::VarBit | SqlType::VarBitOf(_) => "varbit",
        SqlType::Inet | SqlType::Cidr | SqlType::MacAddr | SqlType::MacAddr8 | SqlType::Tid => of.base_name(),
        SqlType::Range(_) | SqlType::Multirange(_) => of.base_name(),
        SqlType::Array(of) => match of.element().unlimited() {
            SqlType::Bool => "_bool",
            SqlType::Int2 => "_int2",
            SqlType::Int4 => "_int4",
            SqlType::Int8 => "_int8",
            SqlType::Float4 => "_float4",
            SqlType::Float8 => "_float8",
            SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => "_numeric",
            SqlType::Name => "_name",
            SqlType::Varchar | SqlType::VarcharOf(_) => "_varchar",
            SqlType::CharOf(_) => "_bpchar",
            SqlType::Date => "_date",
            SqlType::Time => "_time",
            SqlType::TimeTz => "_timetz",
            SqlType::Timestamp => "_timestamp",
            SqlType::TimestampTz => "_timestamptz",
            SqlType::Interval => "_interval",
            SqlType::Bytea => "_bytea",
            SqlType::Uuid => "_uuid",
            SqlType::Json => "_json",
            SqlType::Jsonb => "_jsonb",
            SqlType::Bit => "_bit",
            SqlType::VarBit => "_varbit",
            SqlType::Inet => "_inet",
            SqlType::Cidr => "_cidr",
            SqlType::MacAddr => "_macaddr",
            SqlType::MacAddr8 => "_macaddr8",
            SqlType::Tid => "_tid",
            SqlType::Range(of) => of.array_type_names().0,
            SqlType::Multirange(of) => of.array_type_names().1,
            SqlType::Enum(of) => &of.array_type_name,
            SqlType::Composite(of) => &of.array_type_name,
            _ => "_text",
        },
    }
}

fn constraint(table: &TableVersion, key: &Index, database: &str) -> Row {
    let schema = table.definition().schema_name.as_str();
    row! {
        "constraint_catalog": database,
        "constraint_schema": schema,
        "constraint_name": key.name.as_str(),
        "table_catalog": database,
        "table_schema": schema,
        "table_name": table.name(),
        "constraint_type": if key.is_primary() { "PRIMARY KEY" } else { "UNIQUE" },
        "is_deferrable": "NO",
        "initially_deferred": "NO",
        "enforced": "YES",
    }
}

fn key_columns(binder: &Binder, database: &str) -> Vec<Row> {
    let mut out = Vec::new();
    for (table, key) in keyed(binder) {
        let schema = table.definition().schema_name.as_str();
        for (number, at) in key.columns.iter().enumerate() {
            out.push(row! {
                "constraint_catalog": database,
                "constraint_schema": schema,
                "constraint_name": key.name.as_str(),
                "table_catalog": database,
                "table_schema": schema,
                "table_name": table.name(),
                "column_name": table.definition().columns[*at].name.as_str(),
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
