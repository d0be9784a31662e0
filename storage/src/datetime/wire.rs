//! The wire's binary counts of days and microseconds from 2000-01-01.

/// Days from 1970-01-01 (Arrow) to 2000-01-01 (PostgreSQL).
pub const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Binary `date`: days since 2000, the infinities kept.
pub fn date_to_wire(days: i32) -> i32 {
    match days {
        i32::MAX | i32::MIN => days,
        _ => days.saturating_sub(EPOCH_DAYS),
    }
}

/// Binary `timestamp`: microseconds since 2000, the infinities kept.
pub fn timestamp_to_wire(us: i64) -> i64 {
    match us {
        i64::MAX | i64::MIN => us,
        _ => us.saturating_sub(EPOCH_US),
    }
}
