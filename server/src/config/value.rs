//! Parsers of configuration values; `None` is a value that is not allowed.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use tenon_planner::settings;

/// `512MiB`, `16 GB`, `1000000` or `60%` of `whole_bytes` (no percentages where that is 0).
pub fn size(text: &str, whole_bytes: usize) -> Option<usize> {
    let Some(percent) = text.strip_suffix('%') else {
        return settings::bytes(text);
    };
    let percent: f64 = percent.trim().parse().ok()?;
    let bytes = whole_bytes as f64 / 100.0 * percent;
    (percent <= 100.0 && bytes >= 1.0).then_some(bytes as usize)
}

/// `500ms`, `30s`, `5min`, `2h`; a bare number is milliseconds, as in PostgreSQL.
pub fn duration(text: &str) -> Option<Duration> {
    settings::milliseconds(text).map(Duration::from_millis)
}

/// The same, or -1: never.
pub fn logged(text: &str) -> Option<Option<Duration>> {
    match text {
        "-1" => Some(None),
        _ => duration(text).map(Some),
    }
}

pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" | "" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// One address and port, by number or by a name that resolves.
pub fn addresses(text: &str) -> Option<Vec<SocketAddr>> {
    let found: Vec<_> = text.to_socket_addrs().ok()?.collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("512MiB", 0), Some(512 << 20));
        assert_eq!(size("1.5 GB", 0), Some(1_500_000_000));
        assert_eq!(size("123", 0), Some(123));
        assert_eq!(size("50%", 1000), Some(500));
        for bad in ["", "0", "-1", "1 XB", "50%", "GB"] {
            assert_eq!(size(bad, 0), None, "{bad}");
        }
        assert_eq!(duration("250"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2 min"), Some(Duration::from_secs(120)));
        assert_eq!(duration("soon"), None);
    }
}
