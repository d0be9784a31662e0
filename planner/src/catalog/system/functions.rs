//! The functions that catalog queries call. Those about this database's objects read the snapshot; the rest come from
//! `datafusion-pg-catalog`.
//!
//! More than 400 lines because it is a table of functions, a few lines each.

use super::activity;
use super::indexes::ShownIndex;
use super::regnames::RegType;
use super::relations::relations;
use super::rows::{self, row};
use super::shown_text::pretty_text;
use super::{
    DATABASE_OID, checks, dependencies, foreign_keys, index_properties, names, partitions, procs, regnames, relations,
    rights, signatures, types, vectors, visible,
};
use crate::catalog::bind::Binder;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, Int32Array, StructArray, new_empty_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::catalog::{MemoryCatalogProvider, TableFunction};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use tenon_storage::numeric::Numeric;
use tenon_storage::roles::BOOTSTRAP;
use tenon_storage::{Object, ObjectKey, Relation, Sequence, quote};

/// What the crate registers: made at first use.
fn built_in() -> Option<&'static SessionState> {
    static BUILT_IN: OnceLock<Option<SessionState>> = OnceLock::new();
    let made = BUILT_IN.get_or_init(|| {
        let context = SessionContext::new();
        context.register_catalog("tenon", Arc::new(MemoryCatalogProvider::new()));
        datafusion_pg_catalog::pg_catalog::setup_pg_catalog(&context, "tenon", EmptyContextProvider).ok()?;
        Some(context.state())
    });
    made.as_ref()
}

/// Functions of the crate that a statement may call, by name.
const BUILT_IN: &[&str] = &["quote_ident", "parse_ident", "array_upper", "array_lower"];

/// A table function of the crate.
pub(crate) fn table_function(name: &str) -> Option<Arc<TableFunction>> {
    if name != "pg_get_keywords" {
        return None;
    }
    built_in()?.table_functions().get(name).cloned()
}

/// Whether `rows_of` knows a function.
pub(crate) fn gives_rows(name: &str) -> bool {
    matches!(name, "pg_partition_ancestors" | "pg_partition_tree")
}

/// The rows of a table function over this database's objects; None: it is none of these.
pub(crate) fn rows_of(binder: &Binder, name: &str, args: &[ScalarValue]) -> Option<Result<Arc<MemTable>>> {
    let (columns, rows): (&[(&str, &str)], _) = match (name, args) {
        ("pg_partition_ancestors", [_]) => {
            let oids = partitions::ancestors(binder, member(binder, args));
            let rows = oids.into_iter().map(|oid| row! { "relid": oid }).collect();
            (&[("relid", "oid")], rows)
        }
        ("pg_partition_tree", [_]) => (&partitions::TREE, partitions::tree(binder, member(binder, args))),
        _ => return None,
    };
    Some(rows::table(&rows::schema(columns), &[], &rows))
}

/// The relation that the first argument names, or has as its oid.
fn relation(binder: &Binder, args: &[ScalarValue]) -> Option<Relation> {
    match text(args, 0) {
        Some(name) if name.parse::<u32>().is_err() => named(binder, &name),
        Some(oid) => find(binder, oid.parse().ok()?),
        None => find(binder, number(args, 0)?),
    }
}

/// The same, or the index: its oid.
fn member(binder: &Binder, args: &[ScalarValue]) -> Option<u32> {
    match text(args, 0) {
        Some(name) if name.parse::<u32>().is_err() => regnames::relation(binder, &name),
        Some(oid) => oid.parse().ok(),
        None => number(args, 0)?.try_into().ok(),
    }
}

/// A catalog function by its name.
pub(crate) fn function(binder: &Binder, name: &str) -> Option<Arc<ScalarUDF>> {
    if let Some(own) = own(binder, name) {
        return Some(own);
    }
    let name = BUILT_IN.iter().find(|built_in| **built_in == name)?;
    built_in()?.scalar_functions().get(*name).cloned()
}

/// `value = ANY (array)` where the array is a column of a system table: a list, or the text of one, such as `{1,2}`.
pub(super) const TEXT_ARRAY_HAS: &str = "tenon_text_array_has";

/// What `information_schema._pg_expandarray` gives row by row, as a list.
pub(super) const EXPANDED: &str = "tenon_expanded";

/// What `pg_partition_ancestors` gives row by row, as a list. Oids, where PostgreSQL prints names.
pub(super) const ANCESTORS: &str = "tenon_partition_ancestors";

/// The function that gives a column of what `pg_partition_tree` gives row by row, as a list.
pub(super) fn tree_list(column: &str) -> String {
    format!("tenon_partition_tree_{column}")
}

fn tree(binder: &Binder, name: &str) -> Option<(DataType, Box<Body>)> {
    let (column, of) = partitions::TREE
        .into_iter()
        .find(|(column, _)| tree_list(column) == name)?;
    let item = rows::schema(&[(column, of)]).field(0).data_type().clone();
    let own = binder.clone();
    let list = item.clone();
    let body = move |args: &[ScalarValue]| {
        let rows = partitions::tree(&own, member(&own, args));
        let values = rows.iter().map(|row| rows::value_of(row, column, &list));
        let values: Vec<ScalarValue> = values.collect();
        ScalarValue::List(ScalarValue::new_list(&values, &list, true))
    };
    Some((DataType::new_list(item, true), Box::new(body)))
}

/// The function that reads an object's name (or oid) and gives its oid; it fails where there is none of that name.
pub(super) fn reg_oid(alias: RegType) -> String {
    format!("tenon_{alias:?}_oid").to_lowercase()
}

/// The function that gives the name of an object by its oid (or name).
pub(super) fn reg_name(alias: RegType) -> String {
    format!("tenon_{alias:?}_name").to_lowercase()
}

/// The elements of a list.
pub(super) fn elements(array: &ScalarValue) -> Option<ArrayRef> {
    match array {
        ScalarValue::List(list) if list.is_valid(0) => Some(list.value(0)),
        ScalarValue::LargeList(list) if list.is_valid(0) => Some(list.value(0)),
        _ => None,
    }
}

fn text_array_has(args: &[ScalarValue]) -> Result<Option<bool>> {
    let Some(value) = args.get(1).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let value = value.to_string();
    if let Some(items) = args.first().and_then(elements) {
        for row in 0..items.len() {
            if ScalarValue::try_from_array(&items, row)?.to_string() == value {
                return Ok(Some(true));
            }
        }
        return Ok(Some(false));
    }
    let Some(array) = text(args, 0) else { return Ok(None) };
    let mut items = array
        .trim_matches(['{', '}'])
        .split([',', ' '])
        .filter(|element| !element.is_empty());
    Ok(Some(items.any(|element| element.trim_matches('"') == value)))
}

/// The elements of an array with their numbers from 1, as a list of records `(x, n)`.
fn expanded(args: &[ScalarValue]) -> Result<ScalarValue> {
    let items = match args.first().and_then(elements) {
        Some(items) => items,
        None => new_empty_array(&DataType::Int32),
    };
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=items.len() as i32));
    let records = StructArray::try_new(pair(), vec![cast(&items, &DataType::Int32)?, numbers], None)?;
    Ok(ScalarValue::List(Arc::new(
        SingleRowListArrayBuilder::new(Arc::new(records)).build_list_array(),
    )))
}

fn pair() -> Fields {
    Fields::from(vec![
        Field::new("x", DataType::Int32, true),
        Field::new("n", DataType::Int32, true),
    ])
}

/// Functions over names and oids of objects.
fn reg_function(binder: &Binder, name: &str) -> Option<(DataType, Box<Fallible>)> {
    let binder = binder.clone();
    if let Some(alias) = RegType::looked_up_by(name) {
        let find = move |args: &[ScalarValue]| {
            let oid = text(args, 0).and_then(|name| alias.oid(&binder, &name));
            Ok(ScalarValue::UInt32(oid))
        };
        return Some((DataType::UInt32, Box::new(find)));
    }
    let (alias, what) = name.strip_prefix("tenon_")?.split_once('_')?;
    let alias = RegType::named(&format!("reg{alias}"))?;
    let oid = move |binder: &Binder, args: &[ScalarValue]| match (number(args, 0), text(args, 0)) {
        (Some(oid), _) => Ok(Some(oid)),
        (None, Some(name)) => match alias.oid(binder, &name) {
            Some(oid) => Ok(Some(oid.into())),
            None => Err(to_datafusion(alias.undefined(binder, &name))),
        },
        (None, None) => Ok(None),
    };
    match what {
        "oid" => Some((
            DataType::UInt32,
            Box::new(move |args| Ok(ScalarValue::UInt32(oid(&binder, args)?.map(|oid| oid as u32)))),
        )),
        "name" => Some((
            DataType::Utf8,
            Box::new(move |args| {
                Ok(ScalarValue::Utf8(
                    oid(&binder, args)?.map(|oid| alias.name(&binder, oid)),
                ))
            }),
        )),
        _ => None,
    }
}

type Body = dyn Fn(&[ScalarValue]) -> ScalarValue + Send + Sync;
pub(super) type Fallible = dyn Fn(&[ScalarValue]) -> Result<ScalarValue> + Send + Sync;

fn own(binder: &Binder, name: &str) -> Option<Arc<ScalarUDF>> {
    let (returns, body): (DataType, Box<Fallible>) = match name {
        TEXT_ARRAY_HAS => (
            DataType::Boolean,
            Box::new(|args| Ok(ScalarValue::Boolean(text_array_has(args)?))),
        ),
        EXPANDED => (DataType::new_list(DataType::Struct(pair()), true), Box::new(expanded)),
        "pg_stat_statements_reset" => {
            let own = binder.clone();
            let reset = move |args: &[ScalarValue]| {
                if !activity::sees_all(&own) {
                    let message = "permission denied for function pg_stat_statements_reset";
                    return Err(to_datafusion(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message)));
                }
                // User, database, statement; 0: any. Whoever asks for another user or database means nothing that is here.
                let of = |at: usize, own: u32| number(args, at).is_none_or(|oid| oid == 0 || oid == i64::from(own));
                if of(0, BOOTSTRAP) && of(1, DATABASE_OID) {
                    own.services.counted.reset(number(args, 2).filter(|id| *id != 0));
                }
                Ok(ScalarValue::Utf8(Some(String::new())))
            };
            (DataType::Utf8, Box::new(reset))
        }
        "pg_get_serial_sequence" => {
            let own = binder.clone();
            let find = move |args: &[ScalarValue]| {
                let found = text(args, 0).zip(text(args, 1));
                let found = found.map(|(table, column)| serial_sequence(&own, &table, &column));
                Ok(ScalarValue::Utf8(found.transpose().map_err(to_datafusion)?.flatten()))
            };
            (DataType::Utf8, Box::new(find))
        }
        _ => match reg_function(binder, name)
            .or_else(|| rights::function(binder, name))
            .or_else(|| vectors::function(name))
        {
            Some(found) => found,
            None => {
                let (returns, body) = plain(binder, name)?;
                (returns, Box::new(move |args| Ok(body(args))))
            }
        },
    };
    Some(Arc::new(ScalarUDF::new_from_impl(CatalogFunction {
        name: name.to_string(),
        returns,
        signature: match name {
            // What changes something must do so once.
            "pg_stat_statements_reset" => Signature::one_of(
                vec![TypeSignature::VariadicAny, TypeSignature::Nullary],
                Volatility::Volatile,
            ),
            _ => Signature::variadic_any(Volatility::Stable),
        },
        body: body.into(),
    })))
}

/// Objects that PostgreSQL ships have smaller oids.
pub(super) const FIRST_OID: i64 = 16_384;

/// Functions that cannot fail.
fn plain(binder: &Binder, name: &str) -> Option<(DataType, Box<Body>)> {
    if let Some(found) = tree(binder, name) {
        return Some(found);
    }
    let own = binder.clone();
    let found: (DataType, Box<Body>) = match name {
        "format_type" => (
            DataType::Utf8,
            Box::new(move |args| {
                let name = |oid| types::display(&own, oid, number(args, 1));
                let unknown = |oid| if oid == 0 { "-" } else { "???" }.to_string();
                ScalarValue::Utf8(number(args, 0).map(|oid| name(oid).unwrap_or_else(|| unknown(oid))))
            }),
        ),
        "pg_get_userbyid" => {
            let name = move |args: &[ScalarValue]| {
                let oid = number(args, 0)?;
                Some(u32::try_from(oid).map_or_else(|_| format!("unknown (OID={oid})"), |oid| rights::name(&own, oid)))
            };
            (DataType::Utf8, Box::new(move |args| ScalarValue::Utf8(name(args))))
        }
        "pg_table_is_visible"
        | "pg_type_is_visible"
        | "pg_function_is_visible"
        | "pg_operator_is_visible"
        | "pg_opclass_is_visible"
        | "pg_collation_is_visible"
        | "pg_conversion_is_visible"
        | "pg_opfamily_is_visible"
        | "pg_ts_parser_is_visible"
        | "pg_ts_dict_is_visible"
        | "pg_ts_template_is_visible"
        | "pg_ts_config_is_visible"
        | "pg_statistics_obj_is_visible" => (DataType::Boolean, {
            let kind = name.to_string();
            Box::new(move |args| {
                let oid = number(args, 0);
                ScalarValue::Boolean(oid.and_then(|oid| visible::is_visible(&own, &kind, oid)))
            })
        }),
        "pg_get_expr" => (
            DataType::Utf8,
            Box::new(|args| {
                let is_pretty = matches!(args.get(2), Some(ScalarValue::Boolean(Some(true))));
                let shown = text(args, 0);
                ScalarValue::Utf8(if is_pretty {
                    shown.map(|text| pretty_text(names::without_parentheses(text)))
                } else {
                    shown
                })
            }),
        ),
        "pg_get_indexdef" => (
            DataType::Utf8,
            Box::new(move |args| {
                let found = number(args, 0).and_then(|oid| ShownIndex::find(&own, oid));
                let is_pretty = matches!(args.get(2), Some(ScalarValue::Boolean(Some(true))));
                ScalarValue::Utf8(found.map(|index| match number(args, 1).filter(|at| *at > 0) {
                    None => index.definition(&own, is_pretty),
                    Some(at) => match is_pretty {
                        true => pretty_text(index.key(&own, at as usize)),
                        false => index.key(&own, at as usize),
                    },
                }))
            }),
        ),
        "pg_get_constraintdef" => (
            DataType::Utf8,
            Box::new(move |args| {
                let oid = number(args, 0);
                let is_it = |index: &ShownIndex<'_>| Some(i64::from(index.constraint_oid())) == oid;
                let unique = ShownIndex::constraints(&own)
                    .find(is_it)
                    .map(|index| index.constraint_definition(&own));
                let foreign = || foreign_keys::definition(&own, oid?);
                let is_pretty = matches!(args.get(1), Some(ScalarValue::Boolean(Some(true))));
                let check = || checks::definition(&own, oid?, is_pretty);
                ScalarValue::Utf8(unique.or_else(foreign).or_else(check))
            }),
        ),
        "pg_get_viewdef" => (
            DataType::Utf8,
            Box::new(move |args| {
                let relation = relation(&own, args);
                let query = relation.as_ref().and_then(dependencies::query);
                ScalarValue::Utf8(query.map(|query| format!(" {query};")))
            }),
        ),
        ANCESTORS => (
            DataType::new_list(DataType::UInt32, true),
            Box::new(move |args| {
                let oids = partitions::ancestors(&own, member(&own, args));
                let oids: Vec<_> = oids.into_iter().map(|oid| ScalarValue::UInt32(Some(oid))).collect();
                ScalarValue::List(ScalarValue::new_list(&oids, &DataType::UInt32, true))
            }),
        ),
        "pg_partition_root" => (
            DataType::UInt32,
            Box::new(move |args| ScalarValue::UInt32(partitions::ancestors(&own, member(&own, args)).last().copied())),
        ),
        "pg_get_partition_constraintdef" => (
            DataType::Utf8,
            Box::new(move |args| {
                let relation = number(args, 0).and_then(|oid| find(&own, oid));
                ScalarValue::Utf8(relation.and_then(|relation| partitions::constraint(&own, &relation)))
            }),
        ),
        "pg_get_partkeydef" => (
            DataType::Utf8,
            Box::new(move |args| {
                let relation = number(args, 0).and_then(|oid| find(&own, oid));
                ScalarValue::Utf8(relation.and_then(|relation| partitions::key(&relation)))
            }),
        ),
        "obj_description" | "shobj_description" => (
            DataType::Utf8,
            Box::new(move |args| {
                let class = text(args, 1);
                let oid = number(args, 0).filter(|oid| {
                    let oid = u32::try_from(*oid).unwrap_or_default();
                    class
                        .as_deref()
                        .is_none_or(|class| relations::is_of_class(&own, oid, class))
                });
                ScalarValue::Utf8(oid.and_then(|oid| comment(&own, oid, 0)))
            }),
        ),
        "col_description" => (
            DataType::Utf8,
            Box::new(move |args| {
                let (oid, column) = (number(args, 0), number(args, 1));
                ScalarValue::Utf8(oid.zip(column).and_then(|(oid, column)| comment(&own, oid, column)))
            }),
        ),
        "pg_indexam_has_property" | "pg_index_has_property" => {
            let of_method = name == "pg_indexam_has_property";
            let has = move |args: &[ScalarValue]| match of_method {
                true => index_properties::of_method(number(args, 0)?, &text(args, 1)?.to_ascii_lowercase()),
                false => index_properties::of_index(&own, member(&own, args)?, &text(args, 1)?.to_ascii_lowercase()),
            };
            (DataType::Boolean, Box::new(move |args| ScalarValue::Boolean(has(args))))
        }
        "pg_index_column_has_property" => {
            let has = move |args: &[ScalarValue]| {
                let property = text(args, 2)?.to_ascii_lowercase();
                index_properties::of_column(&own, member(&own, args)?, number(args, 1)?, &property)
            };
            (DataType::Boolean, Box::new(move |args| ScalarValue::Boolean(has(args))))
        }
        "pg_get_function_sqlbody"
        | "pg_get_ruledef"
        | "pg_get_triggerdef"
        | "pg_get_statisticsobjdef_columns"
        | "pg_tablespace_location" => (DataType::Utf8, Box::new(|_| ScalarValue::Utf8(None))),
        "pg_get_function_result" => (
            DataType::Utf8,
            Box::new(move |args| {
                let shown = |oid| procs::result(&own, oid).or_else(|| signatures::result(oid));
                ScalarValue::Utf8(number(args, 0).and_then(shown))
            }),
        ),
        "pg_get_function_arguments" | "pg_get_function_identity_arguments" => {
            let with_defaults = name == "pg_get_function_arguments";
            let shown = move |oid| procs::arguments(&own, oid, with_defaults).or_else(|| signatures::arguments(oid));
            (
                DataType::Utf8,
                Box::new(move |args| ScalarValue::Utf8(number(args, 0).and_then(&shown))),
            )
        }
        "pg_get_function_arg_default" => (
            DataType::Utf8,
            Box::new(move |args| {
                let asked = number(args, 0).zip(number(args, 1));
                ScalarValue::Utf8(asked.and_then(|(oid, at)| procs::argument_default(&own, oid, at)))
            }),
        ),
        "pg_get_functiondef" => (
            DataType::Utf8,
            Box::new(move |args| ScalarValue::Utf8(number(args, 0).and_then(|oid| procs::definition(&own, oid)))),
        ),
        "pg_encoding_to_char" => (
            DataType::Utf8,
            Box::new(|args| {
                let name = |number: i64| ENCODINGS.get(usize::try_from(number).ok()?);
                ScalarValue::Utf8(number(args, 0).map(|number| name(number).map_or("", |name| name).to_string()))
            }),
        ),
        "pg_char_to_encoding" => (
            DataType::Int32,
            Box::new(|args| {
                let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "").to_uppercase();
                let at = |name: String| ENCODINGS.iter().position(|own| plain(own) == plain(&name));
                ScalarValue::Int32(text(args, 0).map(|name| at(name).map_or(-1, |at| at as i32)))
            }),
        ),
        "pg_relation_size" | "pg_table_size" | "pg_total_relation_size" => (
            DataType::Int64,
            Box::new(move |args| {
                let relation = match args.first() {
                    Some(ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name))) => named(&own, name),
                    _ => number(args, 0).and_then(|oid| find(&own, oid)),
                };
                let bytes = relation.and_then(|relation| Some(relation.as_table()?.bytes() as i64));
                ScalarValue::Int64(Some(bytes.unwrap_or(0)))
            }),
        ),
        "pg_indexes_size" | "pg_stat_get_numscans" => (DataType::Int64, Box::new(|_| ScalarValue::Int64(Some(0)))),
        "pg_database_size" | "pg_tablespace_size" => (
            DataType::Int64,
            Box::new(move |_| ScalarValue::Int64(Some(own.services.database.budget().in_use_bytes() as i64))),
        ),
        "pg_size_pretty" => (DataType::Utf8, Box::new(|args| ScalarValue::Utf8(size_of(args)))),
        "has_tablespace_privilege" | "pg_relation_is_publishable" | "row_security_active" => {
            (DataType::Boolean, Box::new(|_| ScalarValue::Boolean(Some(true))))
        }
        "pg_is_other_temp_schema" => (DataType::Boolean, Box::new(|_| ScalarValue::Boolean(Some(false)))),
        _ => return None,
    };
    Some(found)
}

/// As PostgreSQL numbers them.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

/// What COMMENT ON says of an object, or of one of its columns.
fn comment(binder: &Binder, oid: i64, column: i64) -> Option<String> {
    let key = ObjectKey::Comment {
        oid: oid.try_into().ok()?,
        column: column.try_into().ok()?,
    };
    match binder.snapshot.objects().get(&key) {
        Some(Object::Comment(text)) => Some(text.to_string()),
        _ if column == 0 => checks::comment(binder, oid),
        _ => None,
    }
}

/// The sequence that a column owns.
fn serial_sequence(binder: &Binder, table: &str, column: &str) -> Result<Option<String>, SqlError> {
    let table = match binder.names().textual(table) {
        // The system's tables own none.
        Err(_) if regnames::relation(binder, table).is_some() => return Ok(None),
        found => found?,
    };
    if table.columns().index_of(column).is_err() {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name());
        return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
    }
    let owned = |sequence: &&Arc<Sequence>| {
        let owner = sequence.owner.as_ref();
        owner.is_some_and(|owner| owner.table_oid == table.oid() && owner.column == column)
    };
    let mut sequences = binder.snapshot.relations().filter_map(Relation::as_sequence);
    Ok(sequences.find(owned).map(|sequence| {
        format!(
            "{}.{}",
            quote::identifier(&sequence.schema_name),
            quote::identifier(&sequence.name)
        )
    }))
}

pub(super) fn find(binder: &Binder, oid: i64) -> Option<Relation> {
    relations(binder)
        .find(|relation| i64::from(relation.oid()) == oid)
        .cloned()
}

/// A relation by the text of its name, as regclass reads it.
fn named(binder: &Binder, name: &str) -> Option<Relation> {
    binder.names().textual(name).ok().cloned()
}

/// The schema and the name of an index.
pub(super) fn index_by_oid(binder: &Binder, oid: i64) -> Option<(String, String)> {
    let found = ShownIndex::find(binder, oid)?;
    Some((found.relation.schema_name().to_string(), found.name.to_string()))
}

fn number(args: &[ScalarValue], at: usize) -> Option<i64> {
    match args.get(at)?.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(value)) => value,
        _ => None,
    }
}

pub(super) fn text(args: &[ScalarValue], at: usize) -> Option<String> {
    args.get(at)?.try_as_str().flatten().map(str::to_string)
}

/// A size of any number: what is below the second unit is shown with its digits.
fn size_of(args: &[ScalarValue]) -> Option<String> {
    let numeric = match args.first()? {
        ScalarValue::LargeBinary(bytes) => Numeric::from_bytes(bytes.as_deref()?),
        ScalarValue::Decimal128(unscaled, _, scale) => Numeric::of_i128((*unscaled)?, *scale),
        _ => return number(args, 0).map(|bytes| size_pretty(bytes.into())),
    };
    let whole = match &numeric {
        Numeric::Finite(value) => Numeric::from(value.truncated(0)).to_i128().ok().flatten(),
        _ => None,
    };
    match whole {
        Some(whole) if whole.abs() >= BYTES_MAX => Some(size_pretty(whole)),
        _ => Some(format!("{numeric} bytes")),
    }
}

/// Sizes from here on are shown in kB.
const BYTES_MAX: i128 = 10 * 1024;

/// As PostgreSQL prints sizes: the first unit in which the number stays below 20,480 halves, rounded.
fn size_pretty(bytes: i128) -> String {
    if bytes.abs() < BYTES_MAX {
        return format!("{bytes} bytes");
    }
    let units = ["kB", "MB", "GB", "TB", "PB"];
    let (mut halves, mut unit) = (bytes / 512, 0);
    while halves.abs() >= 20 * 1024 - 1 && unit + 1 < units.len() {
        halves /= 1024;
        unit += 1;
    }
    format!("{} {}", (halves + halves.signum()) / 2, units[unit])
}

/// A function of few rows, evaluated one by one.
struct CatalogFunction {
    name: String,
    returns: DataType,
    signature: Signature,
    body: Arc<Fallible>,
}

impl fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogFunction").field("name", &self.name).finish()
    }
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let of_row = args.args.iter().map(|arg| match arg {
                ColumnarValue::Scalar(value) => Ok(value.clone()),
                ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row),
            });
            values.push((self.body)(&of_row.collect::<Result<Vec<_>>>()?)?);
        }
        if constant {
            return Ok(ColumnarValue::Scalar(values.remove(0)));
        }
        let array: ArrayRef = if values.is_empty() {
            datafusion::arrow::array::new_empty_array(&self.returns)
        } else {
            ScalarValue::iter_to_array(values)?
        };
        Ok(ColumnarValue::Array(array))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_read_as_in_postgresql() {
        assert_eq!(super::size_pretty(10), "10 bytes");
        assert_eq!(super::size_pretty(10 * 1024), "10 kB");
        assert_eq!(super::size_pretty(123_456_789), "118 MB");
    }
}
