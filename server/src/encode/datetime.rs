//! Dates and times: ISO text as PostgreSQL prints it, and the wire's binary counts from 2000-01-01.

use super::Style;
use super::number::write_int;
use chrono::{DateTime, Offset, TimeZone};

/// Days from 1970-01-01 (Arrow) to 2000-01-01 (PostgreSQL).
pub const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const EPOCH_US: i64 = EPOCH_DAYS as i64 * DAY_US;
pub const DAY_US: i64 = 86_400_000_000;

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Two digits of a number below 100.
#[inline]
fn pair(value: u32) -> [u8; 2] {
    let at = value as usize * 2;
    [PAIRS[at], PAIRS[at + 1]]
}

/// Year, month and day of a day count from 1970-01-01, in the proleptic Gregorian calendar (year 0 is 1 BC).
#[inline]
pub fn civil(days: i64) -> (i64, u32, u32) {
    // Days from 0000-03-01, so that a leap day ends its year; an era is 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097) as u32;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (i64::from(year_of_era) + era * 400 + i64::from(month <= 2), month, day)
}

/// `YYYY-MM-DD`, the year as long as it is; tells whether ` BC` must follow.
#[inline]
fn write_ymd(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil(days);
    let before_christ = year <= 0;
    let year = if before_christ { 1 - year } else { year };
    let (m, d) = (pair(month), pair(day));
    if year < 10_000 {
        let (century, rest) = (pair(year as u32 / 100), pair(year as u32 % 100));
        out.extend_from_slice(&[
            century[0], century[1], rest[0], rest[1], b'-', m[0], m[1], b'-', d[0], d[1],
        ]);
    } else {
        write_int(year, out);
        out.extend_from_slice(&[b'-', m[0], m[1], b'-', d[0], d[1]]);
    }
    before_christ
}

/// `HH:MM:SS`, then the microseconds without trailing zeros. 24:00:00 is a legal time of day.
#[inline]
pub fn write_time(us: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = ((us / 1_000_000) as u32, (us % 1_000_000) as u32);
    let (h, m, s) = (pair(seconds / 3600 % 100), pair(seconds / 60 % 60), pair(seconds % 60));
    out.extend_from_slice(&[h[0], h[1], b':', m[0], m[1], b':', s[0], s[1]]);
    write_fraction(fraction, out);
}

/// `.ffffff` with trailing zeros cut, or nothing.
pub fn write_fraction(us: u32, out: &mut Vec<u8>) {
    if us != 0 {
        let (a, b, c) = (pair(us / 10_000), pair(us / 100 % 100), pair(us % 100));
        out.extend_from_slice(&[b'.', a[0], a[1], b[0], b[1], c[0], c[1]]);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

#[inline]
pub fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        _ => {
            if write_ymd(i64::from(days), out) {
                out.extend_from_slice(b" BC");
            }
        }
    }
}

/// A `timestamp` from microseconds since 1970.
#[inline]
pub fn write_timestamp(us: i64, out: &mut Vec<u8>) {
    if write_infinity(us, out) {
        return;
    }
    let before_christ = write_ymd(us.div_euclid(DAY_US), out);
    out.push(b' ');
    write_time(us.rem_euclid(DAY_US), out);
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// A `timestamptz` from microseconds since 1970 in UTC, shown in the session's zone.
#[inline]
pub fn write_timestamptz(us: i64, style: &Style, out: &mut Vec<u8>) {
    if write_infinity(us, out) {
        return;
    }
    let offset_s = style.time_zone.map_or(0, |zone| {
        let utc = DateTime::from_timestamp_micros(us).unwrap_or_default().naive_utc();
        zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()
    });
    let local = us.saturating_add(i64::from(offset_s) * 1_000_000);
    let before_christ = write_ymd(local.div_euclid(DAY_US), out);
    out.push(b' ');
    write_time(local.rem_euclid(DAY_US), out);
    out.push(if offset_s < 0 { b'-' } else { b'+' });
    let offset = offset_s.unsigned_abs();
    out.extend_from_slice(&pair(offset / 3600));
    if !offset.is_multiple_of(3600) {
        out.push(b':');
        out.extend_from_slice(&pair(offset / 60 % 60));
        if !offset.is_multiple_of(60) {
            out.push(b':');
            out.extend_from_slice(&pair(offset % 60));
        }
    }
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

fn write_infinity(us: i64, out: &mut Vec<u8>) -> bool {
    match us {
        i64::MAX => out.extend_from_slice(b"infinity"),
        i64::MIN => out.extend_from_slice(b"-infinity"),
        _ => return false,
    }
    true
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_agree_with_chrono_and_reach_past_it() {
        for days in (-719_162..2_932_896).step_by(97) {
            let expected = chrono::NaiveDate::from_epoch_days(days)
                .unwrap()
                .format("%Y-%m-%d")
                .to_string();
            assert_eq!(text(|out| write_date(days, out)), expected);
        }
        assert_eq!(text(|out| write_date(2_932_897, out)), "10000-01-01");
        assert_eq!(text(|out| write_date(-719_163, out)), "0001-12-31 BC");
        assert_eq!(text(|out| write_date(-735_160, out)), "0044-03-15 BC");
        assert_eq!(text(|out| write_date(i32::MAX, out)), "infinity");
    }

    #[test]
    fn times_and_timestamps() {
        assert_eq!(text(|out| write_time(0, out)), "00:00:00");
        assert_eq!(text(|out| write_time(DAY_US, out)), "24:00:00");
        assert_eq!(text(|out| write_time(45_296_100_000, out)), "12:34:56.1");
        assert_eq!(text(|out| write_time(1, out)), "00:00:00.000001");
        assert_eq!(text(|out| write_timestamp(-1, out)), "1969-12-31 23:59:59.999999");
        assert_eq!(
            text(|out| write_timestamp(-62_135_596_800_000_001, out)),
            "0001-12-31 23:59:59.999999 BC"
        );
        let utc = Style::default();
        assert_eq!(text(|out| write_timestamptz(0, &utc, out)), "1970-01-01 00:00:00+00");
        let india = Style {
            time_zone: Some("+05:30".parse().unwrap()),
            ..Style::default()
        };
        assert_eq!(
            text(|out| write_timestamptz(0, &india, out)),
            "1970-01-01 05:30:00+05:30"
        );
        let berlin = Style {
            time_zone: Some("Europe/Berlin".parse().unwrap()),
            ..Style::default()
        };
        assert_eq!(
            text(|out| write_timestamptz(1_720_000_000_000_000, &berlin, out)),
            "2024-07-03 11:46:40+02"
        );
    }
}
