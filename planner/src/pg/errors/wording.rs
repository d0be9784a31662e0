//! DataFusion's and Arrow's sentences, recognised and told in PostgreSQL's words with their SQLSTATE.
//!
//! More than 400 lines because it is a table of sentences.
//!
//! The texts below are those of the DataFusion version in Cargo.toml; one that is no longer recognised falls to a
//! general state of its class, never to a wrong one.

use crate::pg::error::{SqlError, SqlState, state};
use tenon_storage::SqlType;

const CANNOT_COERCE: SqlState = SqlState("42846");
const INVALID_COLUMN_REFERENCE: SqlState = SqlState("42P10");

/// An error of binding names and types.
pub(super) fn plan(message: &str) -> SqlError {
    let first = message.lines().next().unwrap_or(message);
    if let Some(what) = between(first, "Invalid function 'unsupported: ", "'") {
        return SqlError::unsupported(what);
    }
    if first.contains("Aggregate function calls cannot be nested") {
        return SqlError::new(state::GROUPING_ERROR, "aggregate function calls cannot be nested");
    }
    if first.contains("Aggregate function calls cannot contain window function calls") {
        let message = "aggregate function calls cannot contain window function calls";
        return SqlError::new(state::GROUPING_ERROR, message);
    }
    if first.contains("Window function calls cannot be nested") {
        return SqlError::new(SqlState("42P20"), "window function calls cannot be nested");
    }
    if let Some(told) = between(first, "Invalid function '", "'").and_then(without_clause) {
        return told;
    }
    if let Some(name) = between(first, "Invalid function '", "'") {
        let told = SqlError::new(
            state::UNDEFINED_FUNCTION,
            format!("function {name}(...) does not exist"),
        );
        return match between(message, "Did you mean '", "'") {
            Some(known) if super::datafusion::distance(name, known) < name.chars().count().min(3) => {
                told.hint(format!("Perhaps you meant the function {known}."))
            }
            _ => told.hint("No function of that name is known."),
        };
    }
    if let Some(name) = between(first, "table function '", "'") {
        return SqlError::new(
            state::UNDEFINED_FUNCTION,
            format!("function {name}(...) does not exist"),
        );
    }
    if let Some(column) = between(first, "column \"", "\" must appear in the GROUP BY") {
        return grouping(column);
    }
    if first.contains("must appear in the GROUP BY clause") || first.contains("must be in GROUP BY") {
        let column = first
            .split("references: ")
            .nth(1)
            .and_then(|rest| rest.split(" must appear").next());
        return column.map_or_else(|| SqlError::new(state::GROUPING_ERROR, first), grouping);
    }
    if first.contains("Percentile value for 'PERCENTILE_CONT'")
        && let Some(error) = without_clause("percentile_cont")
    {
        return error;
    }
    if first.contains("WITHIN GROUP is only supported for ordered-set aggregate functions") {
        return SqlError::new(SqlState("42809"), "only an ordered-set aggregate can have WITHIN GROUP");
    }
    if first.contains("Aggregate functions are not allowed in the WHERE clause") {
        return SqlError::new(state::GROUPING_ERROR, "aggregate functions are not allowed in WHERE");
    }
    if first.contains("to grouping function is not in grouping columns") {
        let message = "arguments to GROUPING must be grouping expressions of the associated query level";
        return SqlError::new(state::GROUPING_ERROR, message);
    }
    if let Some(name) = first.strip_prefix("Invalid qualifier ") {
        let message = format!("missing FROM-clause entry for table \"{name}\"");
        return SqlError::new(state::UNDEFINED_TABLE, message);
    }
    if let Some(of) = first.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ") {
        return not_boolean("NOT", of);
    }
    if first.starts_with("Unary operator '-' only supports") {
        return SqlError::new(state::UNDEFINED_FUNCTION, "no operator - takes an operand of this type");
    }
    if let Some(of) = first.strip_prefix("Join condition must be boolean type, but got ") {
        return not_boolean("JOIN/ON", of);
    }
    if let Some((left, op @ ("AND" | "OR"), right)) = operands(first).as_ref().map(|(a, op, b)| (a, op.as_str(), b)) {
        return not_boolean(op, if left == "boolean" { right } else { left });
    }
    if let Some((left, op, right)) = operands(first) {
        let message = format!("operator does not exist: {left} {op} {right}");
        return SqlError::new(state::UNDEFINED_FUNCTION, message)
            .hint("No operator matches the given name and argument types. You might need to add explicit type casts.");
    }
    if let Some(error) = refused_arguments(first) {
        return error;
    }
    // One type to PostgreSQL, whose values are of any number of dimensions.
    let beside = first.starts_with("Incompatible inputs for Union")
        || first.starts_with("Failed to coerce then")
        || first.contains("argument types 'coalesce(List(");
    if beside && first.contains("List(List(") {
        return SqlError::unsupported("an array beside one of another number of dimensions");
    }
    if first.contains("No function matches the given name and argument types")
        || first.contains("Failed to coerce arguments")
        || first.contains("could not coerce")
        || (first.contains("unction '") && first.contains("expect"))
        || first.contains("does not support zero arguments")
        || first.contains("requires") && first.contains("but received")
    {
        return undefined_function(first, message);
    }
    if let Some((_, types)) = first.split_once("Inconsistent data type across values list at row")
        && let Some((_, types)) = types.split_once("Was ")
        && let Some((one, other)) = types.split_once(" but found ")
    {
        let (one, other) = (type_name(one), type_name(other));
        if one == other && one.ends_with("[]") {
            return SqlError::unsupported("an array beside one of another number of dimensions");
        }
        let message = format!("VALUES types {one} and {other} cannot be matched");
        return SqlError::new(state::DATATYPE_MISMATCH, message);
    }
    if first.contains("Inconsistent data length across values list") {
        return SqlError::new(state::SYNTAX_ERROR, "VALUES lists must all be the same length");
    }
    if first.starts_with("Cannot find column with position") || first.starts_with("Order by column out of bounds") {
        let position: String = first
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        let message = format!("position {position} is not in select list");
        return SqlError::new(INVALID_COLUMN_REFERENCE, message);
    }
    if first.contains("UNION queries have different number") || first.contains("must have the same number of columns") {
        return SqlError::new(
            state::SYNTAX_ERROR,
            "each set query must have the same number of columns",
        )
        .detail(first.to_string());
    }
    if first.contains("ORDER BY expressions") && first.contains("must appear in select list") {
        return SqlError::new(
            INVALID_COLUMN_REFERENCE,
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        );
    }
    if first.contains("should only return one column") {
        return SqlError::new(state::SYNTAX_ERROR, "subquery must return only one column");
    }
    if first.contains("specified more than once") {
        return SqlError::new(SqlState("42712"), first);
    }
    if first.starts_with("Cannot create filter with non-boolean predicate") {
        let of = first.rsplit("returning ").next().map(type_name).unwrap_or_default();
        let message = format!("argument of WHERE must be type boolean, not type {of}");
        return SqlError::new(state::DATATYPE_MISMATCH, message);
    }
    if first.starts_with("Unsupported CAST from") || first.contains("Cannot automatically convert") {
        let mut words = first.trim_start_matches("Unsupported CAST from ").split(" to ");
        if let (Some(from), Some(to)) = (words.next(), words.next()) {
            let message = format!("cannot cast type {} to {}", type_name(from), type_name(to));
            return SqlError::new(CANNOT_COERCE, message);
        }
    }
    if first.contains("must be >= 0") || first.contains("must be >=0") {
        let (what, code) = if first.contains("OFFSET") {
            ("OFFSET", "2201X")
        } else {
            ("LIMIT", "2201W")
        };
        return SqlError::new(SqlState(code), format!("{what} must not be negative"));
    }
    if first.contains("have the same name. Consider aliasing") {
        let name = between(first, "the expression \"", "\"").unwrap_or_default();
        return SqlError::new(
            state::DUPLICATE_COLUMN,
            format!("column \"{name}\" specified more than once"),
        );
    }
    let mismatch = [
        "common type",
        "different type",
        "compatible",
        "comparable",
        "coerce",
        "only supports",
        "Incompatible",
    ];
    if mismatch.iter().any(|sign| first.contains(sign)) {
        return SqlError::new(state::DATATYPE_MISMATCH, first);
    }
    let unsupported = [
        "not supported",
        "not implemented",
        "only be used in",
        "Unsupported",
        "correlated",
        "Correlated",
    ];
    if unsupported.iter().any(|sign| first.contains(sign)) {
        return SqlError::new(state::FEATURE_NOT_SUPPORTED, first);
    }
    if first.starts_with("No value found for placeholder") {
        let name = first.rsplit(' ').next().unwrap_or_default();
        return SqlError::new(state::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
    }
    SqlError::new(state::SYNTAX_ERROR, message)
}

fn not_boolean(place: &str, of: &str) -> SqlError {
    let message = format!("argument of {place} must be type boolean, not type {}", type_name(of));
    SqlError::new(state::DATATYPE_MISMATCH, message)
}

fn grouping(column: &str) -> SqlError {
    SqlError::new(
        state::GROUPING_ERROR,
        format!("column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"),
    )
}

/// What a function itself says of its arguments' types, with its SQLSTATE.
fn refused_arguments(first: &str) -> Option<SqlError> {
    let (_, own) = first.split_once("coercion failed with: External error: ")?;
    let (own, _) = own.split_once(" No function matches")?;
    let (message, told) = own.strip_suffix(").")?.rsplit_once(" (")?;
    let known = [state::FEATURE_NOT_SUPPORTED, state::DATATYPE_MISMATCH];
    let state = known.into_iter().find(|known| known.0 == told)?;
    Some(SqlError::new(state, message))
}

fn undefined_function(first: &str, whole: &str) -> SqlError {
    let call = between(first, "argument types '", "'").or_else(|| between(first, "unction '", "'"));
    let told = match call {
        Some(call) if call.contains('(') => {
            let (name, types) = call.split_once('(').unwrap_or((call, ""));
            let types: Vec<String> = types
                .strip_suffix(')')
                .unwrap_or(types)
                .split(", ")
                .map(type_name)
                .collect();
            format!("function {name}({}) does not exist", types.join(", "))
        }
        Some(name) => format!("function {name}(...) does not exist"),
        None => first.to_string(),
    };
    SqlError::new(state::UNDEFINED_FUNCTION, told)
        .detail(whole.replace('\n', " ").chars().take(400).collect::<String>())
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// The operand types of "Cannot coerce arithmetic expression Utf8 + Int64 to valid types" and its kin.
fn operands(message: &str) -> Option<(String, String, String)> {
    let rest = message
        .strip_prefix("Cannot coerce arithmetic expression ")
        .or_else(|| message.strip_prefix("Cannot get result type for "))
        .or_else(|| message.strip_prefix("Cannot infer common "))?;
    let rest = rest.rsplit_once("operation ").map_or(rest, |(_, types)| types);
    let rest = rest.split(" to valid types").next()?.split(": ").next()?;
    let operators = [
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "||",
        "~",
        "~*",
        "!~",
        "&",
        "|",
        "#",
        "<<",
        ">>",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
        "@@",
        "LIKE",
        "NOT LIKE",
        "ILIKE",
    ];
    operators.iter().find_map(|op| {
        let (left, right) = rest.split_once(&format!(" {op} "))?;
        Some((
            type_name(left),
            if *op == "!=" { "<>".into() } else { op.to_string() },
            type_name(right),
        ))
    })
}

/// What DataFusion does not do.
pub(super) fn unsupported(message: &str) -> SqlError {
    if message.starts_with("Unsupported CAST from") {
        return plan(message);
    }
    if message.starts_with("Physical plan does not support logical expression WindowFunction") {
        return SqlError::new(SqlState("42P20"), "window functions are not allowed in WHERE");
    }
    if message.starts_with("Physical plan does not support logical expression") {
        return SqlError::unsupported("a subquery in this place")
            .hint("EXISTS, IN and correlated subqueries can stand in WHERE, joined by AND.");
    }
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
}

/// An error of evaluation.
pub(super) fn execution(message: &str) -> SqlError {
    let first = message.lines().next().unwrap_or(message);
    if first.contains("Scalar subquery returned more than one row") {
        return SqlError::new(
            state::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    }
    if first.to_ascii_lowercase().contains("divide by zero") {
        return SqlError::new(state::DIVISION_BY_ZERO, "division by zero");
    }
    if first.contains("to store in a Decimal") {
        return SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(first.to_string());
    }
    if first.starts_with("negative count not allowed") || first.contains("negative substring length") {
        return SqlError::new(SqlState("22011"), "negative substring length not allowed");
    }
    if first.contains("overflow") || first.contains("Overflow") {
        return SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range").detail(first.to_string());
    }
    if first.contains("out of range") {
        return SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, first);
    }
    if first.contains("parsing") || first.contains("parse") {
        return SqlError::new(state::INVALID_TEXT_REPRESENTATION, first);
    }
    if first.to_ascii_lowercase().contains("unsupported") || first.contains("not supported") {
        return SqlError::new(state::FEATURE_NOT_SUPPORTED, first);
    }
    if first.contains("Regular expression did not compile") || first.contains("regex") {
        return SqlError::new(SqlState("2201B"), format!("invalid regular expression: {first}"));
    }
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

/// An error of converting values.
pub(super) fn cast(message: &str) -> SqlError {
    if let Some(text) = between(message, "Cannot cast string '", "' to value of ") {
        let to = between(message, "to value of ", " type")
            .map(type_name)
            .unwrap_or_default();
        let message = format!("invalid input syntax for type {to}: \"{text}\"");
        return SqlError::new(state::INVALID_TEXT_REPRESENTATION, message);
    }
    if let Some(text) = between(message, "Cannot cast value '", "' to value of Boolean") {
        let message = format!("invalid input syntax for type boolean: \"{text}\"");
        return SqlError::new(state::INVALID_TEXT_REPRESENTATION, message);
    }
    if message.starts_with("Can't cast value") {
        let to = message.rsplit("to type ").next().map(type_name).unwrap_or_default();
        return SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, format!("{to} out of range"));
    }
    let lower = message.to_ascii_lowercase();
    if lower.contains("overflow")
        || lower.contains("too large")
        || lower.contains("too small")
        || lower.contains("exceed")
    {
        return SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(message.to_string());
    }
    if lower.contains("timestamp") || lower.contains("date") || lower.contains("time") {
        return SqlError::new(state::INVALID_DATETIME_FORMAT, message);
    }
    if lower.contains("interval") {
        return SqlError::new(state::INVALID_DATETIME_FORMAT, message);
    }
    if lower.contains("not supported") {
        return SqlError::new(CANNOT_COERCE, message);
    }
    SqlError::new(state::INVALID_TEXT_REPRESENTATION, message)
}

/// A function that is called without a clause that it needs.
fn without_clause(name: &str) -> Option<SqlError> {
    let message = match name {
        "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "row_number" | "ntile" | "lag" | "lead"
        | "nth_value" => {
            format!("window function {name} requires an OVER clause")
        }
        "mode" | "percentile_cont" | "percentile_disc" => {
            format!("WITHIN GROUP is required for ordered-set aggregate {name}")
        }
        _ => return None,
    };
    Some(SqlError::new(SqlState("42809"), message))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let length = text[start..].find(after)?;
    Some(&text[start..start + length])
}

/// Arrow's name of a type, as PostgreSQL names it.
fn type_name(arrow: &str) -> String {
    let arrow = arrow.trim().trim_matches(|c| c == '"' || c == '\'');
    match arrow
        .parse::<datafusion::arrow::datatypes::DataType>()
        .ok()
        .and_then(|parsed| SqlType::from_data_type(&parsed))
    {
        Some(known) => known.base_name().to_string(),
        None => arrow.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wording_of_plan_errors() {
        let told = plan("Invalid function 'frobnicate'.\nDid you mean 'nullif'?");
        assert_eq!(told.state.0, "42883");
        assert_eq!(told.message, "function frobnicate(...) does not exist");
        let told = plan("Cannot infer common argument type for comparison operation Int64 = Boolean");
        assert_eq!(
            (told.state.0, told.message.as_str()),
            ("42883", "operator does not exist: bigint = boolean")
        );
        let told = plan("Cannot coerce arithmetic expression Utf8View + Int64 to valid types");
        assert_eq!(
            (told.state.0, told.message.as_str()),
            ("42883", "operator does not exist: text + bigint")
        );
        let told = plan(
            "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \"t.b\" must appear in the GROUP BY clause or must be part of an aggregate function, currently only \"t.a\" appears in the SELECT clause satisfies this requirement",
        );
        assert_eq!(told.state.0, "42803");
        assert!(
            told.message.starts_with("column \"t.b\" must appear"),
            "{}",
            told.message
        );
    }

    #[test]
    fn wording_of_casts() {
        let told = cast("Cannot cast string 'abc' to value of Int32 type");
        assert_eq!(told.message, "invalid input syntax for type integer: \"abc\"");
        assert_eq!(told.state.0, "22P02");
        assert_eq!(
            cast("Can't cast value 70000 to type Int16").message,
            "smallint out of range"
        );
    }
}
