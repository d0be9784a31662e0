//! Session settings that the wire itself looks after.

use crate::serve::Server;
use tenon_planner::error::Result;
use tenon_planner::session::Session;

/// Applies what the server's configuration, then the user's role and its database, and then the startup packet set.
///
/// # Errors
/// A bad value of a known setting ends the connection. Unknown settings are kept without effect: drivers send those of
/// servers newer than the one that Tenon speaks like.
pub fn apply(session: &mut Session, server: &Server, settings: Vec<(String, String)>) -> Result<()> {
    if let Some(timeout) = server.statement_timeout {
        session.configure("statement_timeout", &timeout.as_millis().to_string())?;
    }
    for (name, limit) in [
        ("log_min_duration_statement", server.log_min_duration_statement),
        ("auto_explain.log_min_duration", server.log_min_duration_plan),
    ] {
        if let Some(limit) = limit {
            session.configure(name, &limit.as_millis().to_string())?;
        }
    }
    let stalled = server.client_stalled_timeout.as_millis().to_string();
    session.configure("tenon.client_stalled_timeout", &stalled)?;
    session.begin_with_kept_settings();
    settings
        .iter()
        .try_for_each(|(name, value)| session.set_startup(name, value))
}
