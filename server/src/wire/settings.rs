//! Session settings that the wire itself looks after.

use crate::serve::Server;
use tenon_planner::error::Result;
use tenon_planner::session::Session;

/// Applies what the server's configuration and then the startup packet set.
///
/// # Errors
/// A bad value of a known setting ends the connection. Unknown settings are kept without effect: drivers send those of
/// servers newer than the one that Tenon speaks like.
pub fn apply(session: &mut Session, server: &Server, settings: Vec<(String, String)>) -> Result<()> {
    if let Some(timeout) = server.statement_timeout {
        session.set_startup("statement_timeout", &timeout.as_millis().to_string())?;
    }
    settings
        .iter()
        .try_for_each(|(name, value)| session.set_startup(name, value))
}

/// A PostgreSQL time setting in milliseconds: a number, and a unit where it is not ms.
pub fn duration_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1.0,
        "us" => 0.001,
        "s" => 1e3,
        "min" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        _ => return None,
    };
    Some((number * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::duration_ms;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("0", 0),
            ("250", 250),
            ("5s", 5000),
            ("1.5 min", 90_000),
            ("2h", 7_200_000),
            ("10 ms", 10),
        ] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        assert_eq!(duration_ms("soon"), None);
    }
}
