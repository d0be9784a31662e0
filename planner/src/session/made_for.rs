//! What something that a statement keeps was made for, apart from data and parameters.

use super::Session;
use super::plan_cache::Purpose;

/// What names meant, and for whom and under which settings.
pub(crate) struct MadeFor {
    meaning: u64,
    purpose: Purpose,
}

impl MadeFor {
    pub fn of(session: &Session) -> Self {
        Self {
            meaning: session.state().meaning(),
            purpose: session.purpose(),
        }
    }

    /// Whether what is made for the session now would be the same.
    pub fn is_right(&self, session: &Session) -> bool {
        self.meaning == session.state().meaning() && self.purpose == session.purpose()
    }
}
