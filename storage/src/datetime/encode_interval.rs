//! Intervals to text, in each IntervalStyle.

use super::encode::write_fraction;
use super::span::{IntervalFields, Span};
use super::{Conventions, IntervalForm};
use std::io::Write;

pub fn write_interval(span: Span, conventions: &Conventions, out: &mut Vec<u8>) {
    match conventions.interval_form {
        IntervalForm::Postgres => postgres(span, out),
        IntervalForm::Verbose => verbose(span, out),
        IntervalForm::SqlStandard => sql_standard(span, out),
        IntervalForm::Iso8601 => iso(span, out),
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = out.write_fmt(text);
}

/// `hh:mm:ss.ffffff` of a time without its sign.
fn clock(fields: &IntervalFields, padded: bool, out: &mut Vec<u8>) {
    let (hours, minutes, seconds) = (fields.hours.abs(), fields.minutes.abs(), fields.seconds.abs());
    match padded {
        true => put(out, format_args!("{hours:02}:{minutes:02}:{seconds:02}")),
        false => put(out, format_args!("{hours}:{minutes:02}:{seconds:02}")),
    }
    write_fraction(fields.us.unsigned_abs() as u32, out);
}

/// `1 year 2 mons -3 days +04:05:06.7`: a field after a negative one shows its plus sign.
fn postgres(span: Span, out: &mut Vec<u8>) {
    let fields = span.fields();
    let (mut first, mut negative_before) = (true, false);
    for (value, unit) in [(fields.years, "year"), (fields.months, "mon"), (fields.days, "day")] {
        if value == 0 {
            continue;
        }
        let blank = if first { "" } else { " " };
        let sign = if negative_before && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        put(out, format_args!("{blank}{sign}{value} {unit}{plural}"));
        (first, negative_before) = (false, value < 0);
    }
    if first || span.us != 0 {
        if !first {
            out.push(b' ');
        }
        if span.us < 0 {
            out.push(b'-');
        } else if negative_before {
            out.push(b'+');
        }
        clock(&fields, true, out);
    }
}

/// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs ago`: the first field's sign is that of the whole.
fn verbose(span: Span, out: &mut Vec<u8>) {
    let fields = span.fields();
    out.push(b'@');
    let (mut nothing, mut before) = (true, false);
    for (value, unit) in [
        (fields.years, "year"),
        (fields.months, "mon"),
        (fields.days, "day"),
        (fields.hours, "hour"),
        (fields.minutes, "min"),
    ] {
        if value == 0 {
            continue;
        }
        if nothing {
            before = value < 0;
        }
        let value = if before { -value } else { value };
        let plural = if value == 1 { "" } else { "s" };
        put(out, format_args!(" {value} {unit}{plural}"));
        nothing = false;
    }
    if fields.seconds != 0 || fields.us != 0 {
        let negative = fields.seconds < 0 || fields.us < 0;
        if nothing {
            before = negative;
        }
        let sign = if negative != before { "-" } else { "" };
        put(out, format_args!(" {sign}{}", fields.seconds.abs()));
        write_fraction(fields.us.unsigned_abs() as u32, out);
        let plural = if fields.seconds.abs() == 1 && fields.us == 0 {
            ""
        } else {
            "s"
        };
        put(out, format_args!(" sec{plural}"));
        nothing = false;
    }
    if nothing {
        out.extend_from_slice(b" 0");
    }
    if before {
        out.extend_from_slice(b" ago");
    }
}

/// `1-2`, `3 4:05:06`, and where the standard has no form `+1-2 -3 +4:05:06`.
fn sql_standard(span: Span, out: &mut Vec<u8>) {
    let fields = span.fields();
    let negative = span.months < 0 || span.days < 0 || span.us < 0;
    let positive = span.months > 0 || span.days > 0 || span.us > 0;
    let (has_months, has_days) = (span.months != 0, span.days != 0);
    let standard = !(negative && positive) && !(has_months && (has_days || span.us != 0));
    if !negative && !positive {
        return out.push(b'0');
    }
    let (years, months, days) = (fields.years.abs(), fields.months.abs(), fields.days.abs());
    if !standard {
        let sign = |minus: bool| if minus { '-' } else { '+' };
        let (of_months, of_days, of_time) = (sign(span.months < 0), sign(span.days < 0), sign(span.us < 0));
        put(
            out,
            format_args!("{of_months}{years}-{months} {of_days}{days} {of_time}"),
        );
        return clock(&fields, false, out);
    }
    if negative {
        out.push(b'-');
    }
    if has_months {
        return put(out, format_args!("{years}-{months}"));
    }
    if has_days {
        put(out, format_args!("{days} "));
    }
    clock(&fields, false, out);
}

/// `P1Y2M-3DT4H5M6.7S`.
fn iso(span: Span, out: &mut Vec<u8>) {
    let fields = span.fields();
    if span == Span::default() {
        return out.extend_from_slice(b"PT0S");
    }
    let write = |value: i64, unit: char, out: &mut Vec<u8>| {
        if value != 0 {
            put(out, format_args!("{value}{unit}"));
        }
    };
    out.push(b'P');
    write(fields.years, 'Y', out);
    write(fields.months, 'M', out);
    write(fields.days, 'D', out);
    if span.us != 0 {
        out.push(b'T');
        write(fields.hours, 'H', out);
        write(fields.minutes, 'M', out);
        if fields.seconds != 0 || fields.us != 0 {
            if fields.seconds < 0 || fields.us < 0 {
                out.push(b'-');
            }
            put(out, format_args!("{}", fields.seconds.abs()));
            write_fraction(fields.us.unsigned_abs() as u32, out);
            out.push(b'S');
        }
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
            write_interval(Span { months, days, us }, &Conventions::default(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn other_styles() {
        let span = Span {
            months: -14,
            days: 3,
            us: 14_706_789_000,
        };
        for (interval_form, expected) in [
            (
                IntervalForm::Verbose,
                "@ 1 year 2 mons -3 days -4 hours -5 mins -6.789 secs ago",
            ),
            (IntervalForm::SqlStandard, "-1-2 +3 +4:05:06.789"),
            (IntervalForm::Iso8601, "P-1Y-2M3DT4H5M6.789S"),
        ] {
            let own = Conventions {
                interval_form,
                ..Conventions::default()
            };
            let mut out = Vec::new();
            write_interval(span, &own, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
