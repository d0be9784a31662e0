//! The parameters that the predicate of a conflict target names.

use super::parameters;
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::pg::parse::inference::Element;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::rewrite::rewrite;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::sql::sqlparser::ast::{ConflictTarget, Statement};
use std::collections::BTreeSet;
use tenon_storage::{TableDefinition, quote};

/// Parameters that a statement's predicate names, with the types of all up to the last of them.
pub(super) struct Asked {
    pub named: BTreeSet<usize>,
    pub fields: Vec<FieldRef>,
}

/// The parameters that a conflict target's predicate names; None where it names none.
pub(super) fn asked(
    binder: &Binder,
    definition: &TableDefinition,
    target: Option<&ConflictTarget>,
    types: &[u32],
) -> Result<Option<Asked>> {
    let Some(ConflictTarget::Columns(names)) = target else {
        return Ok(None);
    };
    let Some(text) = names.iter().find_map(|name| match Element::of(name) {
        Element::Predicate(text) => Some(text),
        _ => None,
    }) else {
        return Ok(None);
    };
    let named = parameters::hints(&parse_expression(text)?)?.named;
    if named.is_empty() {
        return Ok(None);
    }
    let (schema, table) = (&definition.schema_name, &definition.name);
    let rows = format!(
        "SELECT FROM {}.{} WHERE {text}",
        quote::identifier(schema),
        quote::identifier(table)
    );
    let Some(mut query) = parse_query(&rows)? else {
        return Ok(None);
    };
    rewrite(query.as_mut());
    let statement = Statement::Query(query);
    let (_, fields) = parameters::plan(&binder.clone().trusted(), statement, types)?;
    Ok(Some(Asked { named, fields }))
}
