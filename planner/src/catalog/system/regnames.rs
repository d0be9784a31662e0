//! Names and oids of catalog objects, both ways: what `regclass`, `regtype` and their kin read and print.

use super::indexes::ShownIndex;
use super::{INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, PG_CATALOG, PG_CATALOG_OID};
use super::{procs, relations, signatures, system_types, types, visible};
use crate::catalog::bind::Binder;
use crate::pg::error::{SqlError, state};
use tenon_storage::{Object, SqlType, quote};

/// The aliases of oid that read and print names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegType {
    Class,
    Type,
    /// A function, by its name alone.
    Proc,
    /// One by its name and the types of its arguments.
    Procedure,
    Namespace,
    Role,
}

/// Oids of the system tables that tools name as a `regclass`, or ask the `tableoid` of: in `pg_description.classoid` and the
/// like.
const SYSTEM_TABLES: &[(&str, u32)] = &[
    ("pg_aggregate", 2600),
    ("pg_am", 2601),
    ("pg_amop", 2602),
    ("pg_amproc", 2603),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_auth_members", 1261),
    ("pg_authid", 1260),
    ("pg_cast", 2605),
    ("pg_class", 1259),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_database", 1262),
    ("pg_db_role_setting", 2964),
    ("pg_default_acl", 826),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_enum", 3501),
    ("pg_event_trigger", 3466),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_foreign_table", 3118),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_init_privs", 3394),
    ("pg_language", 2612),
    ("pg_largeobject", 2613),
    ("pg_largeobject_metadata", 2995),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_partitioned_table", 3350),
    ("pg_policy", 3256),
    ("pg_proc", 1255),
    ("pg_publication", 6104),
    ("pg_publication_namespace", 6237),
    ("pg_publication_rel", 6106),
    ("pg_range", 3541),
    ("pg_rewrite", 2618),
    ("pg_seclabel", 3596),
    ("pg_sequence", 2224),
    ("pg_shdescription", 2396),
    ("pg_statistic", 2619),
    ("pg_statistic_ext", 3381),
    ("pg_subscription", 6100),
    ("pg_tablespace", 1213),
    ("pg_transform", 3576),
    ("pg_trigger", 2620),
    ("pg_ts_config", 3602),
    ("pg_ts_dict", 3600),
    ("pg_ts_parser", 3601),
    ("pg_ts_template", 3764),
    ("pg_type", 1247),
    ("pg_user_mapping", 1418),
];

/// The oid of a system table.
pub(crate) fn system_table(name: &str) -> Option<u32> {
    SYSTEM_TABLES.iter().find(|(own, _)| *own == name).map(|(_, oid)| *oid)
}

impl RegType {
    /// By the name of the type, without its schema.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "regclass" => Self::Class,
            "regtype" => Self::Type,
            "regproc" => Self::Proc,
            "regprocedure" => Self::Procedure,
            "regnamespace" => Self::Namespace,
            "regrole" => Self::Role,
            _ => return None,
        })
    }

    /// By the function that looks a name up: `to_regclass`.
    pub(super) fn looked_up_by(function: &str) -> Option<Self> {
        function.strip_prefix("to_").and_then(Self::named)
    }

    /// The oid of a name, as the type's input reads it; None: there is no such object.
    pub(super) fn oid(self, binder: &Binder, name: &str) -> Option<u32> {
        let name = name.trim();
        if let Ok(oid) = name.parse() {
            return Some(oid);
        }
        if name == "-" && self != Self::Type {
            return Some(0);
        }
        match self {
            Self::Class => relation(binder, name),
            Self::Type => match split(name).as_slice() {
                [database, schema, last] if database == binder.names().database => {
                    self.oid(binder, &format!("{}.{}", quote::name(schema), quote::name(last)))
                }
                _ => type_oid(name).or_else(|| types::oid(binder, name)),
            },
            Self::Proc | Self::Procedure => {
                let own = || binder.function_oid(name);
                signatures::oid(split(name.split('(').next()?).last()?).or_else(own)
            }
            Self::Namespace => match folded(name).as_str() {
                PG_CATALOG => Some(PG_CATALOG_OID),
                INFORMATION_SCHEMA => Some(INFORMATION_SCHEMA_OID),
                own => binder.snapshot.schema(own).map(|schema| schema.oid),
            },
            Self::Role => binder.facts.identity.oid(&binder.snapshot, &folded(name)),
        }
    }

    /// The name of an oid, as the type's output prints it: the number where there is no such object.
    pub(super) fn name(self, binder: &Binder, oid: i64) -> String {
        let found = match self {
            Self::Class => relation_name(binder, oid),
            Self::Type => types::display(binder, oid, None),
            Self::Procedure => procs::signature(binder, oid).or_else(|| {
                let (name, arguments) = signatures::name(oid).zip(signatures::arguments(oid))?;
                Some(format!("{name}({})", arguments.replace(", ", ",")))
            }),
            Self::Proc => signatures::name(oid).or_else(|| {
                let mut objects = binder.snapshot.objects().values();
                objects.find_map(|object| match object {
                    Object::Function(own) if i64::from(own.oid) == oid => {
                        let is_visible = visible::is_visible(binder, "pg_function_is_visible", oid);
                        let name = quote::identifier(&own.name);
                        Some(match is_visible {
                            Some(true) => name,
                            _ => format!("{}.{name}", quote::identifier(&own.schema_name)),
                        })
                    }
                    _ => None,
                })
            }),
            Self::Namespace if oid == i64::from(PG_CATALOG_OID) => Some(PG_CATALOG.into()),
            Self::Namespace if oid == i64::from(INFORMATION_SCHEMA_OID) => Some(INFORMATION_SCHEMA.into()),
            Self::Namespace => {
                let mut schemas = binder.snapshot.schemas();
                let found = schemas.find(|(_, schema)| i64::from(schema.oid) == oid);
                found.map(|(name, _)| quote::identifier(name))
            }
            Self::Role => {
                let oid = u32::try_from(oid).ok();
                let name = oid.and_then(|oid| binder.facts.identity.name(&binder.snapshot, oid));
                name.map(|name| quote::identifier(&name))
            }
        };
        found.unwrap_or_else(|| if oid == 0 { "-".into() } else { oid.to_string() })
    }

    /// What a cast says of a name that is not there.
    pub(super) fn undefined(self, binder: &Binder, name: &str) -> SqlError {
        let (state, what, name) = match self {
            Self::Class => match binder.names().textual(name) {
                Err(error) => return error,
                Ok(found) => (state::UNDEFINED_TABLE, "relation", found.name().to_string()),
            },
            Self::Type => (state::UNDEFINED_OBJECT, "type", split(name).join(".")),
            Self::Proc | Self::Procedure => (state::UNDEFINED_FUNCTION, "function", name.to_string()),
            Self::Namespace => (state::INVALID_SCHEMA_NAME, "schema", folded(name)),
            Self::Role => (state::UNDEFINED_OBJECT, "role", folded(name)),
        };
        SqlError::new(state, format!("{what} \"{name}\" does not exist"))
    }
}

/// The parts of `schema.name`, each folded unless quoted; blanks around them do not count.
pub(crate) fn split(name: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    let ended = |part: &mut String, was_quoted: bool| match was_quoted {
        true => std::mem::take(part),
        false => std::mem::take(part).trim_end().to_string(),
    };
    for c in name.chars() {
        match c {
            '"' => (quoted, was_quoted) = (!quoted, true),
            '.' if !quoted => {
                parts.push(ended(&mut part, was_quoted));
                was_quoted = false;
            }
            c if quoted => part.push(c),
            c if c.is_whitespace() && (part.is_empty() || was_quoted) => {}
            c => part.extend(c.to_lowercase()),
        }
    }
    parts.push(ended(&mut part, was_quoted));
    parts
}

fn folded(name: &str) -> String {
    split(name).pop().unwrap_or_default()
}

pub(super) fn relation(binder: &Binder, name: &str) -> Option<u32> {
    let parts = split(name);
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        [database, schema, name] if database == binder.names().database => (Some(schema.as_str()), name),
        _ => return None,
    };
    if schema.is_none_or(|schema| schema == PG_CATALOG)
        && let Some((_, oid)) = SYSTEM_TABLES.iter().find(|(own, _)| own == name)
    {
        return Some(*oid);
    }
    if let Some(found) = binder.names().find(schema, name) {
        return Some(found.oid());
    }
    // Indexes are relations too.
    let of = |place: &str| {
        let mut own = ShownIndex::all(binder).filter(|index| index.relation.schema_name() == place);
        own.find(|index| index.name == name.as_str()).map(|index| index.oid)
    };
    match schema {
        Some(schema) => of(schema),
        None => binder.facts.path.iter().find_map(|place| of(place)),
    }
}

fn relation_name(binder: &Binder, oid: i64) -> Option<String> {
    if let Some((name, _)) = SYSTEM_TABLES.iter().find(|(_, own)| i64::from(*own) == oid) {
        return Some((*name).into());
    }
    let relation = relations::relations(binder)
        .find(|relation| i64::from(relation.oid()) == oid)
        .map(|relation| (relation.schema_name(), relation.name()));
    let index = || ShownIndex::find(binder, oid).map(|index| (index.relation.schema_name(), index.name));
    let (schema, name) = relation.or_else(index)?;
    // The first schema of the path that has a relation or an index of that name.
    let has = |of: &str| binder.snapshot.schema(of).is_some_and(|of| of.has(name));
    let found = binder.facts.path.iter().find(|of| has(of));
    Some(match found.is_some_and(|found| found == schema) {
        true => quote::identifier(name),
        false => format!("{}.{}", quote::identifier(schema), quote::identifier(name)),
    })
}

/// A type by any of its names: `int4`, `integer`, `numeric(10,2)`, `text[]`, `pg_catalog.name`.
fn type_oid(name: &str) -> Option<u32> {
    if let Some(element) = name.strip_suffix("[]") {
        return system_types::by_oid(type_oid(element.trim())?).map(|of| of.array);
    }
    // In quotes stands what `pg_type` calls it, none of the grammar's names.
    if name.contains('"') {
        return match split(name).as_slice() {
            [name] => system_types::by_name(name),
            [schema, name] if schema == PG_CATALOG => system_types::by_name(name),
            _ => None,
        };
    }
    let lower = name.to_lowercase();
    let bare = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
    if bare != "char"
        && let Some(found) = system_types::by_name(bare)
    {
        return Some(found);
    }
    bare.parse::<SqlType>().ok().map(SqlType::oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_any_name() {
        let names = [
            "int4",
            "integer",
            "INT",
            "numeric(10,2)",
            "character varying",
            "text[]",
            "pg_catalog.name",
        ];
        let oids = names.map(|name| type_oid(name).unwrap_or(0));
        assert_eq!(oids, [23, 23, 23, 1700, 1043, 1009, 19]);
        assert_eq!(type_oid("\"char\""), Some(18));
        assert_eq!(type_oid("char"), Some(1042));
        assert_eq!(type_oid("_int4"), Some(1007));
        assert_eq!(type_oid("hstore"), None);
        assert_eq!(type_oid("\"pg_catalog\".\"uuid\"[]"), Some(2951));
        assert_eq!(type_oid("\"integer\""), None);
    }

    #[test]
    fn names_are_split_at_unquoted_dots() {
        assert_eq!(split("Public.\"My.Table\""), ["public", "My.Table"]);
    }
}
