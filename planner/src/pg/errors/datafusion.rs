//! `DataFusionError` and `ArrowError` to SQLSTATE and PostgreSQL's wording.

use super::wording;
use crate::pg::error::{SqlError, state};
use crate::pg::rewrite::displayed_name;
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use std::io;
use tenon_storage::StorageError;

/// What the client is told of an error of planning or execution.
pub(crate) fn from_datafusion(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(errors) => errors
            .first()
            .map_or_else(|| SqlError::internal("unknown error"), from_datafusion),
        DataFusionError::ArrowError(error, _) => from_arrow(error),
        DataFusionError::External(error) => from_boxed(error.as_ref()),
        DataFusionError::SchemaError(error, _) => from_schema(error),
        DataFusionError::Plan(message) => wording::plan(message),
        DataFusionError::Execution(message) => wording::execution(message),
        DataFusionError::NotImplemented(message) => wording::unsupported(message),
        DataFusionError::Configuration(message) => SqlError::new(state::INVALID_PARAMETER_VALUE, message.clone()),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(state::OUT_OF_MEMORY, "out of memory").detail(message.clone())
        }
        DataFusionError::IoError(error) => from_io(error),
        DataFusionError::SQL(error, _) => SqlError::new(state::SYNTAX_ERROR, error.to_string()),
        DataFusionError::ExecutionJoin(error) if error.is_panic() => {
            SqlError::internal("the query failed by an internal error")
        }
        other => SqlError::internal(other.to_string()),
    }
}

fn from_io(error: &io::Error) -> SqlError {
    let told = error.to_string();
    if let Some(inner) = error
        .get_ref()
        .filter(|inner| inner.is::<SqlError>() || inner.is::<DataFusionError>() || inner.is::<ArrowError>())
    {
        return from_boxed(inner);
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlError::new(state::DISK_FULL, told),
        _ => SqlError::new(state::IO_ERROR, told),
    }
}

fn from_boxed(error: &(dyn std::error::Error + Send + Sync + 'static)) -> SqlError {
    if let Some(error) = error.downcast_ref::<SqlError>() {
        error.clone()
    } else if let Some(error) = error.downcast_ref::<StorageError>() {
        error.clone().into()
    } else if let Some(error) = error.downcast_ref::<DataFusionError>() {
        from_datafusion(error)
    } else if let Some(error) = error.downcast_ref::<ArrowError>() {
        from_arrow(error)
    } else {
        SqlError::internal(error.to_string())
    }
}

pub(crate) fn from_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(state::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range").detail(error.to_string())
        }
        ArrowError::ExternalError(error) => from_boxed(error.as_ref()),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => wording::cast(message),
        ArrowError::InvalidArgumentError(message) | ArrowError::ComputeError(message) => wording::execution(message),
        ArrowError::NotYetImplemented(message) => SqlError::new(state::FEATURE_NOT_SUPPORTED, message.clone()),
        ArrowError::MemoryError(message) => SqlError::new(state::OUT_OF_MEMORY, message.clone()),
        ArrowError::IoError(_, error) => from_io(error),
        ArrowError::OffsetOverflowError(_) => SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, error.to_string()),
        other => SqlError::internal(other.to_string()),
    }
}

fn from_schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = match &field.relation {
                Some(relation) => format!("{}.{}", relation.table(), field.name),
                None => format!("\"{}\"", field.name),
            };
            let relation_known = field.relation.as_ref().is_none_or(|wanted| {
                valid_fields
                    .iter()
                    .any(|f| f.relation.as_ref().is_some_and(|r| r.table() == wanted.table()))
            });
            if let Some(relation) = field.relation.as_ref().filter(|_| !relation_known) {
                let message = format!("missing FROM-clause entry for table \"{}\"", relation.table());
                return SqlError::new(state::UNDEFINED_TABLE, message);
            }
            // A derived table's columns of one name carry marks.
            let meant = valid_fields.iter().filter(|known| {
                let table = field
                    .relation
                    .as_ref()
                    .is_none_or(|wanted| known.relation.as_ref() == Some(wanted));
                table && known.name != field.name && displayed_name(&known.name) == field.name
            });
            if meant.count() > 1 {
                return ambiguous(&field.name);
            }
            let told = SqlError::new(state::UNDEFINED_COLUMN, format!("column {name} does not exist"));
            match closest(&field.name, valid_fields) {
                Some(known) => told.hint(format!("Perhaps you meant to reference the column \"{known}\".")),
                None => told,
            }
        }
        SchemaError::AmbiguousReference { field } => ambiguous(&field.name),
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            if qualifier.table().is_empty() {
                return SqlError::new(
                    state::DUPLICATE_COLUMN,
                    format!("column \"{name}\" specified more than once"),
                );
            }
            let message = format!("table name \"{}\" specified more than once", qualifier.table());
            SqlError::new(crate::pg::error::SqlState("42712"), message)
        }
        SchemaError::DuplicateUnqualifiedField { name } => SqlError::new(
            state::DUPLICATE_COLUMN,
            format!("column \"{name}\" specified more than once"),
        ),
    }
}

fn ambiguous(column: &str) -> SqlError {
    SqlError::new(
        state::AMBIGUOUS_COLUMN,
        format!("column reference \"{column}\" is ambiguous"),
    )
}

/// The known column nearest to a misspelt one, where near enough to be meant.
fn closest(name: &str, valid: &[datafusion::common::Column]) -> Option<String> {
    let best = valid
        .iter()
        .map(|column| (distance(name, &column.name), column))
        .min_by_key(|(far, _)| *far)?;
    (best.0 <= (name.chars().count() / 2).clamp(1, 3)).then(|| match &best.1.relation {
        Some(relation) => format!("{}.{}", relation.table(), best.1.name),
        None => best.1.name.clone(),
    })
}

/// Levenshtein distance in characters.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("l_orderkey", "l_orderky"), 1);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn full_disks() {
        let error = io::Error::other(SqlError::new(state::DISK_FULL, "no more files"));
        assert_eq!(from_io(&error).state, state::DISK_FULL);
        let error = ArrowError::IoError("wrapped".into(), error);
        assert_eq!(from_arrow(&error).state, state::DISK_FULL);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(from_datafusion(&full.into()).state, state::DISK_FULL);
    }

    #[test]
    fn states() {
        let state_of = |error: DataFusionError| from_datafusion(&error).state.0;
        assert_eq!(
            state_of(DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None)),
            "22012"
        );
        let deep = DataFusionError::NotImplemented("x".into()).context("a").context("b");
        assert_eq!(state_of(deep), "0A000");
        assert_eq!(state_of(DataFusionError::ResourcesExhausted("no".into())), "53200");
        let own = SqlError::new(state::UNDEFINED_TABLE, "gone");
        assert_eq!(state_of(super::super::to_datafusion(own)), "42P01");
    }
}
