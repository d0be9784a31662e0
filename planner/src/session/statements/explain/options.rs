//! EXPLAIN's options.

use crate::pg::error::{Result, SqlError, state};
use datafusion::sql::sqlparser::ast::{self, AnalyzeFormat, AnalyzeFormatKind, Expr, UtilityOption, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
    Yaml,
    Xml,
}

/// What is asked for, defaults filled in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub analyze: bool,
    pub verbose: bool,
    pub costs: bool,
    pub timing: bool,
    pub summary: bool,
    pub format: Format,
}

pub(super) fn of(statement: &ast::Statement) -> Result<Options> {
    let ast::Statement::Explain {
        analyze,
        verbose,
        format,
        options,
        ..
    } = statement
    else {
        return Err(SqlError::internal("no EXPLAIN"));
    };
    let mut out = Options {
        analyze: *analyze,
        verbose: *verbose,
        costs: true,
        timing: false,
        summary: false,
        format: Format::Text,
    };
    if let Some(AnalyzeFormatKind::Keyword(AnalyzeFormat::JSON) | AnalyzeFormatKind::Assignment(AnalyzeFormat::JSON)) =
        format
    {
        out.format = Format::Json;
    }
    let (mut timing, mut summary, mut wal) = (None, None, false);
    for option in options.iter().flatten() {
        let name = option.name.value.to_lowercase();
        match name.as_str() {
            "analyze" => out.analyze = truth(&name, option)?,
            "verbose" => out.verbose = truth(&name, option)?,
            "costs" => out.costs = truth(&name, option)?,
            "timing" => timing = Some(truth(&name, option)?),
            "summary" => summary = Some(truth(&name, option)?),
            "wal" => wal = truth(&name, option)?,
            // Nothing is read from disk, and a plan never depends on a parameter's value alone.
            "buffers" | "settings" | "generic_plan" => drop(truth(&name, option)?),
            "format" => out.format = named_format(option)?,
            other => {
                let message = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
        }
    }
    for (name, on) in [("WAL", wal), ("TIMING", timing == Some(true))] {
        if on && !out.analyze {
            let message = format!("EXPLAIN option {name} requires ANALYZE");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
    }
    out.timing = timing.unwrap_or(out.analyze);
    out.summary = summary.unwrap_or(out.analyze);
    Ok(out)
}

/// An option's truth value: true where only the name is given.
fn truth(name: &str, option: &UtilityOption) -> Result<bool> {
    let text = match &option.arg {
        None => return Ok(true),
        Some(Expr::Value(value)) => match &value.value {
            Value::Boolean(value) => return Ok(*value),
            Value::SingleQuotedString(text) => text.to_lowercase(),
            other => other.to_string().to_lowercase(),
        },
        Some(other) => other.to_string().to_lowercase(),
    };
    match text.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(SqlError::new(
            state::SYNTAX_ERROR,
            format!("{name} requires a Boolean value"),
        )),
    }
}

fn named_format(option: &UtilityOption) -> Result<Format> {
    let asked = option.arg.as_ref().map(|arg| arg.to_string().to_lowercase());
    match asked.as_deref().map(|name| name.trim_matches('\'')) {
        Some("json") => Ok(Format::Json),
        Some("text") => Ok(Format::Text),
        Some("yaml") => Ok(Format::Yaml),
        Some("xml") => Ok(Format::Xml),
        other => {
            let message = format!(
                "unrecognized value for EXPLAIN option \"format\": \"{}\"",
                other.unwrap_or_default()
            );
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
    }
}
