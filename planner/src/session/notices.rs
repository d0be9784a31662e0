//! Messages beside the results: what gathers of them, and which the client is told.

use crate::pg::error::{SqlError, SqlState};
use crate::session::Session;

/// A message beside the result: NoticeResponse.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `WARNING`, `NOTICE`, `INFO`, `LOG` or `DEBUG`.
    pub severity: &'static str,
    pub report: SqlError,
}

impl Session {
    /// Takes the messages that have gathered.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let warnings = std::mem::take(&mut *self.warnings.lock());
        warnings
            .into_iter()
            .for_each(|message| self.warn(SqlState("01000"), message));
        let mut notices = std::mem::take(&mut self.notices);
        if !notices.is_empty() {
            // What a client asked for (VERBOSE) is told whatever the level.
            let least = self.settings.get("client_min_messages").unwrap_or_default();
            notices.retain(|notice| notice.severity == "INFO" || grade(notice.severity) >= grade(&least));
        }
        notices
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    pub(crate) fn notice(&mut self, message: impl Into<String>) {
        self.notices.push(Notice {
            severity: "NOTICE",
            report: SqlError::new(SqlState("00000"), message),
        });
    }

    /// What PostgreSQL tells those who ask for messages of debugging.
    pub(crate) fn debug(&mut self, message: impl Into<String>) {
        self.notices.push(Notice {
            severity: "DEBUG",
            report: SqlError::new(SqlState("00000"), message),
        });
    }

    /// A message that the client asked for: VERBOSE.
    pub(crate) fn inform(&mut self, message: impl Into<String>) {
        self.notices.push(Notice {
            severity: "INFO",
            report: SqlError::new(SqlState("00000"), message),
        });
    }

    pub(crate) fn warn(&mut self, state: SqlState, message: impl Into<String>) {
        self.notices.push(Notice {
            severity: "WARNING",
            report: SqlError::new(state, message),
        });
    }
}

/// How grave a message is, as `client_min_messages` orders them.
fn grade(severity: &str) -> usize {
    const GRADES: [&str; 6] = ["debug", "log", "info", "notice", "warning", "error"];
    let severity = severity.to_lowercase();
    let severity = severity.trim_end_matches(|c: char| c.is_ascii_digit());
    GRADES.iter().position(|own| *own == severity).unwrap_or(0)
}
