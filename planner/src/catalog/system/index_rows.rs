//! The rows of system tables that are about indexes.

use super::indexes::{Keys, ShownIndex};
use super::operator_classes;
use super::relations::schema_oid;
use super::rows::{Row, row};
use super::shown_text::shown_text;
use crate::catalog::bind::Binder;
use std::collections::BTreeMap;
use tenon_storage::{ColumnOrder, Deferral};

/// Rows of `pg_index`.
pub(super) fn indexes(binder: &Binder) -> Vec<Row> {
    let index = |shown: ShownIndex<'_>| {
        // Bit 0: DESC; bit 1: NULLS FIRST.
        let bits = |order: ColumnOrder| i64::from(order.descending) | i64::from(order.nulls_first) << 1;
        let mut positions = shown.positions();
        let keys = positions.len();
        positions.extend(shown.included().into_iter().map(|name| shown.position(name)));
        let definition = shown.table.definition();
        let mut row = row! {
            "indexrelid": shown.oid,
            "indrelid": shown.relation.oid(),
            "indnatts": positions.len() as i64,
            "indnkeyatts": keys as i64,
            "indisunique": shown.is_unique(),
            "indnullsnotdistinct": shown.nulls_not_distinct(),
            "indisprimary": shown.is_primary(),
            "indisexclusion": false,
            "indimmediate": shown.deferral() == Deferral::Never,
            "indisclustered": false,
            "indisvalid": shown.shown().only.is_none(),
            "indcheckxmin": false,
            "indisready": true,
            "indislive": true,
            "indisreplident": false,
            "indkey": positions,
            "indcollation": vec![0; keys],
            "indclass": match shown.of {
                Keys::Columns(key) => operator_classes::of_columns(definition, key),
                Keys::Expressions(own) => operator_classes::of_expressions(binder, definition, own),
            },
            "indoption": shown.orders().into_iter().map(bits).collect::<Vec<_>>(),
        };
        if let Keys::Expressions(own) = shown.of {
            let named = shown.key_columns();
            let expressions = own.keys.iter().zip(named).filter(|(_, named)| named.is_none());
            let expressions: Vec<String> = expressions.map(|(key, _)| shown_text(binder, key)).collect();
            row.extend(row! {
                "indexprs": (!expressions.is_empty()).then(|| expressions.join(", ")),
                "indpred": shown.predicate(binder).map(|predicate| format!("({predicate})")),
            });
        }
        row
    };
    ShownIndex::all(binder).map(index).collect()
}

/// Rows of `pg_constraint` for keys.
pub(super) fn constraints(binder: &Binder) -> Vec<Row> {
    let mut parents = BTreeMap::new();
    for index in ShownIndex::constraints(binder) {
        parents.insert(index.oid, index.constraint_oid());
    }
    let constraint = |shown: ShownIndex<'_>| {
        let parent = shown.parent().and_then(|parent| parents.get(&parent)).copied();
        row! {
            "oid": shown.constraint_oid(),
            "conname": shown.name,
            "connamespace": schema_oid(binder, shown.relation.schema_name()),
            "contype": if shown.is_primary() { "p" } else { "u" },
            "condeferrable": shown.deferral() != Deferral::Never,
            "condeferred": shown.deferral() == Deferral::Deferred,
            "convalidated": true,
            "conrelid": shown.relation.oid(),
            "contypid": 0_i64,
            "conindid": shown.oid,
            "conparentid": parent.unwrap_or(0),
            "confrelid": 0_i64,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": parent.is_none(),
            "coninhcount": i64::from(parent.is_some()),
            "connoinherit": !shown.is_divided(),
            "conkey": shown.positions(),
        }
    };
    ShownIndex::constraints(binder).map(constraint).collect()
}

/// Rows of `pg_inherits` for indexes.
pub(super) fn inherits(binder: &Binder) -> Vec<Row> {
    let part = |index: ShownIndex<'_>| {
        Some(row! {
            "inhrelid": index.oid,
            "inhparent": index.parent()?,
            "inhseqno": 1_i64,
            "inhdetachpending": false,
        })
    };
    ShownIndex::all(binder).filter_map(part).collect()
}

/// Rows of `pg_stat_user_indexes`.
pub(super) fn usage(binder: &Binder) -> Vec<Row> {
    let index = |shown: ShownIndex<'_>| {
        row! {
            "relid": shown.relation.oid(),
            "indexrelid": shown.oid,
            "schemaname": shown.relation.schema_name(),
            "relname": shown.relation.name(),
            "indexrelname": shown.name,
        }
    };
    // One of what is divided has no rows.
    let all = ShownIndex::all(binder).filter(|index| !index.is_divided());
    all.map(index).collect()
}

/// Rows of `pg_indexes`.
pub(super) fn definitions(binder: &Binder) -> Vec<Row> {
    let index = |shown: ShownIndex<'_>| {
        row! {
            "schemaname": shown.relation.schema_name(),
            "tablename": shown.relation.name(),
            "indexname": shown.name,
            "indexdef": shown.definition(binder, false),
        }
    };
    ShownIndex::all(binder).map(index).collect()
}
