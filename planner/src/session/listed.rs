//! A session's cursors and prepared statements as `pg_cursors` and `pg_prepared_statements` list them; names that SQL and the
//! protocol share.

use super::{Prepared, Session};
use crate::pg::functions::open::{Listed, ListedCursor, ListedStatement};
use std::sync::Arc;

impl Session {
    /// Whether a prepared statement has that name.
    pub fn has_statement(&self, name: &str) -> bool {
        self.named.contains_key(name) || self.prepared.contains_key(name)
    }

    /// Keeps what the protocol has prepared under a name.
    pub fn keep_prepared(&mut self, name: String, prepared: Arc<Prepared>) {
        let times = &mut self.prepared_times_us;
        if times.len() > 2 * self.prepared.len() + 16 {
            times.retain(|name, _| self.prepared.contains_key(name));
        }
        if !name.is_empty() {
            times.insert(name.clone(), crate::pg::functions::session::now_us());
        }
        self.prepared.insert(name, prepared);
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
            parameters: named.params.iter().map(|parameter| parameter.oid).collect(),
            from_sql: true,
        });
        let by_protocol = self.prepared.iter().filter(|(name, _)| !name.is_empty());
        let by_protocol = by_protocol.map(|(name, prepared)| ListedStatement {
            name: name.clone(),
            statement: prepared.sql().to_owned(),
            prepared_us: self
                .prepared_times_us
                .get(name)
                .copied()
                .unwrap_or(prepared.prepared_us),
            parameters: prepared.params.iter().map(|parameter| parameter.oid).collect(),
            from_sql: false,
        });
        Arc::new(Listed {
            cursors: cursors.collect(),
            statements: by_sql.chain(by_protocol).collect(),
        })
    }
}
