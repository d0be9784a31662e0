//! The settings that a session begins with: the server's, then those that are kept for its role and its database, then what
//! its client asks for. RESET goes back to them.

use super::Session;
use crate::pg::error::Result;
use crate::pg::identity::not_at_start;
use crate::pg::settings::canonical;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_storage::kept_settings::ANY;
use tenon_storage::rights::DATABASE_OID;

/// Where settings come from that are not the server's, by their names: `pg_settings.source`.
pub(crate) type Sources = Arc<BTreeMap<String, &'static str>>;

impl Session {
    /// A setting of the server's configuration.
    pub fn configure(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set(name, value)?;
        self.startup = self.settings.clone();
        Ok(())
    }

    /// Settings of ALTER ROLE and ALTER DATABASE. One that is not right any more is warned of, and left out.
    pub fn begin_with_kept_settings(&mut self) {
        let state = self.engine.database().snapshot();
        let role = self.identity.connected(&state).role;
        for (source, role, database) in [
            ("global", ANY, ANY),
            ("database", ANY, DATABASE_OID),
            ("user", role, ANY),
            ("database user", role, DATABASE_OID),
        ] {
            for (name, value) in state.kept_settings(role, database) {
                let checked = self.identity.check_acting(&state, &self.settings, name, value);
                match checked.and_then(|()| self.settings.set(name, value)) {
                    Ok(_) => self.note_source(name, source),
                    Err(error) => self.warn(error.state, error.message),
                }
            }
        }
        self.startup = self.settings.clone();
    }

    /// A setting from the startup message. Unknown names are kept without effect, as for SET.
    pub fn set_startup(&mut self, name: &str, value: &str) -> Result<()> {
        let state = self.engine.database().snapshot();
        if name.eq_ignore_ascii_case("session_authorization") {
            return Err(not_at_start());
        }
        self.identity.check_setting(&state, &self.settings, name, value)?;
        self.configure(name, value)?;
        self.note_source(name, "client");
        Ok(())
    }

    fn note_source(&mut self, name: &str, source: &'static str) {
        Arc::make_mut(&mut self.sources).insert(canonical(name), source);
    }
}
