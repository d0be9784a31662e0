//! The types of system tables' columns, where their names say them: a column's name is unique to its meaning among all of
//! PostgreSQL's system tables.
//!
//! Types that no user's table has are carried by Arrow types that no user's table has, so that they last through joins,
//! subqueries and aggregates:
//!
//! | PostgreSQL | Arrow |
//! | --- | --- |
//! | `oid` | `UInt32` |
//! | `"char"` | `Dictionary(Int8, Utf8)` |
//! | `int2vector`, `oidvector` | `LargeList` of `Int16`, `UInt32` |
//!
//! Columns of type `name` are those that a user's table has.

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use std::sync::Arc;
use tenon_storage::SqlType;

const OIDS: &str = "\
    adrelid aggmtranstype aggsortop aggtranstype amopfamily amoplefttype amopmethod amopopr amoprighttype \
    amopsortfamily amprocfamily amproclefttype amprocrighttype attcollation attrelid atttypid castfunc castsource \
    casttarget cfgnamespace cfgowner cfgparser classid classoid collnamespace collowner confrelid conindid \
    connamespace conowner conparentid conrelid contypid datdba datid datoid dattablespace dbid defaclnamespace \
    defaclrole dictnamespace dictowner dicttemplate enumtypid ev_class evtfoid evtowner extnamespace extowner \
    fdwhandler fdwowner fdwvalidator ftrelid ftserver funcid grosysid indexrelid indrelid inhparent inhrelid \
    laninline lanowner lanplcallfoid lanvalidator mapcfg mapdict nspowner objid objnamespace objoid oid opcfamily \
    opcintype opckeytype opcmethod opcnamespace opcowner opfmethod opfnamespace opfowner oprcom oprleft \
    oprnamespace oprnegate oprowner oprresult oprright partdefid partrelid pnnspid pnpubid polrelid prolang \
    pronamespace proowner prorettype provariadic prpubid prrelid prsnamespace pubowner refclassid refobjid relam \
    relfilenode relid relnamespace reloftype relowner relrewrite reltablespace reltoastrelid reltype rngcollation \
    rngmultitypid rngsubopc rngsubtype rngtypid seqrelid seqtypid setdatabase setrole spcowner srvfdw srvid srvowner stxnamespace \
    stxoid stxowner stxrelid tgconstraint tgconstrindid tgconstrrelid tgfoid tgparentid tgrelid tmplnamespace \
    trflang trftype typarray typbasetype typcollation typelem typnamespace typowner typrelid usesysid";

const CHARS: &str = "\
    aggfinalmodify aggkind aggmfinalmodify amoppurpose amtype attalign attcompression attgenerated attidentity \
    attstorage castcontext castmethod collprovider confdeltype confmatchtype confupdtype contype datlocprovider \
    defaclobjtype deptype ev_enabled ev_type evtenabled oprkind partstrat polcmd privtype prokind proparallel \
    provolatile relkind relpersistence relreplident srsubstate subtwophasestate tgenabled typalign typcategory \
    typdelim typstorage typtype";

const NAMES: &str = "\
    amname attname cfgname collname conname datname dictname enumlabel evtevent evtname extname fdwname funcname groname \
    indexname indexrelname lanname matviewname matviewowner nspname opcname opfname oprname plugin policyname polname \
    proname prsname pubname relname rolname rulename schemaname sequencename sequenceowner spcname srvname \
    statistics_name statistics_owner statistics_schemaname stxname subname subslotname tablename tableowner tablespace \
    tgname tgnewtable tgoldtable tmplname typname usename viewname viewowner";

/// A system table's column of that type, as a `name` where it is one.
pub(super) fn column(name: &str, data_type: DataType, nullable: bool) -> Field {
    match data_type == DataType::Utf8 && NAMES.split_ascii_whitespace().any(|own| own == name) {
        true => SqlType::Name.field(name, nullable),
        false => Field::new(name, data_type, nullable),
    }
}

/// Whether a column of system tables has oids.
pub(super) fn has_oids(column: &str) -> bool {
    OIDS.split_ascii_whitespace().any(|name| name == column)
}

/// Which vector type a column of system tables has.
pub(super) fn vector_of(column: &str) -> Option<&'static str> {
    match column {
        "indkey" | "indoption" | "partattrs" => Some("int2vector"),
        "indclass" | "indcollation" | "proargtypes" => Some("oidvector"),
        _ => None,
    }
}

pub(super) fn vector_type(name: &str) -> Option<DataType> {
    let item = match name {
        "int2vector" => DataType::Int16,
        "oidvector" => DataType::UInt32,
        _ => return None,
    };
    Some(DataType::LargeList(Arc::new(Field::new_list_field(item, true))))
}

/// The type of a system table's column; None: what the table has is right.
fn type_of(column: &str) -> Option<DataType> {
    let is_in = |names: &str| names.split_ascii_whitespace().any(|name| name == column);
    let list = |item| Arc::new(Field::new_list_field(item, true));
    if let Some(of) = vector_of(column) {
        return vector_type(of);
    }
    Some(match column {
        "relacl" | "nspacl" | "attacl" | "datacl" | "typacl" | "proacl" | "defaclacl" | "reloptions" | "setconfig"
        | "rolconfig" | "useconfig" | "initprivs" | "evttags" => DataType::List(list(DataType::Utf8View)),
        "hasindexes" => DataType::Boolean,
        "proallargtypes" => DataType::List(list(DataType::UInt32)),
        "proargmodes" | "proargnames" | "proconfig" => DataType::List(list(DataType::Utf8View)),
        "conkey" | "confkey" | "confdelsetcols" => DataType::List(list(DataType::Int16)),
        _ if has_oids(column) => DataType::UInt32,
        _ if is_in(CHARS) => crate::pg::types::char_type(),
        _ => return None,
    })
}

/// Columns that the built-in tables lack: always NULL, unless this database's rows give them.
fn missing(table: &str) -> &'static [&'static str] {
    match table {
        "pg_class" => &["relacl", "reloptions"],
        "pg_collation" => &["colliculocale"],
        "pg_database" => &["datcollversion", "datacl"],
        "pg_namespace" => &["nspacl"],
        "pg_attribute" => &["attacl"],
        "pg_type" => &["typacl"],
        "pg_settings" => &["boot_val"],
        _ => &[],
    }
}

/// PostgreSQL's name of a built-in table's column.
fn name_of<'a>(table: &str, column: &'a str) -> &'a str {
    match (table, column) {
        ("pg_tables", "hasindex") => "hasindexes",
        _ => column,
    }
}

/// A built-in table's schema with the columns and their types as PostgreSQL has them.
pub(super) fn typed(table: &str, schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| {
        let name = name_of(table, field.name());
        let data_type = type_of(name).unwrap_or_else(|| field.data_type().clone());
        let nullable = field.is_nullable() || data_type.is_nested();
        self::column(name, data_type, nullable)
    };
    let lacks = |name: &&&str| schema.field_with_name(name).is_err();
    let more = missing(table).iter().filter(lacks).map(|name| {
        let data_type = type_of(name).unwrap_or(DataType::Utf8);
        Field::new(*name, data_type, true)
    });
    Arc::new(Schema::new(
        schema.fields().iter().map(field).chain(more).collect::<Vec<_>>(),
    ))
}

/// A built-in batch under the schema of `typed`.
pub(super) fn convert(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match (column.data_type(), field.data_type()) {
        (DataType::Utf8, of @ (DataType::List(item) | DataType::LargeList(item))) => {
            let lists = column.as_string::<i32>().iter().map(|text| match text {
                Some(text) => list_of(text, item.data_type())?.cast_to(of),
                None => ScalarValue::try_from(of),
            });
            let lists = lists.collect::<Result<Vec<_>>>()?;
            if lists.is_empty() {
                return Ok(datafusion::arrow::array::new_empty_array(of));
            }
            ScalarValue::iter_to_array(lists)
        }
        (_, of) => Ok(cast(column, of)?),
    });
    let mut columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    for field in &schema.fields()[columns.len()..] {
        columns.push(new_null_array(field.data_type(), batch.num_rows()));
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// `{1,2}` or `1 2`; texts as `['a', 'b']`.
fn list_of(text: &str, of: &DataType) -> Result<ScalarValue> {
    if *of == DataType::Utf8View {
        let items = text.split('\'').skip(1).step_by(2);
        let items: Vec<_> = items.map(|item| ScalarValue::Utf8View(Some(item.into()))).collect();
        return Ok(ScalarValue::List(ScalarValue::new_list(&items, of, true)));
    }
    let items = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|item| !item.is_empty());
    let items = items.map(|item| ScalarValue::from(item).cast_to(of));
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list(&items, of, true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::StringArray;

    #[test]
    fn shipped_texts_become_lists() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("1 2"), None, Some("")]));
        let before = RecordBatch::try_from_iter([("indkey", column)]).unwrap();
        let after = convert(&before, &typed("pg_index", &before.schema())).unwrap();
        let lists = after.column(0).as_list::<i64>();
        assert_eq!(lists.value_offsets(), [0, 2, 2, 2]);
        assert!(datafusion::arrow::array::Array::is_null(lists, 1));
    }
}
