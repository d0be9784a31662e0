//! `interval`: IntervalStyle `postgres`, and the wire's microseconds, days and months.

use super::datetime::write_fraction;
use super::number::write_int;

/// PostgreSQL's own interval: three fields that do not carry into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

impl Interval {
    /// `1 year 2 mons -3 days +04:05:06.7`: a field after a negative one shows its plus sign.
    pub fn write_text(self, out: &mut Vec<u8>) {
        let mut first = true;
        let mut negative_before = false;
        for (value, unit) in [
            (self.months / 12, "year"),
            (self.months % 12, "mon"),
            (self.days, "day"),
        ] {
            if value == 0 {
                continue;
            }
            if !first {
                out.push(b' ');
            }
            if negative_before && value > 0 {
                out.push(b'+');
            }
            write_int(value, out);
            out.push(b' ');
            out.extend_from_slice(unit.as_bytes());
            if value != 1 {
                out.push(b's');
            }
            negative_before = value < 0;
            first = false;
        }
        if first || self.us != 0 {
            if !first {
                out.push(b' ');
            }
            if self.us < 0 {
                out.push(b'-');
            } else if negative_before {
                out.push(b'+');
            }
            let us = self.us.unsigned_abs();
            let seconds = us / 1_000_000;
            for (value, separator) in [(seconds / 3600, b':'), (seconds / 60 % 60, b':'), (seconds % 60, 0)] {
                if value < 10 {
                    out.push(b'0');
                }
                write_int(value, out);
                if separator != 0 {
                    out.push(separator);
                }
            }
            write_fraction((us % 1_000_000) as u32, out);
        }
    }

    pub fn write_binary(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.us.to_be_bytes());
        out.extend_from_slice(&self.days.to_be_bytes());
        out.extend_from_slice(&self.months.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_as_postgres_prints_it() {
        // From PostgreSQL 15.
        for (months, days, us, expected) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_789_000, "1 year 2 mons 3 days 04:05:06.789"),
            (-14, 3, 0, "-1 years -2 mons +3 days"),
            (0, -1, 3_600_000_000, "-1 days +01:00:00"),
            (0, 1, -1, "1 day -00:00:00.000001"),
            (1, 0, 0, "1 mon"),
            (0, 0, 360_000_000_000, "100:00:00"),
        ] {
            let mut out = Vec::new();
            Interval { months, days, us }.write_text(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
