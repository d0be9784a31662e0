//! Dates, times and intervals as PostgreSQL reads and writes them.
//!
//! - `civil`: the calendar; `zone` and `abbreviations`: time zones;
//! - `tokens`, `words`, `decode`, `decode_interval`, `iso_interval`: text to values, in every form that PostgreSQL takes;
//! - `encode`, `encode_interval`: values to text, in every DateStyle and IntervalStyle;
//! - `shown`: values in errors;
//! - `fields`: parts of values, and values cut to a part;
//! - `arithmetic`: sums, differences and products that know months from days;
//! - `template`, `to_char`, `from_char`: the patterns of `to_char` and `to_timestamp`.

mod abbreviations;
pub mod arithmetic;
pub mod civil;
mod decode;
mod decode_interval;
mod encode;
mod encode_interval;
pub mod fields;
mod from_char;
mod iso_interval;
mod limits;
mod shown;
mod span;
mod template;
mod to_char;
mod tokens;
pub mod wire;
mod words;
mod zone;

pub use decode::{FIRST_US, parse_date, parse_time, parse_timestamp, parse_timestamptz, parse_timetz};
pub use decode_interval::parse_interval;
pub use encode::{
    write_date, write_fraction, write_offset, write_time, write_timestamp, write_timestamptz, write_timetz,
};
pub use encode_interval::write_interval;
pub use from_char::from_char;
pub use limits::limited;
pub use shown::{shown, shown_row};
pub use span::{DAY_US, IntervalFields, IntervalRange, Span, rounded, rounded_stamp};
pub use template::Template;
pub use to_char::{interval_to_char, timestamp_to_char};
pub use words::{Unit, field_word};
pub use zone::{Local, Zone, abbreviations, names};

use crate::error::{ErrorKind, StorageError};

/// In which order day, month and year stand in an ambiguous date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    #[default]
    MonthDayYear,
    DayMonthYear,
    YearMonthDay,
}

/// The output form of dates and timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateForm {
    #[default]
    Iso,
    Sql,
    Postgres,
    German,
}

/// The output form of intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalForm {
    #[default]
    Postgres,
    Verbose,
    SqlStandard,
    Iso8601,
}

/// What a session's settings say about dates and times, and when its transaction began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conventions {
    pub order: DateOrder,
    pub form: DateForm,
    pub interval_form: IntervalForm,
    pub zone: Zone,
    /// What `now` means in a text: microseconds since 1970, UTC. None: the clock says.
    pub now_us: Option<i64>,
}

impl Conventions {
    pub fn now_us(&self) -> i64 {
        self.now_us.unwrap_or_else(|| chrono::Utc::now().timestamp_micros())
    }
}

/// The infinities are the ends of the representation.
pub fn is_infinite(us: i64) -> bool {
    us == i64::MAX || us == i64::MIN
}

pub fn is_infinite_date(days: i32) -> bool {
    days == i32::MAX || days == i32::MIN
}

/// `+hh:mm` in seconds east of UTC; None past 16 hours and for any other text.
pub fn zone_offset(text: &str) -> Option<i32> {
    decode::displacement(text).ok()
}

/// Bytes of a stored `timetz`.
pub const TIMETZ_BYTES: usize = 12;

/// A `timetz` as it is stored: bytes that compare as PostgreSQL compares it, by the instant and then by the zone, the
/// easternmost first.
pub fn timetz_bytes(us: i64, east_s: i32) -> [u8; TIMETZ_BYTES] {
    let instant = us - i64::from(east_s) * 1_000_000;
    let mut bytes = [0; TIMETZ_BYTES];
    bytes[..8].copy_from_slice(&((instant as u64) ^ (1 << 63)).to_be_bytes());
    bytes[8..].copy_from_slice(&(((-east_s) as u32) ^ (1 << 31)).to_be_bytes());
    bytes
}

/// Microseconds from midnight and seconds east of UTC.
pub fn timetz_of(bytes: &[u8]) -> (i64, i32) {
    let (instant, zone) = bytes.split_at(bytes.len().min(8));
    let instant = u64::from_be_bytes(instant.try_into().unwrap_or_default()) ^ (1 << 63);
    let zone = u32::from_be_bytes(zone.try_into().unwrap_or_default()) ^ (1 << 31);
    let east_s = -(zone as i32);
    (instant as i64 + i64::from(east_s) * 1_000_000, east_s)
}

/// 22008 for a result past the range of its type.
pub fn out_of_range(what: &str) -> StorageError {
    StorageError::new(ErrorKind::DatetimeOverflow, format!("{what} out of range"))
}

/// 22023 for a zone of no known name.
pub fn unknown_zone(name: &str) -> StorageError {
    StorageError::new(
        ErrorKind::InvalidParameter,
        format!("time zone \"{name}\" not recognized"),
    )
}
