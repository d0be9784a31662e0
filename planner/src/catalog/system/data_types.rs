//! The views of `information_schema` that are about types: domains, composite types, the items of arrays, and which types
//! columns, domains and attributes have.

use super::information::yes_or_no;
use super::relations::{Column, columns, relations};
use super::rows::{Row, row};
use super::shown_text::shown_text;
use super::{checks, names, rights, routines};
use crate::catalog::bind::{Binder, parsed_type};
use std::sync::Arc;
use tenon_storage::range::RangeType;
use tenon_storage::{Composite, Domain, Object, Relation, SqlType};

pub(super) fn rows(binder: &Binder, view: &str, database: &str) -> Vec<Row> {
    match view {
        "domains" => domains(binder).map(|of| domain(binder, of, database)).collect(),
        "domain_constraints" => checks::of_domains(binder, database),
        "domain_udt_usage" => domains(binder)
            .map(|of| usage_of_domain(binder, of, database))
            .collect(),
        "column_domain_usage" => usage_by_columns(binder, database, true),
        "column_udt_usage" => usage_by_columns(binder, database, false),
        "attributes" => composites(binder)
            .flat_map(|of| attributes(binder, of, database))
            .collect(),
        "user_defined_types" => composites(binder).map(|of| user_type(of, database)).collect(),
        "element_types" => all(binder)
            .into_iter()
            .filter_map(|own| element(binder, own, database))
            .collect(),
        "data_type_privileges" => all(binder).into_iter().map(|own| privilege(own, database)).collect(),
        _ => Vec::new(),
    }
}

fn domains(binder: &Binder) -> impl Iterator<Item = &Arc<Domain>> {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Domain(of) => Some(of),
        _ => None,
    })
}

fn composites(binder: &Binder) -> impl Iterator<Item = &Arc<Composite>> {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Composite(of) => Some(of),
        _ => None,
    })
}

/// How a type is called, and of what size its values are.
pub(super) fn described(binder: &Binder, of: SqlType, collation: Option<&str>, database: &str) -> Row {
    let characters = match of {
        SqlType::VarcharOf(length) | SqlType::CharOf(length) => Some(i64::from(length)),
        _ => None,
    };
    let bits = match of {
        SqlType::BitOf(length) | SqlType::VarBitOf(length) => Some(i64::from(length)),
        _ => None,
    };
    let octets = match of {
        SqlType::Text | SqlType::Varchar => Some(1 << 30),
        _ => characters.map(|characters| characters * 4),
    };
    // Precision, its radix and scale.
    let number_format = match of {
        SqlType::Int2 => Some((16, 2, Some(0))),
        SqlType::Int4 => Some((32, 2, Some(0))),
        SqlType::Int8 => Some((64, 2, Some(0))),
        SqlType::Float4 => Some((24, 2, None)),
        SqlType::Float8 => Some((53, 2, None)),
        SqlType::Numeric => Some((0, 10, None)),
        SqlType::NumericOf(precision, scale) => Some((i64::from(precision), 10, Some(i64::from(scale)))),
        SqlType::NumericWide(precision, scale) => Some((i64::from(precision), 10, Some(i64::from(scale)))),
        _ => None,
    };
    let fraction = match of {
        SqlType::Date => Some(0_i64),
        of if of.is_temporal() => Some(of.seconds_digits().map_or(6, i64::from)),
        _ => None,
    };
    let collation = collation.map(str::to_string);
    row! {
        "data_type": match of {
            SqlType::Array(_) => Some("ARRAY".to_string()),
            SqlType::Enum(_)
            | SqlType::Composite(_)
            | SqlType::Range(RangeType::User(_))
            | SqlType::Multirange(RangeType::User(_)) => Some("USER-DEFINED".to_string()),
            _ => names::format_type(of.oid().into(), None),
        },
        "character_maximum_length": characters.or(bits),
        "character_octet_length": octets,
        "numeric_precision": number_format.map(|(precision, _, _)| precision).filter(|precision| *precision > 0),
        "numeric_precision_radix": number_format.map(|(_, radix, _)| radix),
        "numeric_scale": number_format.and_then(|(_, _, scale)| scale),
        "datetime_precision": fraction,
        "interval_type": interval(of),
        "collation_catalog": collation.as_ref().map(|_| database.to_string()),
        "collation_schema": collation.as_ref().map(|_| super::PG_CATALOG.to_string()),
        "collation_name": collation,
        "udt_catalog": database,
        "udt_schema": udt_schema(binder, of),
        "udt_name": udt_name(of),
    }
}

/// The fields of an interval that are kept: `DAY TO SECOND(2)`.
fn interval(of: SqlType) -> Option<String> {
    let SqlType::IntervalOf(..) = of else { return None };
    let shown = names::format_type(of.oid().into(), Some(of.typmod().into()))?;
    let fields = shown.strip_prefix("interval ")?;
    Some(fields.to_uppercase())
}

fn udt_schema(binder: &Binder, of: SqlType) -> &'static str {
    match of {
        SqlType::Enum(of) => of.schema_name.as_str(),
        // A column's own may be from before it was moved.
        SqlType::Range(RangeType::User(of)) | SqlType::Multirange(RangeType::User(of)) => binder
            .range_of_oid(of.oid)
            .map_or(&of.schema_name, |(now, _)| &now.schema_name),
        SqlType::Composite(of) => of.schema_name(),
        SqlType::Array(array) => udt_schema(binder, array.element()),
        _ => super::PG_CATALOG,
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
        SqlType::CharOf(_) | SqlType::Bpchar => "bpchar",
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
            SqlType::CharOf(_) | SqlType::Bpchar => "_bpchar",
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

fn domain(binder: &Binder, of: &Arc<Domain>, database: &str) -> Row {
    let mut row = row! {
        "domain_catalog": database,
        "domain_schema": of.schema_name.as_str(),
        "domain_name": of.name.as_str(),
        "domain_default": of.default.as_deref().map(|text| shown_text(binder, text)),
        "dtd_identifier": "1",
    };
    row.extend(described(binder, of.base, None, database));
    row
}

fn usage_of_domain(binder: &Binder, of: &Arc<Domain>, database: &str) -> Row {
    row! {
        "udt_catalog": database,
        "udt_schema": udt_schema(binder, of.base),
        "udt_name": udt_name(of.base),
        "domain_catalog": database,
        "domain_schema": of.schema_name.as_str(),
        "domain_name": of.name.as_str(),
    }
}

/// The columns of tables and views.
fn all_columns(binder: &Binder) -> impl Iterator<Item = (&Relation, Vec<Column<'_>>)> {
    let shown = relations(binder).filter(|relation| matches!(relation.kind(), "table" | "view"));
    let shown = shown.filter(|relation| rights::is_accessible(binder, relation));
    shown.map(|relation| (relation, columns(binder, relation)))
}

fn usage_by_columns(binder: &Binder, database: &str, of_domains: bool) -> Vec<Row> {
    let mut out = Vec::new();
    for (relation, columns) in all_columns(binder) {
        for column in columns {
            let mut row = match (of_domains, column.domain) {
                (false, _) => row! {
                    "udt_catalog": database,
                    "udt_schema": udt_schema(binder, column.sql_type),
                    "udt_name": udt_name(column.sql_type),
                },
                (true, Some((schema, name))) => row! {
                    "domain_catalog": database,
                    "domain_schema": schema.as_str(),
                    "domain_name": name.as_str(),
                },
                (true, None) => continue,
            };
            row.extend(row! {
                "table_catalog": database,
                "table_schema": relation.schema_name(),
                "table_name": relation.name(),
                "column_name": column.name,
            });
            out.push(row);
        }
    }
    out
}

/// The type of a composite type's column, and its domain.
fn attribute_type(binder: &Binder, declared: &str) -> Option<(SqlType, Option<Arc<Domain>>)> {
    let declared = parsed_type(declared).ok()?;
    match binder.domain_of(&declared) {
        Some(domain) => Some((domain.base, Some(domain))),
        None => Some((binder.sql_type(&declared).ok()?, None)),
    }
}

fn attributes(binder: &Binder, of: &Arc<Composite>, database: &str) -> Vec<Row> {
    let attribute = |(at, (name, declared)): (usize, &(String, String))| {
        let (sql_type, domain) = attribute_type(binder, declared)?;
        let mut own = described(binder, sql_type, None, database);
        if let Some(domain) = &domain {
            own.retain(|(column, _)| !["data_type", "udt_schema", "udt_name"].contains(column));
            own.extend(row! {
                "data_type": "USER-DEFINED",
                "udt_schema": domain.schema_name.as_str(),
                "udt_name": domain.name.as_str(),
            });
        }
        for (column, _) in &mut own {
            *column = match *column {
                "udt_catalog" => "attribute_udt_catalog",
                "udt_schema" => "attribute_udt_schema",
                "udt_name" => "attribute_udt_name",
                other => other,
            };
        }
        let number = of.number(at);
        own.extend(row! {
            "udt_catalog": database,
            "udt_schema": of.schema_name.as_str(),
            "udt_name": of.name.as_str(),
            "attribute_name": name.as_str(),
            "ordinal_position": number,
            "is_nullable": yes_or_no(!domain.is_some_and(|own| own.not_null)),
            "dtd_identifier": number.to_string(),
            "is_derived_reference_attribute": "NO",
        });
        Some(own)
    };
    of.columns.iter().enumerate().filter_map(attribute).collect()
}

fn user_type(of: &Arc<Composite>, database: &str) -> Row {
    row! {
        "user_defined_type_catalog": database,
        "user_defined_type_schema": of.schema_name.as_str(),
        "user_defined_type_name": of.name.as_str(),
        "user_defined_type_category": "STRUCTURED",
        "is_instantiable": "YES",
    }
}

/// Something that has a type.
pub(super) struct Typed {
    pub schema: String,
    pub name: String,
    /// `TABLE` and the like.
    pub kind: &'static str,
    /// Which of the types of the object it is.
    pub identifier: String,
    pub sql_type: Option<SqlType>,
}

fn all(binder: &Binder) -> Vec<Typed> {
    let mut out = Vec::new();
    for (relation, columns) in all_columns(binder) {
        out.extend(columns.iter().enumerate().map(|(at, column)| Typed {
            schema: relation.schema_name().into(),
            name: relation.name().into(),
            kind: "TABLE",
            identifier: (at + 1).to_string(),
            sql_type: Some(column.sql_type),
        }));
    }
    for of in composites(binder) {
        out.extend(of.columns.iter().enumerate().map(|(at, (_, declared))| Typed {
            schema: of.schema_name.clone(),
            name: of.name.clone(),
            kind: "USER-DEFINED TYPE",
            identifier: of.number(at).to_string(),
            sql_type: attribute_type(binder, declared).map(|(of, _)| of),
        }));
    }
    out.extend(domains(binder).map(|of| Typed {
        schema: of.schema_name.clone(),
        name: of.name.clone(),
        kind: "DOMAIN",
        identifier: "1".into(),
        sql_type: Some(of.base),
    }));
    out.extend(routines::typed(binder));
    out
}

/// The items of an array.
fn element(binder: &Binder, own: Typed, database: &str) -> Option<Row> {
    let Some(SqlType::Array(array)) = own.sql_type else {
        return None;
    };
    let mut row = row! {
        "object_catalog": database,
        "object_schema": own.schema,
        "object_name": own.name,
        "object_type": own.kind,
        "dtd_identifier": format!("a{}", own.identifier),
        "collection_type_identifier": own.identifier,
    };
    // Of what size they may be is not told.
    let whole = described(binder, array.element(), None, database);
    let told = ["data_type", "udt_catalog", "udt_schema", "udt_name"];
    row.extend(whole.into_iter().filter(|(column, _)| told.contains(column)));
    Some(row)
}

fn privilege(own: Typed, database: &str) -> Row {
    row! {
        "object_catalog": database,
        "object_schema": own.schema,
        "object_name": own.name,
        "object_type": own.kind,
        "dtd_identifier": own.identifier,
    }
}
