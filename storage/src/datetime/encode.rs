//! Dates and times to text, in each DateStyle.

use super::civil::civil_from_days;
use super::span::DAY_US;
use super::{Conventions, DateForm, DateOrder};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// From 1970-01-01, a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

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

/// A day's year as it is shown, month and day; whether the year is BC.
#[inline]
fn shown(days: i64) -> (i64, u32, u32, bool) {
    let (year, month, day) = civil_from_days(days);
    match year {
        1.. => (year, month, day, false),
        _ => (1 - year, month, day, true),
    }
}

#[inline]
fn write_year(year: i64, out: &mut Vec<u8>) {
    if year < 10_000 {
        out.extend_from_slice(&pair(year as u32 / 100));
        out.extend_from_slice(&pair(year as u32 % 100));
    } else {
        out.extend_from_slice(year.to_string().as_bytes());
    }
}

/// `YYYY-MM-DD`, the year as long as it is; tells whether ` BC` must follow.
#[inline]
fn write_ymd(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day, before_christ) = shown(days);
    let (m, d) = (pair(month), pair(day));
    if year < 10_000 {
        let (century, rest) = (pair(year as u32 / 100), pair(year as u32 % 100));
        out.extend_from_slice(&[
            century[0], century[1], rest[0], rest[1], b'-', m[0], m[1], b'-', d[0], d[1],
        ]);
    } else {
        write_year(year, out);
        out.extend_from_slice(&[b'-', m[0], m[1], b'-', d[0], d[1]]);
    }
    before_christ
}

/// Day and month in the session's order, then the year.
fn write_by_order(days: i64, mark: u8, order: DateOrder, out: &mut Vec<u8>) -> bool {
    let (year, month, day, before_christ) = shown(days);
    let (first, second) = match order {
        DateOrder::DayMonthYear => (day, month),
        _ => (month, day),
    };
    out.extend_from_slice(&pair(first));
    out.push(mark);
    out.extend_from_slice(&pair(second));
    out.push(mark);
    write_year(year, out);
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

/// A time and its zone.
pub fn write_timetz(us: i64, east_s: i32, out: &mut Vec<u8>) {
    write_time(us, out);
    write_offset(east_s, out);
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

/// `+hh[:mm[:ss]]`.
pub fn write_offset(east_s: i32, out: &mut Vec<u8>) {
    out.push(if east_s < 0 { b'-' } else { b'+' });
    let offset = east_s.unsigned_abs();
    out.extend_from_slice(&pair(offset / 3600 % 100));
    if !offset.is_multiple_of(3600) {
        out.push(b':');
        out.extend_from_slice(&pair(offset / 60 % 60));
        if !offset.is_multiple_of(60) {
            out.push(b':');
            out.extend_from_slice(&pair(offset % 60));
        }
    }
}

#[inline]
pub fn write_date(days: i32, conventions: &Conventions, out: &mut Vec<u8>) {
    let before_christ = match days {
        i32::MAX => return out.extend_from_slice(b"infinity"),
        i32::MIN => return out.extend_from_slice(b"-infinity"),
        _ => {
            let days = i64::from(days);
            match conventions.form {
                DateForm::Iso => write_ymd(days, out),
                DateForm::Sql => write_by_order(days, b'/', conventions.order, out),
                DateForm::German => write_by_order(days, b'.', DateOrder::DayMonthYear, out),
                DateForm::Postgres => write_by_order(days, b'-', conventions.order, out),
            }
        }
    };
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// A `timestamp` from microseconds since 1970.
#[inline]
pub fn write_timestamp(us: i64, conventions: &Conventions, out: &mut Vec<u8>) {
    write_stamp(us, None, conventions, out);
}

/// A `timestamptz` from microseconds since 1970 in UTC, shown in the session's zone.
#[inline]
pub fn write_timestamptz(us: i64, conventions: &Conventions, out: &mut Vec<u8>) {
    let zone = &conventions.zone;
    if conventions.form == DateForm::Iso {
        let east_s = if super::is_infinite(us) { 0 } else { zone.east_at(us) };
        return write_stamp(us, Some((east_s, None)), conventions, out);
    }
    let local = zone.at(us);
    write_stamp(us, Some((local.east_s, Some(&local.abbreviation))), conventions, out);
}

fn write_stamp(us: i64, zone: Option<(i32, Option<&str>)>, conventions: &Conventions, out: &mut Vec<u8>) {
    match us {
        i64::MAX => return out.extend_from_slice(b"infinity"),
        i64::MIN => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let local = us.saturating_add(zone.map_or(0, |(east_s, _)| i64::from(east_s)) * 1_000_000);
    let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    // A zone by its offset follows at once, by its name after a blank.
    let write_zone = |out: &mut Vec<u8>| match zone {
        Some((_, Some(name))) => {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
        }
        Some((east_s, None)) => write_offset(east_s, out),
        None => {}
    };
    let before_christ = match conventions.form {
        DateForm::Iso => {
            let before_christ = write_ymd(days, out);
            out.push(b' ');
            write_time(time, out);
            write_zone(out);
            before_christ
        }
        DateForm::Sql | DateForm::German => {
            let before_christ = match conventions.form {
                DateForm::Sql => write_by_order(days, b'/', conventions.order, out),
                _ => write_by_order(days, b'.', DateOrder::DayMonthYear, out),
            };
            out.push(b' ');
            write_time(time, out);
            write_zone(out);
            before_christ
        }
        DateForm::Postgres => {
            let (year, month, day, before_christ) = shown(days);
            let (weekday, month) = (WEEKDAYS[days.rem_euclid(7) as usize], MONTHS[month as usize - 1]);
            out.extend_from_slice(weekday.as_bytes());
            out.push(b' ');
            match conventions.order {
                DateOrder::DayMonthYear => {
                    out.extend_from_slice(&pair(day));
                    out.push(b' ');
                    out.extend_from_slice(month.as_bytes());
                }
                _ => {
                    out.extend_from_slice(month.as_bytes());
                    out.push(b' ');
                    out.extend_from_slice(&pair(day));
                }
            }
            out.push(b' ');
            write_time(time, out);
            out.push(b' ');
            write_year(year, out);
            write_zone(out);
            before_christ
        }
    };
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

#[cfg(test)]
mod tests {
    use super::super::Zone;
    use super::*;

    fn text(write: impl Fn(&Conventions, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&Conventions::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_agree_with_chrono_and_reach_past_it() {
        for days in (-719_162..2_932_896).step_by(97) {
            let expected = chrono::NaiveDate::from_epoch_days(days)
                .unwrap()
                .format("%Y-%m-%d")
                .to_string();
            assert_eq!(text(|own, out| write_date(days, own, out)), expected);
        }
        assert_eq!(text(|own, out| write_date(2_932_897, own, out)), "10000-01-01");
        assert_eq!(text(|own, out| write_date(-719_163, own, out)), "0001-12-31 BC");
        assert_eq!(text(|own, out| write_date(-735_160, own, out)), "0044-03-15 BC");
        assert_eq!(text(|own, out| write_date(i32::MAX, own, out)), "infinity");
    }

    #[test]
    fn times_and_timestamps() {
        assert_eq!(text(|_, out| write_time(0, out)), "00:00:00");
        assert_eq!(text(|_, out| write_time(DAY_US, out)), "24:00:00");
        assert_eq!(text(|_, out| write_time(45_296_100_000, out)), "12:34:56.1");
        assert_eq!(text(|_, out| write_time(1, out)), "00:00:00.000001");
        assert_eq!(
            text(|own, out| write_timestamp(-1, own, out)),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(
            text(|own, out| write_timestamp(-62_135_596_800_000_001, own, out)),
            "0001-12-31 23:59:59.999999 BC"
        );
        assert_eq!(
            text(|own, out| write_timestamptz(0, own, out)),
            "1970-01-01 00:00:00+00"
        );
        let berlin = Conventions {
            zone: Zone::named("Europe/Berlin").unwrap(),
            form: DateForm::Postgres,
            ..Conventions::default()
        };
        assert_eq!(
            text(|_, out| write_timestamptz(1_720_000_000_000_000, &berlin, out)),
            "Wed Jul 03 11:46:40 2024 CEST"
        );
    }
}
