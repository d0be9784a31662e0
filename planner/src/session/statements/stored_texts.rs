//! What is kept as text of expressions and queries, changed by one walk over all of it.

use super::{domain, function_bodies, view_texts};
use crate::pg::error::Result;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::walk::VisitMut;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{Query, VisitorMut};
use std::sync::Arc;
use tenon_storage::{Check, Domain, Object, Partition, PartitionIndex, Relation};

/// A walk that changes trees.
pub(super) trait Change: VisitorMut<Break = ()> {
    /// Whether it has changed anything since it was last asked.
    fn has_changed(&mut self) -> bool;

    /// What is walked over next is a view's query; None: that was all of it.
    fn meets(&mut self, _view: Option<&Query>) {}
}

fn expression(text: &str, change: &mut impl Change) -> Option<String> {
    let mut tree = parse_expression(text).ok()?;
    let _ = tree.visit(change);
    change.has_changed().then(|| tree.to_string())
}

fn checks(before: &[Check], change: &mut impl Change) -> Option<Vec<Check>> {
    let mut after = before.to_vec();
    let mut any = false;
    for check in &mut after {
        if let Some(text) = expression(&check.condition, change) {
            (check.condition, any) = (text, true);
        }
    }
    any.then_some(after)
}

/// Changes the texts of views, defaults, conditions, indexes, partition keys and domains, and the bound bodies of functions.
pub(super) fn change_all(session: &Session, change: &mut impl Change) -> Result<()> {
    let (state_now, transaction) = (session.state(), session.transaction()?);
    for relation in state_now.relations() {
        let (schema, name) = (relation.schema_name(), relation.name());
        if let Some((text, _)) = view_texts::text(relation)
            && let Ok(Some(mut query)) = parse_query(text)
        {
            change.meets(Some(&query));
            let _ = query.visit(change);
            change.meets(None);
            if change.has_changed() {
                transaction.lock().set_query(schema, name, &query.to_string())?;
            }
        }
        match relation {
            Relation::Table(table) => of_table(session, table, change)?,
            Relation::Partition(partition) => of_partition(session, partition, change)?,
            Relation::View(_) | Relation::Sequence(_) => {}
        }
    }
    for object in state_now.objects().values() {
        if let Object::Domain(of) = object {
            of_domain(session, of, change)?;
        }
    }
    for (key, _, mut body) in function_bodies::all(&state_now) {
        let _ = body.visit(change);
        if change.has_changed() {
            function_bodies::put(session, key, &body)?;
        }
    }
    Ok(())
}

fn of_table(session: &Session, table: &tenon_storage::TableVersion, change: &mut impl Change) -> Result<()> {
    let definition = table.definition();
    let (schema, name) = (&definition.schema_name, &definition.name);
    let transaction = session.transaction()?;
    for column in &definition.columns {
        if let Some(text) = column.default.as_deref().and_then(|text| expression(text, change)) {
            transaction.lock().set_default(schema, name, &column.name, Some(text))?;
        }
    }
    if let Some(checks) = checks(&definition.checks, change) {
        transaction.lock().set_checks(schema, name, checks)?;
    }
    let (mut indexes, mut any) = (definition.expression_indexes.clone(), false);
    for text in indexes
        .iter_mut()
        .flat_map(|index| index.keys.iter_mut().chain(&mut index.predicate))
    {
        if let Some(after) = expression(text, change) {
            (*text, any) = (after, true);
        }
    }
    if any {
        transaction.lock().set_expression_indexes(schema, name, indexes)?;
    }
    if let Some(mut partitioning) = definition.partitioning.clone() {
        let mut any = false;
        for key in &mut partitioning.keys {
            if let Some(after) = expression(&key.expression, change) {
                (key.expression, any) = (after, true);
            }
        }
        if any {
            transaction.lock().set_partitioning(schema, name, partitioning)?;
        }
    }
    Ok(())
}

/// The texts of a partition: conditions and indexes.
fn of_partition(session: &Session, partition: &Partition, change: &mut impl Change) -> Result<()> {
    let transaction = session.transaction()?;
    if let Some(checks) = checks(&partition.checks, change) {
        let change = |own: &mut Partition| own.checks = checks;
        transaction.lock().change_partition(partition.oid, change)?;
    }
    for index in &partition.indexes {
        let (mut next, mut any) = (index.declared.clone(), false);
        for text in next.keys.iter_mut().chain(&mut next.predicate) {
            if let Some(after) = expression(text, change) {
                (*text, any) = (after, true);
            }
        }
        if any {
            let put = |own: &mut PartitionIndex| own.declared = next;
            transaction.lock().change_partition_index(index.declared.oid, put)?;
        }
    }
    Ok(())
}

fn of_domain(session: &Session, of: &Arc<Domain>, change: &mut impl Change) -> Result<()> {
    let (mut next, mut any) = (Domain::clone(of), false);
    let conditions = next.checks.iter_mut().map(|(_, condition)| condition);
    for text in conditions.chain(&mut next.default) {
        if let Some(after) = expression(text, change) {
            (*text, any) = (after, true);
        }
    }
    // As the type of a cast.
    if let Some(after) = expression(&format!("NULL::{}", next.declared), change)
        && let Some(declared) = after.strip_prefix("NULL::")
    {
        (next.declared, any) = (declared.to_string(), true);
    }
    match any {
        true => domain::put(session, next),
        false => Ok(()),
    }
}
