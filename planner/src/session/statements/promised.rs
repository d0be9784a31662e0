//! Columns of what runs, which must be those that preparing it told.

use crate::pg::error::{Result, SqlError};
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::statement::Kind;
use crate::session::Prepared;
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast;
use tenon_storage::types::OIDS_OF_OBJECTS;

/// Columns of a new plan, which must have the names and types that preparing the statement told. One that ALTER TYPE has changed since is
/// the same for PostgreSQL.
pub(super) fn as_promised(prepared: &Prepared, columns: Vec<ColumnDesc>) -> Result<Vec<ColumnDesc>> {
    if let Some(promised) = &prepared.columns
        && (promised.len() != columns.len() || promised.iter().zip(&columns).any(|(a, b)| differ(a, b)))
    {
        return Err(SqlError::changed_result());
    }
    Ok(columns)
}

/// Rows that a change returns, which must be those that preparing it told: by then its name may be another table's.
pub(crate) fn returned_as_promised(prepared: &Prepared, outcome: Outcome) -> Result<Outcome> {
    let changes = match &prepared.statement.kind {
        Kind::Sql(statement) => matches!(
            **statement,
            ast::Statement::Insert(_)
                | ast::Statement::Update { .. }
                | ast::Statement::Delete(_)
                | ast::Statement::Execute { .. }
        ),
        _ => false,
    };
    if let (true, Some(promised), Outcome::Rows { columns, .. }) = (changes, &prepared.columns, &outcome)
        && (promised.len() != columns.len()
            || promised
                .iter()
                .zip(columns)
                .any(|(a, b)| differ(a, b) && !is_deeper(a, b)))
    {
        return Err(SqlError::changed_result());
    }
    Ok(outcome)
}

/// Whether columns are of one array type, whose values have other numbers of dimensions.
fn is_deeper(a: &ColumnDesc, b: &ColumnDesc) -> bool {
    let is_list = |of: &ColumnDesc| matches!(of.data_type, DataType::List(_));
    a.name == b.name && a.pg_type == b.pg_type && is_list(a) && is_list(b)
}

fn differ(a: &ColumnDesc, b: &ColumnDesc) -> bool {
    let is_altered = a.pg_type.oid >= OIDS_OF_OBJECTS;
    a.name != b.name || a.pg_type != b.pg_type || a.data_type != b.data_type && !is_altered
}
