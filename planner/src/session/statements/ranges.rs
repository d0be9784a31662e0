//! CREATE TYPE ... AS RANGE, and DROP TYPE of such: types of ranges over a type of the system, each with its multiranges.

use super::text_dependents::{self, Dropped};
use super::type_dependents::Dependents;
use super::{composite, types};
use crate::catalog::bind::{Target, parsed_type, parts};
use crate::pg::collations;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::RangeOptions;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use tenon_storage::range::{NewRange, RangeType, UserRange, takes_bounds};
use tenon_storage::{Domain, Object, ObjectKey, Relation, SqlType};

const IGNORED: &str = "ranges are ordered as the values of their subtype are, and have no GiST indexes";

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, message)
}

pub(super) fn create(session: &mut Session, name: &ObjectName, options: &RangeOptions) -> Result<Outcome> {
    let (place, key) = types::free_name(session, name)?;
    let mut multirange_name = None;
    for (option, value) in &options.others {
        match option.as_str() {
            "multirange_type_name" if multirange_name.is_none() => multirange_name = parts(value).pop(),
            "collation" => {
                collations::named(value)?;
            }
            // The order is that of the type, and differences count for indexes that there are none of.
            "subtype_opclass" | "subtype_diff" => {
                let message = format!("type attribute \"{option}\" is ignored: {IGNORED}");
                session.warn(state::FEATURE_NOT_SUPPORTED, message);
            }
            "canonical" => return Err(SqlError::unsupported("a canonical function of ranges")),
            "multirange_type_name" => return Err(syntax("conflicting or redundant options")),
            _ => return Err(syntax(format!("type attribute \"{option}\" not recognized"))),
        }
    }
    let declared = options.subtype.as_ref();
    let declared = declared.ok_or_else(|| syntax("type attribute \"subtype\" is required"))?;
    session.binder().check_schema_of_type(declared)?;
    let subtype = session.binder().sql_type(declared)?.unlimited();
    if subtype == SqlType::Json {
        let message = "data type json has no default operator class for access method \"btree\"";
        let hint =
            "You must specify an operator class for the range type or define a default operator class for the subtype.";
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message).hint(hint));
    }
    if !takes_bounds(subtype) || session.binder().domain_of(declared).is_some() {
        return Err(SqlError::unsupported(format!("a type of ranges over {declared}")));
    }
    let multirange_name = multirange_name.unwrap_or_else(|| multirange_of(&place.name));
    let multirange_key = ObjectKey::Type {
        schema: place.schema.clone(),
        name: multirange_name.clone(),
    };
    let binder = session.binder();
    let taken = binder.snapshot.relation(&place.schema, &multirange_name).is_some();
    if taken || multirange_key == key || binder.snapshot.objects().contains_key(&multirange_key) {
        let message = format!("type \"{multirange_name}\" already exists");
        let detail = format!("Failed while creating a multirange type for type \"{}\".", place.name);
        let hint = "You can manually specify a multirange type name using the \"multirange_type_name\" attribute.";
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message)
            .detail(detail)
            .hint(hint));
    }
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    let of = UserRange::register(NewRange {
        oids: std::array::from_fn(|_| transaction.new_oid()),
        schema_name: place.schema,
        name: place.name,
        multirange_name,
        subtype,
    });
    transaction.put_object(key, Some(Object::Range(of, false)));
    transaction.put_object(multirange_key, Some(Object::Range(of, true)));
    Ok(Outcome::Command("CREATE TYPE".into()))
}

/// The name of a type's multiranges: `multirange` in the place of `range`, or behind what is called otherwise.
fn multirange_of(name: &str) -> String {
    match name.find("range") {
        Some(at) => format!("{}multi{}", &name[..at], &name[at..]),
        None => format!("{name}_multirange"),
    }
}

/// A type with its multiranges and, with `cascade`, what is of them.
pub(super) async fn drop_one(session: &mut Session, of: &'static UserRange, multi: bool, cascade: bool) -> Result<()> {
    if multi {
        let (own, other) = (&of.multirange_name, &of.name);
        let message = format!("cannot drop type {own} because type {other} requires it");
        let hint = format!("You can drop type {other} instead.");
        return Err(SqlError::new(SqlState("2BP01"), message).hint(hint));
    }
    let is_it = |own: SqlType| {
        let item = match own {
            SqlType::Array(own) => own.element(),
            own => own,
        };
        item.ranges() == Some(RangeType::User(of))
    };
    let binder = session.binder();
    let attributes = composite::attributes_of(&binder, |declared| {
        let declared = parsed_type(declared.trim_end_matches("[]"));
        matches!(declared, Ok(DataType::Custom(name, _)) if binder.range_named(&name).is_some_and(&is_it))
    });
    let state = session.state();
    let domains = state.objects().values().filter_map(|object| match object {
        Object::Domain(domain) if is_it(domain.base) => Some(domain.clone()),
        _ => None,
    });
    let domains: Vec<std::sync::Arc<Domain>> = domains.collect();
    let tables: Vec<(Target, Vec<String>)> = state
        .relations()
        .filter_map(Relation::as_table)
        .map(|table| {
            let definition = table.definition();
            let place = Target {
                schema: definition.schema_name.clone(),
                name: definition.name.clone(),
            };
            let own = definition
                .columns
                .iter()
                .filter(|own| own.domain.is_none() && is_it(own.sql_type));
            (place, own.map(|own| own.name.clone()).collect())
        })
        .collect();
    let mut columns = Vec::new();
    for (place, own) in &tables {
        columns.extend(own.iter().map(|column| (place, column.as_str())));
    }
    let mut told: Vec<String> = columns
        .iter()
        .map(|(place, column)| format!("column {column} of table {}", place.name))
        .collect();
    told.extend(composite::told(&attributes));
    told.extend(domains.iter().map(|own| format!("type {}", own.name)));
    let dependents = Dependents {
        told,
        attributes,
        domains,
        columns,
    };
    let name = format!("type {}", of.name);
    dependents.drop(session, (&name, &name), cascade).await?;
    for own in [&of.name, &of.multirange_name] {
        text_dependents::release(session, &Dropped::Type(&of.schema_name, own), &name, cascade)?;
    }
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    for name in [&of.name, &of.multirange_name] {
        let key = ObjectKey::Type {
            schema: of.schema_name.clone(),
            name: name.clone(),
        };
        transaction.put_object(key, None);
    }
    Ok(())
}
