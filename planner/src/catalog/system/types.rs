//! The rows of `pg_type` and `pg_enum` that are of this database: enums and their arrays.

use super::ROLE_OID;
use super::regnames::split;
use super::relations::schema_oid;
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use tenon_storage::{EnumType, Object};

fn enums(binder: &Binder) -> impl Iterator<Item = &'static EnumType> + '_ {
    binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Enum(of) => Some(*of),
        _ => None,
    })
}

pub(super) fn types(binder: &Binder) -> Vec<Row> {
    let both = |of: &'static EnumType| {
        let namespace = schema_oid(binder, &of.schema_name);
        [
            row! {
                "oid": of.oid,
                "typname": of.name.as_str(),
                "typnamespace": namespace,
                "typowner": ROLE_OID,
                "typlen": 4_i64,
                "typbyval": true,
                "typtype": "e",
                "typcategory": "E",
                "typisdefined": true,
                "typdelim": ",",
                "typarray": of.array_oid,
                "typinput": "enum_in",
                "typoutput": "enum_out",
                "typreceive": "enum_recv",
                "typsend": "enum_send",
                "typalign": "i",
                "typstorage": "p",
                "typtypmod": -1_i64,
            },
            row! {
                "oid": of.array_oid,
                "typname": of.array_type_name.as_str(),
                "typnamespace": namespace,
                "typowner": ROLE_OID,
                "typlen": -1_i64,
                "typtype": "b",
                "typcategory": "A",
                "typisdefined": true,
                "typdelim": ",",
                "typelem": of.oid,
                "typsubscript": "array_subscript_handler",
                "typinput": "array_in",
                "typoutput": "array_out",
                "typreceive": "array_recv",
                "typsend": "array_send",
                "typanalyze": "array_typanalyze",
                "typalign": "i",
                "typstorage": "x",
                "typtypmod": -1_i64,
            },
        ]
    };
    enums(binder).flat_map(both).collect()
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

/// The oid of an enum's or its array's name: `color`, `public.color`, `color[]`, `_color`.
pub(super) fn oid(binder: &Binder, name: &str) -> Option<u32> {
    if let Some(element) = name.strip_suffix("[]") {
        return enum_of(binder, element.trim_end()).map(|of| of.array_oid);
    }
    let found = enum_of(binder, name).map(|of| of.oid);
    found.or_else(|| enum_of(binder, name.strip_prefix('_')?).map(|of| of.array_oid))
}

fn enum_of(binder: &Binder, name: &str) -> Option<&'static EnumType> {
    binder.type_named(split(name), crate::catalog::bind::enum_of)
}
