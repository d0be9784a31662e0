//! What indexes and their access methods can do: `pg_index_column_has_property` and its kin. An index is shown with the
//! method that it was declared with, and has the properties that the method has in PostgreSQL.

use super::indexes::ShownIndex;
use crate::catalog::bind::Binder;

/// Access methods by their oids.
const METHODS: [(i64, &str); 6] = [
    (403, "btree"),
    (405, "hash"),
    (783, "gist"),
    (2742, "gin"),
    (3580, "brin"),
    (4000, "spgist"),
];

/// Of `pg_indexam_has_property`; None: there is no such property, or method.
pub(super) fn of_method(oid: i64, property: &str) -> Option<bool> {
    let (_, method) = METHODS.iter().find(|(own, _)| *own == oid)?;
    let having: &[&str] = match property {
        "can_order" | "can_unique" => &["btree"],
        "can_multi_col" => &["btree", "gist", "gin", "brin"],
        "can_exclude" => &["btree", "hash", "gist", "spgist"],
        "can_include" => &["btree", "gist", "spgist"],
        _ => return None,
    };
    Some(having.contains(method))
}

/// Of `pg_index_has_property`.
pub(super) fn of_index(binder: &Binder, oid: u32, property: &str) -> Option<bool> {
    let index = ShownIndex::find(binder, oid.into())?;
    let having: &[&str] = match property {
        "clusterable" => &["btree", "gist"],
        "index_scan" => &["btree", "hash", "gist", "spgist"],
        "bitmap_scan" => &["btree", "hash", "gist", "gin", "brin", "spgist"],
        "backward_scan" => &["btree", "hash"],
        _ => return None,
    };
    Some(having.contains(&index.shown().method()))
}

/// Of `pg_index_column_has_property`, for a key or a column of INCLUDE by its number, from 1.
pub(super) fn of_column(binder: &Binder, oid: u32, number: i64, property: &str) -> Option<bool> {
    let index = ShownIndex::find(binder, oid.into())?;
    let orders = index.orders();
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    if at >= orders.len() + index.included().len() {
        return None;
    }
    let method = index.shown().method();
    let sorted = method == "btree";
    // Columns of INCLUDE are in no order, and nothing is searched by them.
    let order = orders.get(at);
    match property {
        "asc" => order.map(|order| sorted && !order.descending),
        "desc" => order.map(|order| sorted && order.descending),
        "nulls_first" => order.map(|order| sorted && order.nulls_first),
        "nulls_last" => order.map(|order| sorted && !order.nulls_first),
        "orderable" => Some(sorted && order.is_some()),
        "distance_orderable" => Some(false),
        "returnable" => Some(sorted),
        "search_array" => order.map(|_| sorted),
        "search_nulls" => order.map(|_| matches!(method, "btree" | "gist" | "brin" | "spgist")),
        _ => None,
    }
}
