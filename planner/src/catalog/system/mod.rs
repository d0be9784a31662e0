//! `pg_catalog` and `information_schema`: system tables over one snapshot, made when a statement names them.
//!
//! What PostgreSQL ships (types, functions, operators) comes from the `datafusion-pg-catalog` crate; what is of this
//! database (relations, columns, keys, settings) is made here from storage, with storage's oids.

mod activity;
mod checks;
mod columns;
mod connection_rules;
mod data_types;
mod dependencies;
mod dialect_rewrite;
mod encodings;
mod extensions;
mod foreign_keys;
mod functions;
mod index_properties;
mod index_rows;
mod indexes;
mod information;
mod locks;
mod names;
mod on_device;
mod open;
mod operator_classes;
mod partitions;
mod procs;
mod regnames;
mod relations;
mod rewrite;
mod rights;
mod routines;
mod rows;
mod settings;
mod shown_text;
mod signatures;
mod statistics;
mod system_types;
mod texts;
mod types;
mod usage;
mod vectors;
mod visible;
mod zones;

pub(crate) use functions::{function, gives_rows, rows_of, table_function};
pub(crate) use regnames::{split, system_table};
pub(crate) use rewrite::{rewrite, rewrite_value, touches};
pub(crate) use signatures::types as shipped_arguments;
pub(crate) use types::{identity as type_identity, name as type_name, written_otherwise};

/// The number of the constraint that an index is there for.
pub(crate) fn constraint_oid(index: u32) -> u32 {
    checks::part_oid(index, 0)
}

/// The oid of a type by any of its names.
pub(crate) fn type_oid(binder: &Binder, name: &str) -> Option<u32> {
    regnames::RegType::Type.oid(binder, name)
}

/// The function that reads names as a type does that is an alias of oid, by the oid of that.
pub(crate) fn names_reader(alias: u32) -> Option<String> {
    use regnames::RegType;
    let alias = match alias {
        24 => RegType::Proc,
        2205 => RegType::Class,
        2206 => RegType::Type,
        4089 => RegType::Namespace,
        4096 => RegType::Role,
        _ => return None,
    };
    Some(functions::reg_oid(alias))
}

/// Whether a type is one of arrays.
pub(crate) fn is_array(binder: &Binder, oid: u32) -> bool {
    let shipped = system_types::by_oid(oid).is_some_and(|of| of.element != 0);
    shipped || types::element_of(binder, oid).is_some()
}

use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::datasource::{TableProvider, provider_as_source};
use datafusion::logical_expr::TableSource;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables, PgCatalogTable};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

/// The schema searched before all others.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";
/// oids of the system schemas.
const PG_CATALOG_OID: u32 = 11;
/// As the functions of `pg_proc` have it.
const INFORMATION_SCHEMA_OID: u32 = 13_283;
/// oid of the one database.
const DATABASE_OID: u32 = tenon_storage::rights::DATABASE_OID;
/// Tables of Tenon's own that are found without a schema.
const OWN: [&str; 3] = [encodings::NAME, on_device::NAME, texts::NAME];

type BuiltIn = PgCatalogSchemaProvider<Arc<dyn CatalogProviderList>, EmptyContextProvider>;

/// What PostgreSQL ships: read from the binary at first use.
fn built_in() -> Result<&'static BuiltIn> {
    static BUILT_IN: OnceLock<std::result::Result<BuiltIn, String>> = OnceLock::new();
    let made = BUILT_IN.get_or_init(|| {
        let empty: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
        let tables = PgCatalogStaticTables::try_new().map_err(|error| error.to_string())?;
        BuiltIn::try_new(empty, Arc::new(tables), EmptyContextProvider).map_err(|error| error.to_string())
    });
    made.as_ref().map_err(SqlError::internal)
}

/// The rows of a table that PostgreSQL ships.
fn shipped_batches(name: &str) -> Option<Vec<RecordBatch>> {
    match built_in().ok()?.build_table_by_name(name).ok()?? {
        PgCatalogTable::Static(table) => Some(table.data().to_vec()),
        _ => None,
    }
}

/// The rows of a table that PostgreSQL ships in the types of its columns here, made once.
fn converted(name: &str, shipped: &[RecordBatch], schema: &SchemaRef) -> datafusion::error::Result<Vec<RecordBatch>> {
    static MADE: LazyLock<Mutex<HashMap<String, Vec<RecordBatch>>>> = LazyLock::new(Mutex::default);
    if let Some(made) = MADE.lock().get(name) {
        return Ok(made.clone());
    }
    let batches = shipped.iter().map(|batch| columns::convert(batch, schema));
    let made: Vec<RecordBatch> = batches.collect::<datafusion::error::Result<_>>()?;
    MADE.lock().insert(name.to_string(), made.clone());
    Ok(made)
}

/// A system table by its name; None where there is none of that name.
pub(crate) fn source(binder: &Binder, schema: Option<&str>, name: &str) -> Result<Option<Arc<dyn TableSource>>> {
    let made = match schema {
        Some(PG_CATALOG) => pg_catalog(binder, name)?,
        None if name.starts_with("pg_") || OWN.contains(&name) => pg_catalog(binder, name)?,
        Some(INFORMATION_SCHEMA) => information::table(binder, name).map_err(|error| from_datafusion(&error))?,
        _ => None,
    };
    if made.is_some() {
        // Settings and statistics may change without a new snapshot.
        binder.facts.used.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    Ok(made.map(provider_as_source))
}

fn pg_catalog(binder: &Binder, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let told = |error: datafusion::error::DataFusionError| from_datafusion(&error);
    if name == usage::NOT_BUILT_IN {
        return Ok(relations::extra(binder, name)
            .map_err(told)?
            .map(|table| table as Arc<dyn TableProvider>));
    }
    let built_in = built_in()?.build_table_by_name(name).map_err(told)?;
    let own = match &built_in {
        Some(table) => {
            let schema = columns::typed(name, &table.schema());
            let before = match table {
                PgCatalogTable::Static(table) if !rights::OWN_ROWS.contains(&name) => {
                    converted(name, table.data(), &schema)
                }
                _ => Ok(Vec::new()),
            };
            let is_static = matches!(table, PgCatalogTable::Static(_) | PgCatalogTable::Empty(_));
            match relations::rows(binder, name) {
                None if !is_static => Ok(None),
                rows => before
                    .and_then(|before| rows::table(&schema, &before, &rows.unwrap_or_default()))
                    .map(Some),
            }
        }
        None => relations::extra(binder, name),
    };
    if let Some(own) = own.map_err(told)? {
        return Ok(Some(own));
    }
    built_in
        .map(|table| table.try_into_table_provider().map_err(told))
        .transpose()
}
