//! `pg_timezone_names` and `pg_timezone_abbrevs`: time zones, as they are when the transaction begins.

use super::rows::{Row, Value, row};
use crate::catalog::bind::Binder;
use tenon_storage::datetime::{Zone, abbreviations as known, names as all};

pub(super) fn names(binder: &Binder) -> Vec<Row> {
    let now = binder.facts.transaction_start_us;
    let rows = all().into_iter().filter_map(|name| {
        let local = Zone::named(&name)?.at(now);
        Some(row! {
            "name": name,
            "abbrev": local.abbreviation,
            "utc_offset": Value::Seconds(local.east_s),
            "is_dst": local.daylight,
        })
    });
    rows.collect()
}

pub(super) fn abbreviations(binder: &Binder) -> Vec<Row> {
    let rows = known(binder.facts.transaction_start_us)
        .into_iter()
        .map(|(name, east_s, daylight)| {
            row! { "abbrev": name, "utc_offset": Value::Seconds(east_s), "is_dst": daylight }
        });
    rows.collect()
}
