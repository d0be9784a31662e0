//! A session's cursors and prepared statements as `pg_cursors` and `pg_prepared_statements` list them; names that SQL and the
//! protocol share.

use super::Session;
use crate::pg::functions::open::{Listed, ListedCursor, ListedStatement};
use std::sync::Arc;

impl Session {
    /// Whether a prepared statement has that name.
    pub fn has_statement(&self, name: &str) -> bool {
        self.named.contains_key(name) || self.prepared.contains_key(name)
    }

    /// DEALLOCATE ALL. The unnamed statement stays.
    pub(crate) fn forget_statements(&mut self) {
        self.named.clear();
        self.prepared.retain(|name, _| name.is_empty());
    }

    pub(super) fn listed(&self) -> Arc<Listed> {
        let cursors = self.cursors.iter().map(|(name, cursor)| ListedCursor {
            name: name.clone(),
            statement: cursor.statement.sql().to_owned(),
            is_holdable: cursor.hold,
            is_binary: cursor.binary,
            is_scrollable: cursor.rows.goes_back(),
            created_us: cursor.declared_us,
        });
        let by_sql = self.named.iter().map(|(name, named)| ListedStatement {
            name: name.clone(),
            statement: named.statement.sql().to_owned(),
            prepared_us: named.prepared_us,
            parameters: named
                .params
                .iter()
                .map(|field| crate::pg::types::pg_type(field).oid)
                .collect(),
            from_sql: true,
        });
        let by_protocol = self.prepared.iter().filter(|(name, _)| !name.is_empty());
        let by_protocol = by_protocol.map(|(name, prepared)| ListedStatement {
            name: name.clone(),
            statement: prepared.sql().to_owned(),
            prepared_us: prepared.prepared_us,
            parameters: prepared.params.iter().map(|parameter| parameter.oid).collect(),
            from_sql: false,
        });
        Arc::new(Listed {
            cursors: cursors.collect(),
            statements: by_sql.chain(by_protocol).collect(),
        })
    }
}
