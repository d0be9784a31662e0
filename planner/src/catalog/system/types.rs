//! The rows of `pg_type` and `pg_enum` that are of this database: enums and their arrays, domains, composite types and those of
//! relations' rows.

use super::functions::FIRST_OID;
use super::names;
use super::operator_classes;
use super::regnames::split;
use super::relations::{relations, schema_oid};
use super::rights;
use super::rows::{Row, row};
use super::shown_text::shown_text;
use super::visible::is_visible;
use crate::catalog::bind::Binder;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_storage::composite_type::array_of_rows;
use tenon_storage::range::{RangeType, UserRange};
use tenon_storage::{Composite, Domain, EnumType, Object, Relation, Secured, SqlType, quote};

/// Whether there is a type of a relation's rows.
pub(super) fn has_row_type(relation: &Relation) -> bool {
    relation.as_sequence().is_none()
}

/// The oid of the type of arrays of a table's rows; those of others are arrays of records.
fn arrays_of(relation: &Relation) -> Option<u32> {
    let table = relation.as_table()?;
    table.definition().query.is_none().then(|| array_of_rows(table.oid()))
}

fn enums(binder: &Binder) -> impl Iterator<Item = &'static EnumType> + '_ {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Enum(of) => Some(*of),
        _ => None,
    })
}

pub(super) fn types(binder: &Binder) -> Vec<Row> {
    let both = |of: &'static EnumType| {
        [
            typed(
                binder,
                (of.oid, &of.schema_name, &of.name),
                row! {
                    "typlen": 4_i64,
                    "typbyval": true,
                    "typtype": "e",
                    "typcategory": "E",
                    "typarray": of.array_oid,
                    "typinput": "enum_in",
                    "typoutput": "enum_out",
                    "typreceive": "enum_recv",
                    "typsend": "enum_send",
                    "typalign": "i",
                    "typstorage": "p",
                    "typtypmod": -1_i64,
                },
            ),
            array(
                binder,
                (of.array_oid, &of.schema_name, &of.array_type_name),
                (of.oid, "i"),
            ),
        ]
    };
    let ranges = binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Range(of, multi) => Some(range(binder, of, *multi)),
        _ => None,
    });
    let others = binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Domain(of) => Some(domain(binder, of)),
        Object::Composite(of) => Some(composite(binder, (of.oid, &of.schema_name, &of.name), of.array_oid)),
        _ => None,
    });
    let rows_of = relations(binder).filter(|relation| has_row_type(relation));
    let rows_of = rows_of.flat_map(|relation| {
        let (oid, schema, name) = (relation.oid(), relation.schema_name(), relation.name());
        let array_oid = arrays_of(relation).unwrap_or_default();
        let own = composite(binder, (oid, schema, name), array_oid);
        let array = (array_oid != 0).then(|| array(binder, (array_oid, schema, &format!("_{name}")), (oid, "d")));
        std::iter::once(own).chain(array)
    });
    let arrays = composites(binder).map(|of| {
        let name = format!("_{}", of.name);
        array(binder, (of.array_oid, &of.schema_name, &name), (of.oid, "d"))
    });
    let all = enums(binder).flat_map(both).chain(others);
    all.chain(arrays).chain(rows_of).chain(ranges.flatten()).collect()
}

/// A type of ranges, or of their multiranges, and that of its arrays.
fn range(binder: &Binder, of: &'static UserRange, multi: bool) -> [Row; 2] {
    let all = RangeType::User(of);
    let ((oid, array_oid), name, array_name, kind, category, functions) = match multi {
        false => {
            let functions = ["range_in", "range_out", "range_recv", "range_send"];
            (all.oids(), all.name(), all.array_type_names().0, "r", "R", functions)
        }
        true => {
            let functions = ["multirange_in", "multirange_out", "multirange_recv", "multirange_send"];
            let (oids, names) = (all.multirange_oids(), all.array_type_names());
            (oids, all.multirange_name(), names.1, "m", "R", functions)
        }
    };
    let align = if names::length(of.subtype) == 8 { "d" } else { "i" };
    let [input, output, receive, send] = functions;
    let own = row! {
        "typlen": -1_i64,
        "typtype": kind,
        "typcategory": category,
        "typarray": array_oid,
        "typinput": input,
        "typoutput": output,
        "typreceive": receive,
        "typsend": send,
        "typanalyze": if multi { "multirange_typanalyze" } else { "range_typanalyze" },
        "typalign": align,
        "typstorage": "x",
        "typtypmod": -1_i64,
    };
    [
        typed(binder, (oid, &of.schema_name, name), own),
        array(binder, (array_oid, &of.schema_name, array_name), (oid, align)),
    ]
}

/// The rows of `pg_range` that are of this database.
pub(super) fn of_ranges(binder: &Binder) -> Vec<Row> {
    let own = binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Range(of, false) => Some(row! {
            "rngtypid": of.oid,
            "rngsubtype": of.subtype.oid(),
            "rngmultitypid": of.multirange_oid,
            "rngcollation": if of.subtype.is_collated() { 100_i64 } else { 0 },
            "rngsubopc": operator_classes::default_of(of.subtype),
            "rngcanonical": "-",
            "rngsubdiff": "-",
        }),
        _ => None,
    });
    own.collect()
}

/// The composite types that have a type of their arrays.
fn composites(binder: &Binder) -> impl Iterator<Item = &Arc<Composite>> + '_ {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Composite(of) if of.array_oid != 0 => Some(of),
        _ => None,
    })
}

/// The type of arrays of an element, by its oid and alignment.
fn array(binder: &Binder, named: (u32, &str, &str), (element, alignment): (u32, &str)) -> Row {
    typed(
        binder,
        named,
        row! {
            "typlen": -1_i64,
            "typtype": "b",
            "typcategory": "A",
            "typelem": element,
            "typsubscript": "array_subscript_handler",
            "typinput": "array_in",
            "typoutput": "array_out",
            "typreceive": "array_recv",
            "typsend": "array_send",
            "typanalyze": "array_typanalyze",
            "typalign": alignment,
            "typstorage": "x",
            "typtypmod": -1_i64,
        },
    )
}

/// A row with what all types have.
fn typed(binder: &Binder, (oid, schema, name): (u32, &str, &str), rest: Row) -> Row {
    let mut row = row! {
        "oid": oid,
        "typname": name,
        "typnamespace": schema_oid(binder, schema),
        "typowner": binder.snapshot.owner(oid),
        "typacl": rights::acl(binder, Secured::Type, oid),
        "typisdefined": true,
        "typdelim": ",",
    };
    row.extend(rest);
    row
}

fn domain(binder: &Binder, of: &Arc<Domain>) -> Row {
    let chain = binder.domain_chain(of);
    // The base may be another domain.
    let base = chain.iter().nth_back(1).map(|base| base.oid);
    let default = chain.iter().rev().find_map(|of| of.default.as_deref());
    let default = default.map(|text| shown_text(binder, text));
    let category = match of.base {
        SqlType::Array(_) => "A",
        base if base.is_string() => "S",
        SqlType::Bool => "B",
        base if base.is_range() => "R",
        base if base.data_type().is_temporal() => "D",
        base if base.data_type().is_numeric() => "N",
        _ => "U",
    };
    typed(
        binder,
        (of.oid, &of.schema_name, &of.name),
        row! {
            "typlen": names::length(of.base),
            "typbyval": (1..=8).contains(&names::length(of.base)) && names::length(of.base) != 6,
            "typtype": "d",
            "typcategory": category,
            "typinput": "domain_in",
            "typreceive": "domain_recv",
            "typcollation": if of.base.is_collated() { 100_i64 } else { 0 },
            "typnotnull": of.not_null,
            "typbasetype": base.unwrap_or_else(|| of.base.oid()),
            "typtypmod": i64::from(of.base.typmod()),
            "typdefaultbin": default.clone(),
            "typdefault": default,
            "typalign": "i",
            "typstorage": match of.base {
                SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => "m",
                SqlType::Inet | SqlType::Cidr => "m",
                base if names::length(base) < 0 => "x",
                _ => "p",
            },
        },
    )
}

/// The type of a composite type, or of a relation's rows; its columns are those of the `pg_class` row of the same oid.
fn composite(binder: &Binder, named: (u32, &str, &str), array_oid: u32) -> Row {
    typed(
        binder,
        named,
        row! {
            "typrelid": named.0,
            "typlen": -1_i64,
            "typtype": "c",
            "typcategory": "C",
            "typarray": array_oid,
            "typinput": "record_in",
            "typoutput": "record_out",
            "typreceive": "record_recv",
            "typsend": "record_send",
            "typalign": "d",
            "typstorage": "x",
            "typtypmod": -1_i64,
        },
    )
}

pub(super) fn labels(binder: &Binder) -> Vec<Row> {
    let label = |of: &'static EnumType| {
        of.labels.iter().map(|own| {
            row! {
                "oid": own.oid,
                "enumtypid": of.oid,
                "enumsortorder": f64::from(own.order),
                "enumlabel": own.label.as_str(),
            }
        })
    };
    enums(binder).flat_map(label).collect()
}

/// The oid of a type's name, or of an enum's array's: `color`, `public.color`, `color[]`, `_color`.
pub(super) fn oid(binder: &Binder, name: &str) -> Option<u32> {
    if let Some(element) = name.strip_suffix("[]") {
        return array_of(binder, element.trim_end());
    }
    let found = binder.type_named(split(name), |object| Some(identity(object)?.0));
    let of_rows = || {
        let relation = binder.names().textual(name).ok()?;
        has_row_type(relation).then(|| relation.oid())
    };
    let of_items = || {
        let mut parts = split(name);
        let last = parts.pop()?;
        parts.push(last.strip_prefix('_')?.to_string());
        let quoted: Vec<String> = parts.iter().map(|part| quote::name(part)).collect();
        array_of(binder, &quoted.join("."))
    };
    found.or_else(of_rows).or_else(of_items)
}

/// The name of a type, as `format_type` writes it.
pub(crate) fn name(binder: &Binder, oid: i64) -> Option<String> {
    let rows_of = relations(binder).filter(|relation| has_row_type(relation));
    let rows_of = rows_of.map(|relation| (relation.oid(), relation.schema_name(), relation.name()));
    let types = binder.snapshot.objects().values().filter_map(identity);
    let arrays = enums(binder).map(|of| (of.array_oid, of.schema_name.as_str(), of.name.as_str()));
    let of_records = composites(binder).map(|of| (of.array_oid, of.schema_name.as_str(), of.name.as_str()));
    let of_ranges = binder.snapshot.objects().values().filter_map(|object| {
        let (oid, name) = array_of_ranges(object)?;
        Some((oid, identity(object)?.1, name))
    });
    let of_rows = relations(binder).filter_map(|relation| {
        let oid = arrays_of(relation)?;
        Some((oid, relation.schema_name(), relation.name()))
    });
    let arrays: Vec<_> = arrays.chain(of_records).chain(of_ranges).chain(of_rows).collect();
    let is_array = arrays.iter().any(|(own, ..)| i64::from(*own) == oid);
    let mut all = arrays.into_iter().chain(types).chain(rows_of);
    let (_, schema, name) = all.find(|(own, ..)| i64::from(*own) == oid)?;
    let mut name = quote::identifier(name);
    if is_array {
        name.push_str("[]");
    }
    let in_path = || binder.facts.path.iter().any(|of| of == schema);
    let is_found = is_visible(binder, "pg_type_is_visible", oid);
    Some(match is_found.unwrap_or_else(in_path) {
        true => name,
        false => format!("{}.{name}", quote::identifier(schema)),
    })
}

/// The names, as `format_type` writes them, of types and of their arrays that have others by themselves, by their oids.
pub(crate) fn written_otherwise(binder: &Binder) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for object in binder.snapshot.objects().values() {
        let Some((oid, schema, own)) = identity(object) else {
            continue;
        };
        let first = binder.facts.path.first().is_some_and(|first| first == schema);
        if first && quote::identifier(own) == own {
            continue;
        }
        let array = match object {
            Object::Enum(of) => Some(of.array_oid),
            Object::Composite(of) => Some(of.array_oid),
            _ => array_of_ranges(object).map(|(oid, _)| oid),
        };
        let named = |oid: u32| Some((oid, name(binder, oid.into())?));
        found.extend([Some(oid), array].into_iter().flatten().filter_map(named));
    }
    found
}

/// The name of any type, with its schema where the name alone does not find it.
pub(super) fn display(binder: &Binder, oid: i64, typmod: Option<i64>) -> Option<String> {
    let own = (oid >= FIRST_OID).then(|| name(binder, oid)).flatten();
    own.or_else(|| names::format_type(oid, typmod))
}

/// The oid, schema and name of a type.
pub(crate) fn identity(object: &Object) -> Option<(u32, &str, &str)> {
    match object {
        Object::Domain(of) => Some((of.oid, &of.schema_name, &of.name)),
        Object::Composite(of) => Some((of.oid, &of.schema_name, &of.name)),
        Object::Enum(of) => Some((of.oid, &of.schema_name, &of.name)),
        Object::Range(of, false) => Some((of.oid, &of.schema_name, &of.name)),
        Object::Range(of, true) => Some((of.multirange_oid, &of.schema_name, &of.multirange_name)),
        _ => None,
    }
}

/// The type of the items of a type of arrays that is of this database.
pub(super) fn element_of(binder: &Binder, array: u32) -> Option<u32> {
    binder.snapshot.objects().values().find_map(|object| {
        let own = match object {
            Object::Enum(of) => of.array_oid,
            Object::Composite(of) => of.array_oid,
            other => array_of_ranges(other)?.0,
        };
        (own == array && own != 0).then(|| identity(object).map(|(oid, ..)| oid))?
    })
}

/// The oid of a domain by its schema and name.
pub(super) fn domain_oid(binder: &Binder, schema: &str, name: &str) -> Option<u32> {
    binder.snapshot.objects().values().find_map(|object| match object {
        Object::Domain(of) if of.schema_name == schema && of.name == name => Some(of.oid),
        _ => None,
    })
}

/// The oid of the type of an element's arrays, by its name.
fn array_of(binder: &Binder, element: &str) -> Option<u32> {
    let found = binder.type_named(split(element), |object| match object {
        Object::Enum(of) => Some(of.array_oid),
        Object::Composite(of) if of.array_oid != 0 => Some(of.array_oid),
        other => array_of_ranges(other).map(|(oid, _)| oid),
    });
    found.or_else(|| arrays_of(binder.names().textual(element).ok()?))
}

/// The oid of the type of arrays of ranges or multiranges, and the name of that of the items.
fn array_of_ranges(object: &Object) -> Option<(u32, &str)> {
    match object {
        Object::Range(of, false) => Some((of.array_oid, &of.name)),
        Object::Range(of, true) => Some((of.multirange_array_oid, &of.multirange_name)),
        _ => None,
    }
}
