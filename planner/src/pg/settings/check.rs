//! What values a setting takes, and the form in which it keeps them.

use super::{charset, dates, units};
use crate::pg::error::{Result, SqlError, SqlState, state};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Check {
    /// Cannot be set.
    Fixed,
    Any,
    Bool,
    /// A number, within bounds.
    Integer(i64, i64),
    /// Milliseconds, with an optional unit.
    Duration,
    /// The same, or -1: never.
    DurationOrOff,
    /// Bytes, with an optional unit; or this word.
    Size(&'static str),
    OneOf(&'static [&'static str]),
    /// An encoding of characters.
    Charset,
    Zone,
    DateStyle,
}

impl Check {
    /// `pg_settings.vartype`.
    pub fn kind(self) -> &'static str {
        match self {
            Check::Bool => "bool",
            Check::Integer(..) | Check::Duration | Check::DurationOrOff => "integer",
            Check::OneOf(_) => "enum",
            _ => "string",
        }
    }

    /// The value as the setting keeps it; `current` is what it has now.
    pub fn apply(self, name: &str, value: &str, current: &str) -> Result<String> {
        let invalid = || {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
        };
        match self {
            Check::Fixed => {
                let message = format!("parameter \"{name}\" cannot be changed");
                Err(SqlError::new(SqlState("55P02"), message))
            }
            Check::Any => Ok(value.to_string()),
            Check::Bool => match value.to_lowercase().as_str() {
                "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on".into()),
                "off" | "false" | "no" | "0" | "f" | "n" => Ok("off".into()),
                _ => Err(invalid().hint("It takes a Boolean value: on or off.")),
            },
            Check::Integer(low, high) => {
                let number: i64 = value.trim().parse().map_err(|_| invalid())?;
                if (low..=high).contains(&number) {
                    return Ok(number.to_string());
                }
                let message = format!("{number} is outside the valid range for parameter \"{name}\" ({low} .. {high})");
                Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
            }
            Check::DurationOrOff if value.trim() == "-1" => Ok("-1".into()),
            Check::Duration | Check::DurationOrOff => match units::milliseconds(value) {
                Some(ms) => Ok(units::duration_text(ms)),
                None => Err(invalid()
                    .hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")),
            },
            Check::Size(word) if value.eq_ignore_ascii_case(word) => Ok(word.into()),
            Check::Size(word) => match units::bytes(value) {
                Some(bytes) => Ok(units::bytes_text(bytes)),
                None => Err(invalid().hint(format!("It takes {word} or a size such as 512MiB or 16GB."))),
            },
            Check::OneOf(allowed) => match allowed.iter().find(|word| word.eq_ignore_ascii_case(value)) {
                Some(word) => Ok(word.to_string()),
                None => Err(invalid().hint(format!("Available values: {}.", allowed.join(", ")))),
            },
            Check::Charset => match charset::canonical(value) {
                Some(name) => Ok(name.into()),
                None if charset::is_of_several_bytes(value) => {
                    Err(SqlError::unsupported(format!("client encoding \"{value}\"")))
                }
                None => Err(invalid()),
            },
            Check::Zone => Ok(dates::zone(value)?.ok_or_else(invalid)?.name().to_string()),
            Check::DateStyle => dates::date_style(current, value).map_err(|detail| invalid().detail(detail)),
        }
    }
}
