//! The rows of `pg_catalog` that are of this database: schemas, relations, columns, keys.
//!
//! More than 400 lines because it is a table of catalogs, a function each.

use super::indexes::{ShownIndex, access_method, has_index, reloptions};
use super::rows::{self, Row, row};
use super::shown_text::shown_text;
use super::{DATABASE_OID, INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, PG_CATALOG, PG_CATALOG_OID};
use super::{
    activity, checks, connection_rules, dependencies, encodings, extensions, foreign_keys, index_rows, locks, names,
    on_device, open, partitions, procs, rights, settings, texts, types, usage, zones,
};
use crate::catalog::bind::Binder;
use crate::pg::collations;
use crate::pg::parse::parse_expression;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::Expr;
use std::sync::Arc;
use tenon_storage::{
    CheckOption, ColumnDef, Composite, Generated, Object, ObjectKey, Partition, Relation, Secured, Sequence, SqlType,
    TableVersion,
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
        "pg_index" => index_rows::indexes(binder),
        "pg_constraint" => {
            let mut all = index_rows::constraints(binder);
            all.extend(foreign_keys::constraints(binder));
            all.extend(checks::constraints(binder));
            all
        }
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
        "pg_inherits" => partitions::inherits(binder)
            .into_iter()
            .chain(index_rows::inherits(binder))
            .collect(),
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
            index_rows::definitions(binder),
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
            index_rows::usage(binder),
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
    let is_key = ShownIndex::constraints(binder).any(|own| own.constraint_oid() == oid);
    if is_key || foreign_keys::is_one(binder, oid) {
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
            &view.options,
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
            "relhasindex": has_index(relation),
            "relpersistence": if temporary { "t" } else { "p" },
            "relkind": match relation.kind() {
                "table" if partitions::is_divided(relation) => "p",
                "table" => "r",
                "materialized view" => "m",
                "sequence" => "S",
                _ => "v",
            },
            "relnatts": relation.columns().fields().len() as i64,
            "relchecks": checks::of_relation(binder, relation).len() as i64,
            "relhasrules": relation.as_view().is_some(),
            "relhastriggers": triggered.contains(&relation.as_partition().map_or(relation.oid(), |own| own.root)),
            "relispopulated": table.is_none_or(|table| table.definition().is_populated),
            "relreplident": "d",
            "relispartition": relation.as_partition().is_some(),
            "relhassubclass": partitions::is_parted(binder, relation),
            "relpartbound": partitions::bound(binder, relation),
            "reloptions": options(relation),
        });
        for index in ShownIndex::of(binder, relation) {
            out.push(row! {
                "oid": index.oid,
                "relname": index.name,
                "relnamespace": namespace,
                "relowner": binder.snapshot.owner(relation.oid()),
                "relam": access_method(index.shown()),
                "reloptions": reloptions(&index.shown().options, None),
                "reltuples": index.rows() as f64,
                "relpersistence": if temporary { "t" } else { "p" },
                "relkind": if index.is_divided() { "I" } else { "i" },
                "relnatts": index.columns(binder).len() as i64,
                "relispartition": index.parent().is_some(),
                "relhassubclass": index.is_divided() && partitions::is_parted(binder, relation),
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

pub(super) fn columns<'a>(binder: &'a Binder, relation: &'a Relation) -> Vec<Column<'a>> {
    let declared = |column: &'a ColumnDef| Column {
        name: &column.name,
        sql_type: column.sql_type,
        not_null: column.not_null,
        default: column.default.as_deref(),
        generated: column.generated,
        domain: column.domain.as_ref(),
        collation: column.collation.as_deref(),
    };
    match relation {
        Relation::Table(table) => table.definition().columns.iter().map(declared).collect(),
        // Those of its table; identities stay there.
        Relation::Partition(partition) => {
            let root = binder.snapshot.table_by_oid(partition.root);
            let columns = root.map_or(&[][..], |root| &root.definition().columns);
            let fields = partition.schema.fields().iter();
            let own = partition.columns.iter().zip(fields).filter_map(|(at, field)| {
                let column = declared(columns.get(*at)?);
                let is_computed = column.generated == Some(Generated::Stored);
                Some(Column {
                    not_null: !field.is_nullable(),
                    generated: column.generated.filter(|_| is_computed),
                    ..column
                })
            });
            own.collect()
        }
        Relation::View(_) | Relation::Sequence(_) => {
            let fields = relation.columns().fields().iter();
            fields
                .map(|field| Column {
                    name: field.name(),
                    sql_type: SqlType::from_field(field).unwrap_or(SqlType::Text),
                    not_null: false,
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
        let columns = columns(binder, relation);
        out.extend(
            columns
                .iter()
                .enumerate()
                .map(|(number, column)| attribute(relation.oid(), number, column)),
        );
        for index in ShownIndex::of(binder, relation) {
            for (number, (name, sql_type)) in index.columns(binder).iter().enumerate() {
                let own = columns.iter().find(|column| column.name == name);
                let column = Column {
                    name,
                    sql_type: *sql_type,
                    not_null: false,
                    default: None,
                    generated: None,
                    domain: own.and_then(|own| own.domain),
                    collation: own.and_then(|own| own.collation),
                };
                out.push(attribute(index.oid, number, &column));
            }
        }
    }
    out
}

fn defaults(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    for relation in relations(binder) {
        for (number, column) in columns(binder, relation).iter().enumerate() {
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
    // A sign before a number is part of it, and such a number's type is said.
    if let Some(number) = default.strip_prefix('-')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        let of = match number.parse::<i64>() {
            Ok(number) if i32::try_from(-number).is_ok() => "integer",
            Ok(_) => "bigint",
            Err(_) => "numeric",
        };
        return format!("'{default}'::{of}");
    }
    let default = match default.strip_prefix("B'") {
        Some(bits) => &format!("'{bits}"),
        None => default,
    };
    let literal = default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let type_name = types::display(binder, i64::from(sql_type.oid()), None);
    match (literal, type_name) {
        (Some(text), Some(name)) if !text.replace("''", "").contains('\'') => {
            // Those without a length that would be of one character or bit by their other names.
            let name = match name.as_str() {
                "character" => "bpchar",
                "bit" => "\"bit\"",
                name => name,
            };
            format!("{default}::{name}")
        }
        // Operators of two operands stand in parentheses.
        _ => match parse_expression(default) {
            Ok(Expr::BinaryOp { .. }) => format!("({default})"),
            _ => default.to_string(),
        },
    }
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
            "hasindexes": has_index(&Relation::Table(table.clone())),
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
            "hasindexes": !partition.indexes.is_empty(),
            "hasrules": false,
            "hastriggers": triggered.contains(&partition.root),
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
