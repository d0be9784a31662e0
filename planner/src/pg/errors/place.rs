//! The character position of the identifier that an error speaks of.

use crate::pg::error::{SqlError, state};
use crate::pg::parse::find_identifier;
use crate::pg::statement::{Kind, Statement};
use datafusion::sql::sqlparser::ast;

/// Adds the position to an error about a name, where the statement's text shows it.
pub(crate) fn locate(mut error: SqlError, statement: &Statement) -> SqlError {
    let named = [
        state::UNDEFINED_COLUMN,
        state::UNDEFINED_TABLE,
        state::UNDEFINED_FUNCTION,
        state::AMBIGUOUS_COLUMN,
        state::GROUPING_ERROR,
        state::UNDEFINED_OBJECT,
        state::INVALID_SCHEMA_NAME,
        state::DUPLICATE_COLUMN,
    ];
    // As in PostgreSQL, what these name is found after their text was read.
    let after_parsing = matches!(&statement.kind, Kind::Sql(tree) if matches!(
        tree.as_ref(),
        ast::Statement::CreateIndex(_) | ast::Statement::AlterIndex { .. } | ast::Statement::Drop { .. }
    ));
    let of_foreign_key = [" referenced in foreign key constraint ", "there is no primary key for "];
    let after_parsing = after_parsing || of_foreign_key.iter().any(|words| error.message.contains(words));
    let after_parsing = after_parsing || error.message.starts_with("constraint \"");
    if after_parsing || error.position.is_some() || !named.contains(&error.state) {
        return error;
    }
    if let Some(name) = subject(&error.message) {
        let (qualifier, name) = match name.rsplit_once('.') {
            Some((qualifier, name)) => (qualifier.rsplit('.').next(), name),
            None => (None, name),
        };
        error.position = find_identifier(&statement.text, statement.start, statement.end, qualifier, name)
            .filter(|at| !(error.state == state::UNDEFINED_TABLE && follows_references(&statement.text, *at)));
    }
    error
}

/// Whether a name is of a table that a foreign key references.
fn follows_references(text: &str, position: usize) -> bool {
    let before: String = text.chars().take(position.saturating_sub(1)).collect();
    let qualifier = |c: char| c.is_alphanumeric() || matches!(c, '_' | '"' | '.');
    let before = match before.ends_with('.') {
        true => before.trim_end_matches(qualifier),
        false => &before,
    };
    let last = before.split_whitespace().next_back();
    last.is_some_and(|word| word.eq_ignore_ascii_case("references"))
}

/// The name in the sentence: quoted, or the word after "column", "relation" or "function".
fn subject(message: &str) -> Option<&str> {
    if let Some(start) = message.find('"') {
        let rest = &message[start + 1..];
        return rest.find('"').map(|end| &rest[..end]);
    }
    let rest = message
        .strip_prefix("column ")
        .or_else(|| message.strip_prefix("function "))?;
    rest.split([' ', '(']).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::parse::parse;

    #[test]
    fn positions_count_characters() {
        let sql = "SELECT 'é', n.nme FROM nation n";
        let statement = parse(sql).expect("parses").remove(0);
        let error = SqlError::new(state::UNDEFINED_COLUMN, "column n.nme does not exist");
        assert_eq!(locate(error, &statement).position, Some(13));
        let error = SqlError::new(state::UNDEFINED_TABLE, "relation \"nation\" does not exist");
        assert_eq!(locate(error, &statement).position, Some(24));
        for sql in [
            "CREATE TABLE t (a int REFERENCES nation)",
            "CREATE TABLE t (a int REFERENCES s.nation)",
        ] {
            let statement = parse(sql).expect("parses").remove(0);
            let error = SqlError::new(state::UNDEFINED_TABLE, "relation \"nation\" does not exist");
            assert_eq!(locate(error, &statement).position, None);
        }
    }
}
