//! The rows of `pg_catalog` that are of this database: schemas, relations, columns, keys.
//!
//! More than 400 lines because it is a table of catalogs, a function each.

use super::rows::{self, Row, row};
use super::shown_text::shown_text;
use super::{DATABASE_OID, INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, PG_CATALOG, PG_CATALOG_OID};
use super::{
    activity, checks, connection_rules, dependencies, encodings, extensions, foreign_keys, locks, names, on_device,
    open, operator_classes, partitions, procs, rights, settings, texts, types, usage, zones,
};
use crate::catalog::bind::Binder;
use crate::pg::collations;
use crate::pg::parse::parse_expression;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::Expr;
use std::sync::Arc;
use tenon_storage::{
    CheckOption, ColumnOrder, Composite, Deferral, ExpressionIndex, Generated, Index, IndexKind, IndexShown, Object,
    ObjectKey, Partition, Relation, Secured, Sequence, SqlType, TableVersion,
};

const ZONE_COLUMNS: &[(&str, &str)] = &[
    ("name", "text"),
    ("abbrev", "text"),
    ("utc_offset", "interval"),
    ("is_dst", "bool"),
];

/// Rows for a table whose schema comes from `datafusion-pg-catalog`; None: that crate's own rows are right.
pub(super) fn rows(binder: &Binder, name: &str) -> Option<Vec<Row>> {
    Some(match name {
        "pg_namespace" => namespaces(binder),
        "pg_class" => classes(binder),
        "pg_attribute" => attributes(binder),
        "pg_attrdef" => defaults(binder),
        "pg_index" => indexes(binder),
        "pg_constraint" => constraints(binder),
        "pg_collation" => all_collations(),
        "pg_database" => databases(binder),
        "pg_roles" => rights::roles(binder, false),
        "pg_authid" => rights::roles(binder, true),
        "pg_db_role_setting" => rights::kept_settings(binder),
        "pg_auth_members" => rights::members(binder),
        "pg_default_acl" => rights::default_grants(binder),
        "pg_tables" => tables(binder),
        "pg_views" => views(binder),
        "pg_settings" => settings::rows(binder),
        "pg_description" => descriptions(binder),
        "pg_sequence" => sequences(binder),
        "pg_depend" => dependencies::rows(binder),
        "pg_rewrite" => dependencies::rules(binder),
        "pg_inherits" => partitions::inherits(binder),
        "pg_partitioned_table" => partitions::partitioned(binder),
        "pg_type" => types::types(binder),
        "pg_enum" => types::labels(binder),
        "pg_range" => types::of_ranges(binder),
        "pg_proc" => procs::rows(binder),
        "pg_extension" => extensions::rows(binder),
        "pg_shdescription" => shared_descriptions(binder),
        _ => return None,
    })
}

/// Views that have nothing to show, or counts alone, each with its columns.
const VIEWS: &str = include_str!("view_columns.txt");

/// Tables that the crate does not have.
pub(super) fn extra(binder: &Binder, name: &str) -> Result<Option<Arc<MemTable>>> {
    let (columns, rows): (&[(&str, &str)], Vec<Row>) = match name {
        "pg_stats" => (
            &[
                ("schemaname", "text"),
                ("tablename", "text"),
                ("attname", "text"),
                ("inherited", "bool"),
                ("null_frac", "float"),
                ("avg_width", "int"),
                ("n_distinct", "float"),
                ("most_common_vals", "text"),
                ("most_common_freqs", "text"),
                ("histogram_bounds", "text"),
                ("correlation", "float"),
            ],
            super::statistics::rows(binder),
        ),
        encodings::NAME => (encodings::COLUMNS, encodings::rows(binder)),
        on_device::NAME => (on_device::COLUMNS, on_device::rows(binder)),
        texts::NAME => (texts::COLUMNS, texts::rows(binder)),
        "pg_indexes" => (
            &[
                ("schemaname", "text"),
                ("tablename", "text"),
                ("indexname", "text"),
                ("tablespace", "text"),
                ("indexdef", "text"),
            ],
            index_definitions(binder),
        ),
        "pg_user" | "pg_shadow" => (
            &[
                ("usename", "text"),
                ("usesysid", "oid"),
                ("usecreatedb", "bool"),
                ("usesuper", "bool"),
                ("userepl", "bool"),
                ("usebypassrls", "bool"),
                ("passwd", "text"),
                ("valuntil", "timestamptz"),
                ("useconfig", "texts"),
            ],
            rights::users(binder, name == "pg_shadow"),
        ),
        "pg_stat_user_tables" | "pg_stat_all_tables" => (usage::TABLES, usage::tables(binder)),
        // How often indexes are read is not counted.
        "pg_stat_user_indexes" | "pg_stat_all_indexes" => (
            &[
                ("relid", "oid"),
                ("indexrelid", "oid"),
                ("schemaname", "text"),
                ("relname", "text"),
                ("indexrelname", "text"),
                ("idx_scan", "bigint"),
                ("idx_tup_read", "bigint"),
                ("idx_tup_fetch", "bigint"),
            ],
            usage_of_indexes(binder),
        ),
        "pg_stat_sys_tables" => (usage::TABLES, vec![]),
        "pg_stat_progress_copy" => (usage::COPIES, usage::copies(binder)),
        "pg_stat_progress_create_index" => (usage::INDEXES, usage::indexes(binder)),
        "pg_stat_progress_checkpoint" => (usage::CHECKPOINTS, usage::checkpoints(binder)),
        "pg_stat_activity" => (activity::SESSIONS, activity::sessions(binder)),
        "pg_stat_statements" => (activity::STATEMENTS, activity::statements(binder)),
        "pg_stat_statements_info" => (activity::INFO, activity::info(binder)),
        "pg_hba_file_rules" => (connection_rules::COLUMNS, connection_rules::rows(binder)),
        locks::NAME => (locks::COLUMNS, locks::rows(binder)),
        "pg_available_extensions" => (extensions::AVAILABLE_COLUMNS, extensions::available(binder)),
        "pg_available_extension_versions" => (extensions::VERSION_COLUMNS, extensions::versions(binder)),
        "pg_timezone_names" => (ZONE_COLUMNS, zones::names(binder)),
        "pg_timezone_abbrevs" => (&ZONE_COLUMNS[1..], zones::abbreviations(binder)),
        // What PostgreSQL ships of these is not told.
        "pg_amop" => (
            &[
                ("oid", "oid"),
                ("amopfamily", "oid"),
                ("amoplefttype", "oid"),
                ("amoprighttype", "oid"),
                ("amopstrategy", "smallint"),
                ("amoppurpose", "text"),
                ("amopopr", "oid"),
                ("amopmethod", "oid"),
                ("amopsortfamily", "oid"),
            ],
            Vec::new(),
        ),
        "pg_amproc" => (
            &[
                ("oid", "oid"),
                ("amprocfamily", "oid"),
                ("amproclefttype", "oid"),
                ("amprocrighttype", "oid"),
                ("amprocnum", "smallint"),
                ("amproc", "oid"),
            ],
            Vec::new(),
        ),
        "pg_transform" => (
            &[
                ("oid", "oid"),
                ("trftype", "oid"),
                ("trflang", "oid"),
                ("trffromsql", "oid"),
                ("trftosql", "oid"),
            ],
            Vec::new(),
        ),
        "pg_seclabels" => (
            &[
                ("objoid", "oid"),
                ("classoid", "oid"),
                ("objsubid", "int"),
                ("objtype", "text"),
                ("objnamespace", "oid"),
                ("objname", "text"),
                ("provider", "text"),
                ("label", "text"),
            ],
            Vec::new(),
        ),
        "pg_policies" => (
            &[
                ("schemaname", "text"),
                ("tablename", "text"),
                ("policyname", "text"),
                ("permissive", "text"),
                ("roles", "texts"),
                ("cmd", "text"),
                ("qual", "text"),
                ("with_check", "text"),
            ],
            Vec::new(),
        ),
        "pg_sequences" => (
            &[
                ("schemaname", "text"),
                ("sequencename", "text"),
                ("sequenceowner", "text"),
                ("data_type", "text"),
                ("start_value", "bigint"),
                ("min_value", "bigint"),
                ("max_value", "bigint"),
                ("increment_by", "bigint"),
                ("cycle", "bool"),
                ("cache_size", "bigint"),
                ("last_value", "bigint"),
            ],
            shown_sequences(binder),
        ),
        open::CURSORS => (open::CURSOR_COLUMNS, open::cursors(binder)),
        open::STATEMENTS => (open::STATEMENT_COLUMNS, open::statements(binder)),
        "pg_collations" => (&[("oid", "oid"), ("collname", "text")], Vec::new()),
        _ => match rows::listed(VIEWS, name) {
            Some(columns) => {
                let rows = usage::rows(binder, name);
                return rows::table(&rows::schema(&columns), &[], &rows).map(Some);
            }
            None => return Ok(None),
        },
    };
    rows::table(&rows::schema(columns), &[], &rows).map(Some)
}

fn all_sequences(binder: &Binder) -> impl Iterator<Item = &Arc<Sequence>> {
    relations(binder).filter_map(Relation::as_sequence)
}

fn sequences(binder: &Binder) -> Vec<Row> {
    let sequence = |own: &Arc<Sequence>| {
        row! {
            "seqrelid": own.oid,
            "seqtypid": own.def.sql_type.oid(),
            "seqstart": own.def.start,
            "seqincrement": own.def.increment,
            "seqmax": own.def.max,
            "seqmin": own.def.min,
            "seqcache": own.def.cache,
            "seqcycle": own.def.cycle,
        }
    };
    all_sequences(binder).map(sequence).collect()
}

fn shown_sequences(binder: &Binder) -> Vec<Row> {
    let sequence = |own: &Arc<Sequence>| {
        let counter = own.counter();
        let mut row = row! {
            "schemaname": own.schema_name.as_str(),
            "sequencename": own.name.as_str(),
            "sequenceowner": rights::owner(binder, own.oid),
            "data_type": own.def.sql_type.base_name(),
            "start_value": own.def.start,
            "min_value": own.def.min,
            "max_value": own.def.max,
            "increment_by": own.def.increment,
            "cycle": own.def.cycle,
            "cache_size": own.def.cache,
        };
        if counter.is_called {
            row.extend(row! { "last_value": counter.last_value });
        }
        row
    };
    all_sequences(binder).map(sequence).collect()
}

/// What COMMENT ON says, with the oid, the system table and the column of what it says it of.
fn comments(binder: &Binder) -> impl Iterator<Item = (u32, u32, u32, &str)> {
    binder
        .snapshot
        .objects()
        .iter()
        .filter_map(|(key, object)| match (key, object) {
            (ObjectKey::Comment { oid, column }, Object::Comment(text)) => {
                Some((*oid, class_of(binder, *oid)?, *column, text.as_ref()))
            }
            _ => None,
        })
}

fn descriptions(binder: &Binder) -> Vec<Row> {
    let own = comments(binder).filter(|(_, class, ..)| !SHARED.contains(class));
    let comment = |(oid, class, column, text): (u32, u32, u32, &str)| {
        row! {
            "objoid": oid,
            "classoid": class,
            "objsubid": i64::from(column),
            "description": text,
        }
    };
    let others = checks::descriptions(binder)
        .into_iter()
        .chain(extensions::descriptions(binder));
    own.map(comment).chain(others).collect()
}

fn shared_descriptions(binder: &Binder) -> Vec<Row> {
    let shared = comments(binder).filter(|(_, class, ..)| SHARED.contains(class));
    let comment = |(oid, class, _, text): (u32, u32, u32, &str)| {
        row! {
            "objoid": oid,
            "classoid": class,
            "description": text,
        }
    };
    shared.map(comment).collect()
}

const PG_AUTHID: u32 = 1260;
const PG_CLASS: u32 = 1259;
const PG_CONSTRAINT: u32 = 2606;
const PG_DATABASE: u32 = 1262;
const PG_NAMESPACE: u32 = 2615;
const PG_PROC: u32 = 1255;
const PG_TYPE: u32 = 1247;
/// System tables of what all databases share.
const SHARED: [u32; 2] = [PG_AUTHID, PG_DATABASE];

/// The system table that an object is in; None: there is none of that oid, any more.
fn class_of(binder: &Binder, oid: u32) -> Option<u32> {
    if oid == DATABASE_OID {
        return Some(PG_DATABASE);
    }
    if keyed(binder).any(|(_, own)| own.oid == oid) || foreign_keys::is_one(binder, oid) {
        return Some(PG_CONSTRAINT);
    }
    if relations(binder).any(|relation| relation.oid() == oid) || ShownIndex::all(binder).any(|own| own.oid == oid) {
        return Some(PG_CLASS);
    }
    if binder.snapshot.schemas().any(|(_, schema)| schema.oid == oid) {
        return Some(PG_NAMESPACE);
    }
    if procs::function(binder, oid.into()).is_some() {
        return Some(PG_PROC);
    }
    let mut types = binder.snapshot.objects().values().filter_map(types::identity);
    if types.any(|(own, ..)| own == oid) {
        return Some(PG_TYPE);
    }
    let mut roles = binder.snapshot.roles();
    (oid == tenon_storage::roles::BOOTSTRAP || roles.any(|role| role.oid == oid)).then_some(PG_AUTHID)
}

/// Whether an object is in a system table of that name.
pub(super) fn is_of_class(binder: &Binder, oid: u32, class: &str) -> bool {
    let wanted = super::regnames::system_table(class);
    match class {
        "pg_constraint" => class_of(binder, oid).is_none_or(|own| own == PG_CONSTRAINT),
        // The indexes of keys have their oids.
        "pg_class" => matches!(class_of(binder, oid), Some(PG_CLASS | PG_CONSTRAINT)),
        _ => class_of(binder, oid) == wanted,
    }
}

/// Relations that a client is shown: all but other sessions' temporary tables.
pub(super) fn relations(binder: &Binder) -> impl Iterator<Item = &Relation> {
    let own = &binder.facts.path;
    binder.snapshot.relations().filter(|relation| {
        !relation.schema_name().starts_with("pg_temp_") || own.iter().any(|s| s == relation.schema_name())
    })
}

pub(super) fn stored(binder: &Binder) -> impl Iterator<Item = &Arc<TableVersion>> {
    relations(binder).filter_map(Relation::as_table)
}

pub(super) fn schema_oid(binder: &Binder, name: &str) -> u32 {
    binder.snapshot.schema(name).map_or(0, |schema| schema.oid)
}

/// A table's storage parameters that are set; a view's CHECK OPTION.
fn options(relation: &Relation) -> rows::Value {
    let (options, own): (&[(String, String)], _) = match relation {
        Relation::Table(table) => {
            let device = table.definition().device;
            let own = device.map(|device| format!("tenon.device={}", device.name()));
            (&table.definition().options, own)
        }
        Relation::View(view) => (
            &[],
            match view.check_option {
                CheckOption::None => None,
                CheckOption::Local => Some("check_option=local".into()),
                CheckOption::Cascaded => Some("check_option=cascaded".into()),
            },
        ),
        Relation::Partition(partition) => (&partition.options, None),
        Relation::Sequence(_) => (&[], None),
    };
    reloptions(options, own)
}

/// The row of `pg_am` for an index.
fn access_method(shown: &IndexShown) -> i64 {
    match shown.method() {
        "hash" => 405,
        "gist" => 783,
        "gin" => 2742,
        "brin" => 3580,
        "spgist" => 4000,
        _ => 403,
    }
}

fn reloptions(options: &[(String, String)], own: Option<String>) -> rows::Value {
    let option = |(name, value): &(String, String)| format!("{name}={value}");
    let all: Vec<String> = options.iter().map(option).chain(own).collect();
    match all.is_empty() {
        true => rows::Value::Null,
        false => rows::Value::Texts(all),
    }
}

fn namespaces(binder: &Binder) -> Vec<Row> {
    let system = [
        (PG_CATALOG, PG_CATALOG_OID),
        (INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID),
    ];
    let stored = binder.snapshot.schemas().map(|(name, schema)| (name, schema.oid));
    system
        .into_iter()
        .chain(stored)
        .map(|(name, oid)| {
            row! {
                "oid": oid,
                "nspname": name,
                "nspowner": binder.snapshot.owner(oid),
                "nspacl": rights::acl(binder, Secured::Schema, oid),
            }
        })
        .collect()
}

fn classes(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    let triggered = foreign_keys::tables(binder);
    for of in composites(binder) {
        out.push(row! {
            "oid": of.oid,
            "relname": of.name.as_str(),
            "relnamespace": schema_oid(binder, &of.schema_name),
            "reltype": of.oid,
            "relowner": binder.snapshot.owner(of.oid),
            "relpersistence": "p",
            "relkind": "c",
            "relnatts": of.columns.len() as i64,
            "relispopulated": true,
            "relreplident": "n",
        });
    }
    for relation in relations(binder) {
        let table = relation.as_table();
        let namespace = schema_oid(binder, relation.schema_name());
        let temporary = relation.schema_name().starts_with("pg_temp_");
        out.push(row! {
            "oid": relation.oid(),
            "relname": relation.name(),
            "relnamespace": namespace,
            "reltype": if types::has_row_type(relation) { relation.oid() } else { 0 },
            "relowner": binder.snapshot.owner(relation.oid()),
            "relacl": rights::acl(binder, Secured::of_relation(relation), relation.oid()),
            "relam": if relation.kind() == "table" && !partitions::is_divided(relation) || relation.kind() == "materialized view" { 2_i64 } else { 0 },
            "relpages": table.map_or(0, |table| (table.bytes() / 8192) as i64).min(i32::MAX.into()),
            "reltuples": table.map_or(-1.0, |table| table.rows() as f64),
            "relhasindex": table.is_some_and(|table| has_index(table)),
            "relpersistence": if temporary { "t" } else { "p" },
            "relkind": match relation.kind() {
                "table" if partitions::is_divided(relation) => "p",
                "table" => "r",
                "materialized view" => "m",
                "sequence" => "S",
                _ => "v",
            },
            "relnatts": relation.columns().fields().len() as i64,
            "relchecks": checks::of_relation(relation).len() as i64,
            "relhasrules": relation.as_view().is_some(),
            "relhastriggers": triggered.contains(&relation.oid()),
            "relispopulated": table.is_none_or(|table| table.definition().is_populated),
            "relreplident": "d",
            "relispartition": relation.as_partition().is_some(),
            "relhassubclass": partitions::is_divided(relation),
            "relpartbound": partitions::bound(binder, relation),
            "reloptions": options(relation),
        });
        for index in table.into_iter().flat_map(ShownIndex::of) {
            out.push(row! {
                "oid": index.oid,
                "relname": index.name,
                "relnamespace": namespace,
                "relowner": binder.snapshot.owner(index.table.oid()),
                "relam": access_method(index.shown()),
                "reloptions": reloptions(&index.shown().options, None),
                "reltuples": index.table.rows() as f64,
                "relpersistence": if temporary { "t" } else { "p" },
                "relkind": if index.shown().only.is_some() { "I" } else { "i" },
                "relnatts": (index.keys + index.included().len()) as i64,
                "relispopulated": true,
                "relreplident": "n",
            });
        }
    }
    out
}

/// A column's declared type, NOT NULL and default.
pub(super) struct Column<'a> {
    pub name: &'a str,
    pub sql_type: SqlType,
    pub not_null: bool,
    pub default: Option<&'a str>,
    pub generated: Option<Generated>,
    /// The schema and name of the domain that it has been declared with.
    pub domain: Option<&'a (String, String)>,
    /// The collation that it has been declared with, by its name.
    pub collation: Option<&'a str>,
}

pub(super) fn columns(relation: &Relation) -> Vec<Column<'_>> {
    match relation {
        Relation::Table(table) => {
            let columns = table.definition().columns.iter();
            columns
                .map(|column| Column {
                    name: &column.name,
                    sql_type: column.sql_type,
                    not_null: column.not_null,
                    default: column.default.as_deref(),
                    generated: column.generated,
                    domain: column.domain.as_ref(),
                    collation: column.collation.as_deref(),
                })
                .collect()
        }
        // Of a partition NOT NULL is among its fields.
        Relation::View(_) | Relation::Sequence(_) | Relation::Partition(_) => {
            let fields = relation.columns().fields().iter();
            fields
                .map(|field| Column {
                    name: field.name(),
                    sql_type: SqlType::from_field(field).unwrap_or(SqlType::Text),
                    not_null: relation.as_partition().is_some() && !field.is_nullable(),
                    default: None,
                    generated: None,
                    domain: None,
                    collation: None,
                })
                .collect()
        }
    }
}

fn composites(binder: &Binder) -> impl Iterator<Item = &Composite> {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Composite(of) => Some(of.as_ref()),
        _ => None,
    })
}

/// The columns of a composite type, each with its oid and modifier: of domains and other composite types too.
fn composite_columns<'a>(binder: &Binder, of: &'a Composite) -> Vec<(Column<'a>, u32)> {
    let column = |(name, declared): &'a (String, String)| {
        let declared = crate::catalog::bind::parsed_type(declared).ok()?;
        let sql_type = binder.sql_type(&declared).ok();
        let own = types::oid(binder, &declared.to_string());
        let column = Column {
            name,
            sql_type: sql_type.unwrap_or(SqlType::Text),
            not_null: false,
            default: None,
            generated: None,
            domain: None,
            collation: None,
        };
        Some((column, own.or(sql_type.map(SqlType::oid))?))
    };
    of.columns.iter().filter_map(column).collect()
}

/// The collation of a column, where it is not the default one.
pub(super) fn collation_name<'a>(column: &Column<'a>) -> Option<&'a str> {
    match column.sql_type {
        SqlType::Name => Some(column.collation.unwrap_or("C")),
        _ => column.collation,
    }
}

/// The oid of the collation by which a column's values are compared; 0 where they are by none.
fn collation_of(column: &Column<'_>) -> i64 {
    match column.sql_type {
        of if !of.is_collated() => 0,
        _ => collations::oid(collation_name(column)),
    }
}

fn all_collations() -> Vec<Row> {
    let row = |own: &collations::Collation| {
        row! {
            "oid": own.oid,
            "collname": own.name,
            "collnamespace": i64::from(PG_CATALOG_OID),
            "collowner": 10_i64,
            "collprovider": own.provider,
            "collisdeterministic": true,
            "collencoding": own.encoding,
            "collcollate": own.locale.map(str::to_string),
            "collctype": own.locale.map(str::to_string),
        }
    };
    collations::ALL.iter().map(row).collect()
}

fn attributes(binder: &Binder) -> Vec<Row> {
    let attribute = |relation: u32, number: usize, column: &Column<'_>| {
        let length = names::length(column.sql_type);
        let domain = column
            .domain
            .and_then(|(schema, name)| types::domain_oid(binder, schema, name));
        row! {
            "attrelid": relation,
            "attname": column.name,
            "atttypid": domain.unwrap_or_else(|| column.sql_type.oid()),
            "attstattarget": -1_i64,
            "attlen": length,
            "attnum": number as i64 + 1,
            "attcacheoff": -1_i64,
            "atttypmod": if domain.is_some() { -1 } else { i64::from(column.sql_type.typmod()) },
            "attbyval": (1..=8).contains(&length),
            "attalign": if length == 8 { "d" } else { "i" },
            "attstorage": match column.sql_type {
                SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => "m",
                SqlType::Inet | SqlType::Cidr => "m",
                _ if length < 0 => "x",
                _ => "p",
            },
            "attnotnull": column.not_null,
            "atthasdef": column.default.is_some(),
            "attidentity": match column.generated {
                Some(Generated::Always) => "a",
                Some(Generated::ByDefault) => "d",
                _ => "",
            },
            "attgenerated": if column.generated == Some(Generated::Stored) { "s" } else { "" },
            "attislocal": true,
            "attndims": match column.sql_type {
                SqlType::Array(of) => of.dimensions() as i64,
                _ => 0,
            },
            "attcollation": collation_of(column),
            "attacl": rights::column_acl(binder, relation, column.name),
        }
    };
    let mut out = Vec::new();
    for of in composites(binder) {
        for (number, (column, oid)) in composite_columns(binder, of).iter().enumerate() {
            let mut row = attribute(of.oid, number, column);
            row.retain(|(name, _)| *name != "atttypid");
            row.extend(row! { "atttypid": *oid });
            out.push(row);
        }
    }
    for relation in relations(binder) {
        let columns = columns(relation);
        out.extend(
            columns
                .iter()
                .enumerate()
                .map(|(number, column)| attribute(relation.oid(), number, column)),
        );
        for index in relation
            .as_table()
            .iter()
            .flat_map(|table| table.definition().all_indexes())
        {
            let keyed = index.columns.iter().chain(&index.include).enumerate();
            out.extend(keyed.map(|(number, at)| {
                let column = Column {
                    not_null: false,
                    default: None,
                    generated: None,
                    ..columns[*at]
                };
                attribute(index.oid, number, &column)
            }));
        }
    }
    out
}

fn defaults(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    for relation in relations(binder) {
        for (number, column) in columns(relation).iter().enumerate() {
            if let Some(default) = column.default {
                out.push(row! {
                    "oid": checks::part_oid(relation.oid(), number),
                    "adrelid": relation.oid(),
                    "adnum": number as i64 + 1,
                    "adbin": shown_default(binder, column.sql_type, default),
                });
            }
        }
    }
    out
}

/// A default as PostgreSQL prints it: a string says its type.
pub(super) fn shown_default(binder: &Binder, sql_type: SqlType, default: &str) -> String {
    let default = &shown_text(binder, default);
    let literal = default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let type_name = types::display(binder, i64::from(sql_type.oid()), None);
    match (literal, type_name) {
        (Some(text), Some(name)) if !text.replace("''", "").contains('\'') => {
            // bpchar, without its length.
            let name = if name == "character" { "bpchar" } else { &name };
            format!("{default}::{name}")
        }
        // Operators of two operands stand in parentheses.
        _ => match parse_expression(default) {
            Ok(Expr::BinaryOp { .. }) => format!("({default})"),
            _ => default.to_string(),
        },
    }
}

/// PRIMARY KEY and UNIQUE constraints, each with its table.
pub(super) fn keyed(binder: &Binder) -> impl Iterator<Item = (&Arc<TableVersion>, &Index)> {
    indexed(binder).filter(|(_, index)| is_constraint(index))
}

/// Whether a constraint of the table needs the index.
pub(super) fn is_constraint(index: &Index) -> bool {
    matches!(index.kind, IndexKind::Primary | IndexKind::Constraint)
}

/// All indexes, each with its table.
pub(super) fn indexed(binder: &Binder) -> impl Iterator<Item = (&Arc<TableVersion>, &Index)> {
    stored(binder).flat_map(|table| table.definition().all_indexes().map(move |index| (table, index)))
}

fn has_index(table: &TableVersion) -> bool {
    table.definition().all_indexes().next().is_some() || !table.definition().expression_indexes.is_empty()
}

/// The key's columns, numbered from 1.
fn positions(key: &Index) -> Vec<i64> {
    key.columns.iter().map(|at| *at as i64 + 1).collect()
}

/// An index as the system tables show it: on columns, or on expressions.
pub(super) struct ShownIndex<'a> {
    pub table: &'a Arc<TableVersion>,
    pub oid: u32,
    pub name: &'a str,
    keys: usize,
    of: ShownKeys<'a>,
}

enum ShownKeys<'a> {
    Columns(&'a Index),
    /// Or of some rows alone.
    Expressions(&'a ExpressionIndex),
}

impl<'a> ShownIndex<'a> {
    /// All of a table.
    fn of(table: &'a Arc<TableVersion>) -> impl Iterator<Item = ShownIndex<'a>> {
        let columns = table.definition().all_indexes().map(move |own| ShownIndex {
            table,
            oid: own.oid,
            name: &own.name,
            keys: own.columns.len(),
            of: ShownKeys::Columns(own),
        });
        let expressions = table.definition().expression_indexes.iter();
        columns.chain(expressions.map(move |own| ShownIndex {
            table,
            oid: own.oid,
            name: &own.name,
            keys: own.keys.len(),
            of: ShownKeys::Expressions(own),
        }))
    }

    pub(super) fn all(binder: &'a Binder) -> impl Iterator<Item = ShownIndex<'a>> {
        stored(binder).flat_map(ShownIndex::of)
    }

    /// Positions of INCLUDE's columns.
    fn included(&self) -> Vec<usize> {
        match self.of {
            ShownKeys::Columns(own) => own.include.clone(),
            ShownKeys::Expressions(own) => {
                let at = |name: &String| self.table.definition().column_index(name);
                own.include.iter().filter_map(at).collect()
            }
        }
    }

    fn shown(&self) -> &'a IndexShown {
        match self.of {
            ShownKeys::Columns(own) => &own.shown,
            ShownKeys::Expressions(own) => &own.shown,
        }
    }

    fn definition(&self, binder: &Binder) -> String {
        match self.of {
            ShownKeys::Columns(own) => names::index_definition(self.table, own),
            ShownKeys::Expressions(own) => names::expression_index_definition(binder, self.table, own),
        }
    }
}

/// Whether an expression, as an index keeps it, is that column alone.
fn names_column(expression: &str, column: &str) -> bool {
    match expression.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\"") == column,
        None => expression.to_lowercase() == column,
    }
}

fn indexes(binder: &Binder) -> Vec<Row> {
    let index = |shown: ShownIndex<'_>| {
        let zeros = vec![0; shown.keys];
        let (unique, nulls_not_distinct, primary) = match shown.of {
            ShownKeys::Columns(key) => (key.is_declared_unique(), key.nulls_not_distinct, key.is_primary()),
            ShownKeys::Expressions(own) => (own.is_declared_unique(), own.nulls_not_distinct, false),
        };
        // Bit 0: DESC; bit 1: NULLS FIRST.
        let bits = |order: &ColumnOrder| i64::from(order.descending) | i64::from(order.nulls_first) << 1;
        let (positions, options) = match shown.of {
            ShownKeys::Columns(key) => (positions(key), key.order.iter().map(bits).collect::<Vec<_>>()),
            // 0 where a key is no column.
            ShownKeys::Expressions(own) => {
                let columns = &shown.table.definition().columns;
                let position = |key: &String| {
                    let at = columns.iter().position(|column| names_column(key, &column.name));
                    at.map_or(0, |at| at as i64 + 1)
                };
                let order = own.ordered_keys().map(|(_, order)| bits(&order));
                (own.keys.iter().map(position).collect(), order.collect())
            }
        };
        let mut positions: Vec<i64> = positions;
        positions.extend(shown.included().into_iter().map(|at| at as i64 + 1));
        let mut row = row! {
            "indexrelid": shown.oid,
            "indrelid": shown.table.oid(),
            "indnatts": positions.len() as i64,
            "indnkeyatts": shown.keys as i64,
            "indisunique": unique,
            "indnullsnotdistinct": nulls_not_distinct,
            "indisprimary": primary,
            "indisexclusion": false,
            "indimmediate": !matches!(shown.of, ShownKeys::Columns(key) if key.deferral != Deferral::Never),
            "indisclustered": false,
            "indisvalid": shown.shown().only.is_none(),
            "indcheckxmin": false,
            "indisready": true,
            "indislive": true,
            "indisreplident": false,
            "indkey": positions,
            "indcollation": zeros,
            "indclass": match shown.of {
                ShownKeys::Columns(key) => operator_classes::of_columns(shown.table.definition(), key),
                ShownKeys::Expressions(own) => operator_classes::of_expressions(binder, shown.table.definition(), own),
            },
            "indoption": options,
        };
        if let ShownKeys::Expressions(own) = shown.of {
            let columns = &shown.table.definition().columns;
            let is_column = |key: &String| columns.iter().any(|column| names_column(key, &column.name));
            let expressions = own.keys.iter().filter(|key| !is_column(key));
            let expressions: Vec<String> = expressions.map(|key| shown_text(binder, key)).collect();
            row.extend(row! {
                "indexprs": (!expressions.is_empty()).then(|| expressions.join(", ")),
                "indpred": own.predicate.as_ref().map(|predicate| format!("({})", names::without_parentheses(shown_text(binder, predicate)))),
            });
        }
        row
    };
    ShownIndex::all(binder).map(index).collect()
}

/// All indexes on expressions, and partial ones, each with its table.
pub(super) fn expression_indexes(binder: &Binder) -> impl Iterator<Item = (&Arc<TableVersion>, &ExpressionIndex)> {
    stored(binder).flat_map(|table| {
        table
            .definition()
            .expression_indexes
            .iter()
            .map(move |index| (table, index))
    })
}

fn constraints(binder: &Binder) -> Vec<Row> {
    let constraint = |(table, key): (&Arc<TableVersion>, &Index)| {
        row! {
            "oid": key.oid,
            "conname": key.name.as_str(),
            "connamespace": schema_oid(binder, &table.definition().schema_name),
            "contype": if key.is_primary() { "p" } else { "u" },
            "condeferrable": key.deferral != Deferral::Never,
            "condeferred": key.deferral == Deferral::Deferred,
            "convalidated": true,
            "conrelid": table.oid(),
            "contypid": 0_i64,
            "conindid": key.oid,
            "conparentid": 0_i64,
            "confrelid": 0_i64,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": true,
            "coninhcount": 0_i64,
            "connoinherit": true,
            "conkey": positions(key),
        }
    };
    keyed(binder)
        .map(constraint)
        .chain(foreign_keys::constraints(binder))
        .chain(checks::constraints(binder))
        .collect()
}

fn databases(binder: &Binder) -> Vec<Row> {
    vec![row! {
        "oid": DATABASE_OID,
        "datname": binder.facts.info.database.as_str(),
        "datdba": binder.snapshot.owner(DATABASE_OID),
        "datacl": rights::acl(binder, Secured::Database, DATABASE_OID),
        "encoding": 6_i64,
        "datlocprovider": "c",
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
        "datistemplate": false,
        "datallowconn": true,
        "datconnlimit": -1_i64,
        "dattablespace": 1663_i64,
    }]
}

fn tables(binder: &Binder) -> Vec<Row> {
    let triggered = foreign_keys::tables(binder);
    let table = |table: &Arc<TableVersion>| {
        let definition = table.definition();
        row! {
            "schemaname": definition.schema_name.as_str(),
            "tablename": definition.name.as_str(),
            "tableowner": rights::owner(binder, table.oid()),
            "hasindexes": has_index(table),
            "hasrules": false,
            "hastriggers": triggered.contains(&table.oid()),
            "rowsecurity": false,
        }
    };
    let partition = |partition: &Arc<Partition>| {
        row! {
            "schemaname": partition.schema_name.as_str(),
            "tablename": partition.name.as_str(),
            "tableowner": rights::owner(binder, partition.oid),
            "hasindexes": false,
            "hasrules": false,
            "hastriggers": false,
            "rowsecurity": false,
        }
    };
    let partitions = relations(binder).filter_map(Relation::as_partition).map(partition);
    let tables = stored(binder).filter(|table| table.definition().query.is_none());
    tables.map(table).chain(partitions).collect()
}

fn views(binder: &Binder) -> Vec<Row> {
    let view = |relation: &Relation| match relation {
        Relation::View(view) => Some(row! {
            "schemaname": view.schema_name.as_str(),
            "viewname": view.name.as_str(),
            "viewowner": rights::owner(binder, view.oid),
            "definition": view.sql.as_str(),
        }),
        Relation::Table(_) | Relation::Sequence(_) | Relation::Partition(_) => None,
    };
    relations(binder).filter_map(view).collect()
}

fn usage_of_indexes(binder: &Binder) -> Vec<Row> {
    let index = |shown: ShownIndex<'_>| {
        row! {
            "relid": shown.table.oid(),
            "indexrelid": shown.oid,
            "schemaname": shown.table.definition().schema_name.as_str(),
            "relname": shown.table.name(),
            "indexrelname": shown.name,
        }
    };
    ShownIndex::all(binder).map(index).collect()
}

fn index_definitions(binder: &Binder) -> Vec<Row> {
    let index = |shown: ShownIndex<'_>| {
        row! {
            "schemaname": shown.table.definition().schema_name.as_str(),
            "tablename": shown.table.name(),
            "indexname": shown.name,
            "indexdef": shown.definition(binder),
        }
    };
    ShownIndex::all(binder).map(index).collect()
}
