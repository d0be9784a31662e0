//! `tenon_statements`: the queries sent as text that are kept prepared for sessions like this one, and how often they served.

use super::rows::{Row, row};
use crate::catalog::bind::Binder;

pub(super) const NAME: &str = "tenon_statements";
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("statement", "text"),
    ("parameters", "bigint"),
    ("uses", "bigint"),
    ("custom_plans", "bigint"),
    ("generic", "bool"),
];

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let shown = binder
        .services
        .statements
        .shown(&binder.facts.settings, &binder.facts.path, binder.acting.rights());
    let rows = shown.into_iter().map(|text| {
        row! {
            "statement": text.text,
            "parameters": text.parameters as i64,
            "uses": text.uses as i64,
            "custom_plans": text.plans.0 as i64,
            "generic": text.plans.1,
        }
    });
    rows.collect()
}
