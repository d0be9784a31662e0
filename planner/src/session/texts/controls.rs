//! BEGIN, COMMIT and ROLLBACK as clients write them, parsed once for all sessions.

use super::Texts;
use crate::pg::statement::{Kind, Statement};
use datafusion::sql::sqlparser::ast;

/// The longest text that is looked up, bytes; how many are kept.
const TEXT_BYTES_MAX: usize = 48;
const TEXTS_MAX: usize = 64;

impl Texts {
    /// The statement of a text, where it was kept.
    pub fn control(&self, sql: &str) -> Option<Statement> {
        let short = sql.len() <= TEXT_BYTES_MAX;
        short.then(|| self.controls.lock().get(sql).cloned()).flatten()
    }

    /// Keeps the only statement of a text, if it is one of these.
    pub fn keep_control(&self, sql: &str, statement: &Statement) {
        let begins =
            matches!(&statement.kind, Kind::Sql(tree) if matches!(**tree, ast::Statement::StartTransaction { .. }));
        // Strings are read as a setting says.
        if sql.len() > TEXT_BYTES_MAX || sql.contains('\'') || !(begins || statement.ends_transaction()) {
            return;
        }
        let mut controls = self.controls.lock();
        if controls.len() == TEXTS_MAX {
            controls.clear();
        }
        controls.insert(sql.to_owned(), statement.clone());
    }
}
