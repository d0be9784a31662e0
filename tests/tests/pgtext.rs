//! Writes a value of the binary wire format as the text that PostgreSQL sends for it (ISO dates, postgres intervals).

use anyhow::{Context, Result, bail, ensure};
use std::error::Error;
use std::fmt::Write as _;
use std::net::IpAddr;
use tokio_postgres::types::{Field, FromSql, Kind, Type};

/// A value's bytes, whatever its type.
pub struct Value(pub Vec<u8>);

impl<'a> FromSql<'a> for Value {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Value(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

pub fn pg_text(pg_type: &Type, raw: &[u8]) -> Result<String> {
    Ok(match *pg_type {
        Type::BOOL => if fixed::<1>(raw)?[0] == 0 { "f" } else { "t" }.into(),
        Type::CHAR => String::from_utf8(raw.to_vec())?,
        Type::INT2 => i16::from_be_bytes(fixed(raw)?).to_string(),
        Type::INT4 => i32::from_be_bytes(fixed(raw)?).to_string(),
        Type::INT8 => i64::from_be_bytes(fixed(raw)?).to_string(),
        Type::OID => u32::from_be_bytes(fixed(raw)?).to_string(),
        Type::FLOAT4 => {
            let value = f32::from_be_bytes(fixed(raw)?);
            float(&format!("{value:e}"), f64::from(value), 6)
        }
        Type::FLOAT8 => {
            let value = f64::from_be_bytes(fixed(raw)?);
            float(&format!("{value:e}"), value, 15)
        }
        Type::NUMERIC => numeric(raw)?,
        Type::DATE => date(i64::from(i32::from_be_bytes(fixed(raw)?))),
        Type::TIME => time(i64::from_be_bytes(fixed(raw)?)),
        Type::TIMESTAMP => timestamp(i64::from_be_bytes(fixed(raw)?)),
        Type::TIMESTAMPTZ => match i64::from_be_bytes(fixed(raw)?) {
            infinite @ (i64::MAX | i64::MIN) => timestamp(infinite),
            us => timestamp(us) + "+00",
        },
        Type::TIMETZ => {
            ensure!(raw.len() == 12, "timetz of {} bytes", raw.len());
            let (us, west) = (
                i64::from_be_bytes(fixed(&raw[..8])?),
                i32::from_be_bytes(fixed(&raw[8..])?),
            );
            let (sign, size) = (if west > 0 { '-' } else { '+' }, west.unsigned_abs());
            let mut text = format!("{}{sign}{:02}", time(us), size / 3600);
            if size % 3600 != 0 {
                let _ = write!(text, ":{:02}", size / 60 % 60);
            }
            text
        }
        Type::INTERVAL => interval(raw)?,
        Type::BYTEA => raw.iter().fold(String::from("\\x"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        Type::BIT | Type::VARBIT => {
            let (length, bytes) = raw.split_first_chunk::<4>().context("truncated")?;
            let all: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
            let length = usize::try_from(i32::from_be_bytes(*length))?;
            all.get(..length).context("truncated")?.to_string()
        }
        Type::INET | Type::CIDR => {
            let (head, address) = raw.split_first_chunk::<4>().context("truncated")?;
            let [family, mask, is_cidr, length] = *head;
            ensure!(usize::from(length) == address.len(), "an address of {length} bytes");
            ensure!((is_cidr == 1) == (*pg_type == Type::CIDR), "{pg_type} says {is_cidr}");
            let (host, width) = match family {
                2 => (IpAddr::from(fixed::<4>(address)?), 32),
                _ => (IpAddr::from(fixed::<16>(address)?), 128),
            };
            match mask == width && *pg_type == Type::INET {
                true => host.to_string(),
                false => format!("{host}/{mask}"),
            }
        }
        _ if let Kind::Range(element) = pg_type.kind() => range(element, raw)?,
        _ if let Kind::Multirange(element) = pg_type.kind() => {
            let (_, mut rest) = raw.split_first_chunk::<4>().context("truncated")?;
            let mut texts = Vec::new();
            while !rest.is_empty() {
                let (length, tail) = rest.split_first_chunk::<4>().context("truncated")?;
                let own = tail.split_at_checked(i32::from_be_bytes(*length) as usize);
                let (own, tail) = own.context("truncated")?;
                texts.push(range(element, own)?);
                rest = tail;
            }
            format!("{{{}}}", texts.join(","))
        }
        Type::MACADDR | Type::MACADDR8 => {
            let octets: Vec<String> = raw.iter().map(|byte| format!("{byte:02x}")).collect();
            octets.join(":")
        }
        Type::TID => {
            let (block, offset) = raw.split_first_chunk::<4>().context("truncated")?;
            format!(
                "({},{})",
                u32::from_be_bytes(*block),
                u16::from_be_bytes(fixed(offset)?)
            )
        }
        Type::UUID => uuid::Uuid::from_bytes(fixed(raw)?).to_string(),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::JSON | Type::XML | Type::UNKNOWN => {
            String::from_utf8(raw.to_vec())?
        }
        // The vectors of system tables: arrays in binary, words in text.
        Type::INT2_VECTOR => vector(&Type::INT2, raw)?,
        Type::OID_VECTOR => vector(&Type::OID, raw)?,
        // A version, then the text.
        Type::JSONB | Type::JSONPATH => String::from_utf8(raw.get(1..).context("truncated")?.to_vec())?,
        Type::RECORD => record(raw, &[])?,
        Type::RECORD_ARRAY => array(&Type::RECORD, raw)?,
        ref other => match other.kind() {
            Kind::Array(element) => array(element, raw)?,
            Kind::Enum(_) => String::from_utf8(raw.to_vec())?,
            Kind::Composite(fields) => record(raw, fields)?,
            _ => bail!("the test cannot write type {other}"),
        },
    })
}

fn fixed<const N: usize>(raw: &[u8]) -> Result<[u8; N]> {
    raw.try_into()
        .with_context(|| format!("{} bytes, expected {N}", raw.len()))
}

/// `shortest` is the shortest exact digits as `d.ddde±x`; positional from 1e-5 up to 10^digits.
fn float(shortest: &str, value: f64, digits: i32) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..digits).contains(&exponent) {
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
        let figures: String = mantissa.chars().filter(|c| *c != '.').collect();
        let text = if exponent < 0 {
            format!("0.{}{figures}", "0".repeat((-exponent - 1) as usize))
        } else if figures.len() as i32 <= exponent + 1 {
            format!("{figures}{}", "0".repeat((exponent + 1) as usize - figures.len()))
        } else {
            let (whole, part) = figures.split_at((exponent + 1) as usize);
            format!("{whole}.{part}")
        };
        return format!("{sign}{text}");
    }
    format!(
        "{mantissa}e{}{:02}",
        if exponent < 0 { '-' } else { '+' },
        exponent.abs()
    )
}

/// ndigits, weight, sign, display scale; then base-10000 digits.
fn numeric(raw: &[u8]) -> Result<String> {
    ensure!(
        raw.len() >= 8 && raw.len().is_multiple_of(2),
        "numeric of {} bytes",
        raw.len()
    );
    let words: Vec<i16> = raw
        .chunks_exact(2)
        .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    let (count, weight, sign, scale) = (
        words[0] as usize,
        i32::from(words[1]),
        words[2] as u16,
        words[3] as usize,
    );
    let digits = &words[4..];
    ensure!(digits.len() == count, "{} digits, expected {count}", digits.len());
    match sign {
        0xC000 => return Ok("NaN".into()),
        0xD000 => return Ok("Infinity".into()),
        0xF000 => return Ok("-Infinity".into()),
        0 | 0x4000 => {}
        other => bail!("numeric sign {other:#x}"),
    }
    let digit = |position: i32| -> i16 {
        usize::try_from(weight - position)
            .ok()
            .and_then(|i| digits.get(i))
            .copied()
            .unwrap_or(0)
    };
    ensure!(digits.iter().all(|d| (0..10_000).contains(d)), "a digit out of range");
    let mut text = String::from(if sign == 0x4000 { "-" } else { "" });
    if weight < 0 {
        text.push('0');
    } else {
        for position in (0..=weight).rev() {
            if position == weight {
                let _ = write!(text, "{}", digit(position));
            } else {
                let _ = write!(text, "{:04}", digit(position));
            }
        }
    }
    if scale > 0 {
        let mut part = String::new();
        for position in 1..=scale.div_ceil(4) as i32 {
            let _ = write!(part, "{:04}", digit(-position));
        }
        text.push('.');
        text.push_str(&part[..scale]);
    }
    Ok(text)
}

/// Days since 2000-01-01.
fn date(days: i64) -> String {
    match days {
        d if d == i64::from(i32::MAX) => return "infinity".into(),
        d if d == i64::from(i32::MIN) => return "-infinity".into(),
        _ => {}
    }
    // Days to a civil date, by eras of 400 years (H. Hinnant, "chrono-compatible low-level date algorithms").
    let z = days + 10_957 + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    if year > 0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{:04}-{month:02}-{day:02} BC", 1 - year)
    }
}

/// Microseconds since midnight.
fn time(us: i64) -> String {
    let (seconds, part) = (us / 1_000_000, us % 1_000_000);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if part != 0 {
        let _ = write!(text, ".{}", format!("{part:06}").trim_end_matches('0'));
    }
    text
}

/// Microseconds since 2000-01-01.
fn timestamp(us: i64) -> String {
    match us {
        i64::MAX => return "infinity".into(),
        i64::MIN => return "-infinity".into(),
        _ => {}
    }
    const DAY: i64 = 86_400_000_000;
    format!("{} {}", date(us.div_euclid(DAY)), time(us.rem_euclid(DAY)))
}

/// Microseconds, days, months.
fn interval(raw: &[u8]) -> Result<String> {
    ensure!(raw.len() == 16, "interval of {} bytes", raw.len());
    let us = i64::from_be_bytes(fixed(&raw[..8])?);
    let days = i32::from_be_bytes(fixed(&raw[8..12])?);
    let months = i32::from_be_bytes(fixed(&raw[12..])?);
    let mut parts: Vec<String> = Vec::new();
    let mut negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let plus = if negative && count > 0 { "+" } else { "" };
            parts.push(format!("{plus}{count} {unit}{}", if count == 1 { "" } else { "s" }));
            negative = count < 0;
        }
    }
    if us != 0 || parts.is_empty() {
        let sign = if us < 0 {
            "-"
        } else if negative {
            "+"
        } else {
            ""
        };
        parts.push(format!("{sign}{}", time(us.abs())));
    }
    Ok(parts.join(" "))
}

fn vector(element: &Type, raw: &[u8]) -> Result<String> {
    Ok(array(element, raw)?.trim_matches(['{', '}']).replace(',', " "))
}

/// One-dimensional arrays.
fn array(element: &Type, raw: &[u8]) -> Result<String> {
    let word = |at: usize| -> Result<i32> { Ok(i32::from_be_bytes(fixed(raw.get(at..at + 4).context("truncated")?)?)) };
    let dimensions = word(0)? as usize;
    if dimensions == 0 {
        return Ok("{}".into());
    }
    let sizes: Vec<usize> = (0..dimensions)
        .map(|dimension| Ok(word(12 + 8 * dimension)? as usize))
        .collect::<Result<_>>()?;
    let mut at = 12 + 8 * dimensions;
    let mut parts = Vec::new();
    for _ in 0..sizes.iter().product() {
        let length = word(at)?;
        at += 4;
        if length < 0 {
            parts.push("NULL".into());
            continue;
        }
        let value = pg_text(element, raw.get(at..at + length as usize).context("truncated")?)?;
        at += length as usize;
        let bare = !value.is_empty()
            && !value.eq_ignore_ascii_case("null")
            && !value.contains(|c: char| "{}\",\\".contains(c) || c.is_whitespace());
        parts.push(if bare {
            value
        } else {
            format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
        });
    }
    // The innermost dimension first.
    for size in sizes.iter().rev() {
        parts = parts
            .chunks(*size)
            .map(|items| format!("{{{}}}", items.join(",")))
            .collect();
    }
    Ok(parts.concat())
}

/// Fields, each with its type.
fn record(raw: &[u8], fields: &[Field]) -> Result<String> {
    let word = |at: usize| -> Result<i32> { Ok(i32::from_be_bytes(fixed(raw.get(at..at + 4).context("truncated")?)?)) };
    let (mut at, mut parts) = (4, Vec::new());
    for _ in 0..word(0)? {
        let (oid, length) = (word(at)? as u32, word(at + 4)?);
        at += 8;
        if length < 0 {
            parts.push(String::new());
            continue;
        }
        // Without a type that tells, only an enum comes under an oid of its own.
        let own = (oid >= 16_384).then_some(Type::TEXT);
        // ALTER TYPE may have moved fields since the client asked for them.
        let told = fields
            .iter()
            .map(|field| field.type_())
            .find(|own| own.oid() == oid)
            .cloned();
        let field = told.or_else(|| Type::from_oid(oid)).or(own);
        let field = field.context("a field of an unknown type")?;
        let value = pg_text(&field, raw.get(at..at + length as usize).context("truncated")?)?;
        at += length as usize;
        let quoted = value.is_empty() || value.contains(|c: char| "(),\"\\".contains(c) || c.is_whitespace());
        parts.push(match quoted {
            true => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\"")),
            false => value,
        });
    }
    Ok(format!("({})", parts.join(",")))
}

/// `range_send`: flags, then each bound that there is.
fn range(element: &Type, raw: &[u8]) -> Result<String> {
    let (flags, mut rest) = raw.split_first().context("truncated")?;
    if flags & 0x01 != 0 {
        return Ok("empty".into());
    }
    let mut bound = |infinite: u8| -> Result<String> {
        if flags & infinite != 0 {
            return Ok(String::new());
        }
        let (length, tail) = rest.split_first_chunk::<4>().context("truncated")?;
        let own = tail.split_at_checked(i32::from_be_bytes(*length) as usize);
        let (own, tail) = own.context("truncated")?;
        rest = tail;
        let text = pg_text(element, own)?;
        Ok(match text.contains(' ') {
            true => format!("\"{text}\""),
            false => text,
        })
    };
    let (lower, upper) = (bound(0x08)?, bound(0x10)?);
    let open = if flags & 0x02 != 0 { '[' } else { '(' };
    let close = if flags & 0x04 != 0 { ']' } else { ')' };
    Ok(format!("{open}{lower},{upper}{close}"))
}
