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

/// As PostgreSQL's MAX_REPORTED_DEPS.
const CASCADES_TOLD_MAX: usize = 100;

impl Session {
    /// Takes the messages that have gathered.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let warnings = std::mem::take(&mut *self.warnings.lock());
        warnings
            .into_iter()
            .for_each(|message| self.warn(SqlState("01000"), message));
        self.tell_cascades();
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

    /// Something goes with what a statement drops; the client is told of all that does in one notice.
    pub(crate) fn cascades_to(&mut self, what: String) {
        self.cascades.push(what);
    }

    fn tell_cascades(&mut self) {
        let gone = std::mem::take(&mut self.cascades);
        match gone.as_slice() {
            [] => (),
            [one] => self.notice(format!("drop cascades to {one}")),
            several => {
                let told = several.iter().take(CASCADES_TOLD_MAX);
                let mut lines: Vec<String> = told.map(|what| format!("drop cascades to {what}")).collect();
                match several.len() - lines.len() {
                    0 => (),
                    1 => lines.push("and 1 other object (see server log for list)".into()),
                    rest => lines.push(format!("and {rest} other objects (see server log for list)")),
                }
                let message = format!("drop cascades to {} other objects", several.len());
                let report = SqlError::new(SqlState("00000"), message).detail(lines.join("\n"));
                self.tell(Notice {
                    severity: "NOTICE",
                    report,
                });
            }
        }
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
