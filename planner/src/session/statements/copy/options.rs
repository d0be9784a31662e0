//! The options of a COPY statement, checked.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::CopyOutFormat;
use crate::pg::parse::copy::{Copy, OptionValue};
use crate::session::Session;
use tenon_storage::load::{CopyFormat, CopyOptions, FileFormat, Header};

/// What the options say, before it is known what they are for.
pub(super) struct Options {
    pub copy: CopyOptions,
    /// FORMAT parquet or arrow: files only.
    pub file: Option<FileFormat>,
    /// Whether a format was named at all.
    pub format_given: bool,
    /// Whether any option was given that describes a CSV or text dialect.
    pub dialect_given: bool,
    pub force_quote: Forced,
}

/// Columns that FORCE_QUOTE names.
pub(super) enum Forced {
    None,
    All,
    Columns(Vec<String>),
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, message)
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

/// Reads the options. `default` is the format where none is named. `all` are the columns copied.
pub(super) fn read(copy: &Copy, default: CopyFormat, all: &[String]) -> Result<Options> {
    let mut seen: Vec<&str> = Vec::new();
    for (name, _) in &copy.options {
        if seen.contains(&name.as_str()) {
            return Err(wrong("conflicting or redundant options"));
        }
        seen.push(name);
    }
    let mut file = None;
    let mut format = default;
    if let Some((_, value)) = copy.options.iter().find(|(name, _)| name == "format") {
        match text("format", value)?.to_lowercase().as_str() {
            "text" => format = CopyFormat::Text,
            "csv" => format = CopyFormat::Csv,
            "binary" => format = CopyFormat::Binary,
            "parquet" => file = Some(FileFormat::Parquet),
            "arrow" | "ipc" | "feather" => file = Some(FileFormat::Arrow),
            other => return Err(invalid(format!("COPY format \"{other}\" not recognized"))),
        }
    }
    let mut options = CopyOptions::new(format);
    let (mut quote, mut escape) = (None, None);
    let mut force_quote = Forced::None;
    let (mut dialect_given, mut csv_only) = (false, None);
    for (name, value) in &copy.options {
        match name.as_str() {
            "format" => continue,
            "freeze" => {
                boolean("freeze", value)?;
                continue;
            }
            "encoding" => {
                let given = text(name, value)?;
                let plain: String = given.chars().filter(char::is_ascii_alphanumeric).collect();
                if !matches!(plain.to_lowercase().as_str(), "utf8" | "unicode") {
                    return Err(SqlError::unsupported(format!("encoding \"{given}\"")).hint("Use UTF8."));
                }
                continue;
            }
            "delimiter" => options.delimiter = character("delimiter", value)?,
            "null" => options.null = text(name, value)?.into(),
            "header" => options.header = header(value)?,
            "quote" => quote = Some(character("quote", value)?),
            "escape" => escape = Some(character("escape", value)?),
            "force_null" => options.force_null = listed(name, value, all)?,
            "force_not_null" => options.force_not_null = listed(name, value, all)?,
            "force_quote" => {
                force_quote = match value {
                    OptionValue::Star => Forced::All,
                    OptionValue::Columns(names) => Forced::Columns(names.clone()),
                    _ => {
                        return Err(wrong(
                            "argument to option \"force_quote\" must be a list of column names",
                        ));
                    }
                }
            }
            other => return Err(wrong(format!("option \"{other}\" not recognized"))),
        }
        dialect_given = true;
        if matches!(
            name.as_str(),
            "quote" | "escape" | "force_null" | "force_not_null" | "force_quote"
        ) {
            csv_only.get_or_insert(name.as_str());
        }
    }
    if let Some(name) = csv_only.filter(|_| format != CopyFormat::Csv || file.is_some()) {
        return Err(SqlError::new(
            state::FEATURE_NOT_SUPPORTED,
            format!("COPY {} available only in CSV mode", name.to_uppercase()),
        ));
    }
    if dialect_given && (format == CopyFormat::Binary || file.is_some()) {
        let name = if file.is_some() { "PARQUET or ARROW" } else { "BINARY" };
        return Err(wrong(format!(
            "cannot specify DELIMITER, NULL or HEADER in {name} mode"
        )));
    }
    options.quote = quote.unwrap_or(b'"');
    options.escape = escape.unwrap_or(options.quote);
    options.check()?;
    if copy.to && options.header == Header::Match {
        return Err(invalid("cannot use \"match\" with HEADER in COPY TO"));
    }
    let format_given = seen.contains(&"format");
    Ok(Options {
        copy: options,
        file,
        format_given,
        dialect_given,
        force_quote,
    })
}

impl Options {
    /// How the wire writes rows of these columns.
    pub(super) fn output(self, columns: &[String]) -> Result<CopyOutFormat> {
        let header = self.copy.header != Header::Absent;
        Ok(match self.copy.format {
            CopyFormat::Binary => CopyOutFormat::Binary,
            CopyFormat::Text => CopyOutFormat::Text {
                delimiter: self.copy.delimiter,
                null: self.copy.null,
                header,
            },
            CopyFormat::Csv => {
                let force_quote = match &self.force_quote {
                    Forced::None => vec![false; columns.len()],
                    Forced::All => vec![true; columns.len()],
                    Forced::Columns(names) => {
                        if let Some(unknown) = names.iter().find(|name| !columns.contains(name)) {
                            let message = format!("FORCE_QUOTE column \"{unknown}\" not referenced by COPY");
                            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
                        }
                        columns.iter().map(|column| names.contains(column)).collect()
                    }
                };
                CopyOutFormat::Csv {
                    delimiter: self.copy.delimiter,
                    null: self.copy.null,
                    header,
                    quote: self.copy.quote,
                    escape: self.copy.escape,
                    force_quote,
                }
            }
        })
    }
}

fn text<'a>(name: &str, value: &'a OptionValue) -> Result<&'a str> {
    match value {
        OptionValue::Text(text) => Ok(text),
        _ => Err(wrong(format!("{name} requires a parameter"))),
    }
}

fn character(name: &str, value: &OptionValue) -> Result<u8> {
    match text(name, value)?.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(SqlError::new(
            state::FEATURE_NOT_SUPPORTED,
            format!("COPY {name} must be a single one-byte character"),
        )),
    }
}

fn boolean(name: &str, value: &OptionValue) -> Result<bool> {
    match value {
        OptionValue::Absent => Ok(true),
        OptionValue::Text(text) => match text.to_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(wrong(format!("{name} requires a Boolean value"))),
        },
        _ => Err(wrong(format!("{name} requires a Boolean value"))),
    }
}

fn header(value: &OptionValue) -> Result<Header> {
    if let OptionValue::Text(text) = value
        && text.eq_ignore_ascii_case("match")
    {
        return Ok(Header::Match);
    }
    match boolean("header", value) {
        Ok(true) => Ok(Header::Skip),
        Ok(false) => Ok(Header::Absent),
        Err(_) => Err(wrong("header requires a Boolean value or \"match\"")),
    }
}

fn listed(name: &str, value: &OptionValue, all: &[String]) -> Result<Vec<String>> {
    match value {
        OptionValue::Columns(names) => Ok(names.clone()),
        OptionValue::Star => Ok(all.to_vec()),
        _ => Err(wrong(format!(
            "argument to option \"{name}\" must be a list of column names"
        ))),
    }
}

/// Texts from and to a client are in its encoding: another, by ENCODING, is not for clients whose own is not UTF-8.
pub(super) fn check_encoding(session: &Session, copy: &Copy) -> Result<()> {
    let given = copy.options.iter().any(|(name, _)| name == "encoding");
    match given && !session.charset().is_utf8() {
        true => Err(SqlError::unsupported(format!(
            "COPY with ENCODING in client encoding \"{}\"",
            session.charset().name()
        ))),
        false => Ok(()),
    }
}
