//! Parsers of configuration values; `None` is a value that is not allowed.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// `512MiB`, `16 GB`, `1000000` or `60%` of `whole_bytes` (no percentages where that is 0).
pub fn size(text: &str, whole_bytes: usize) -> Option<usize> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "%" if whole_bytes > 0 && number <= 100.0 => whole_bytes as f64 / 100.0,
        _ => return None,
    };
    let bytes = number * unit;
    (bytes >= 1.0 && bytes <= i64::MAX as f64).then_some(bytes as usize)
}

/// `500ms`, `30s`, `5min`, `2h`; a bare number is milliseconds, as in PostgreSQL.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let seconds = match text[digits..].trim() {
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
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

/// Memory that this process may use: the machine's, or less where a control group says so.
pub fn machine_memory_bytes() -> usize {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace()
            .nth(1)?
            .parse::<usize>()
            .ok()
            .map(|kib| kib * 1024)
    });
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let total = total.unwrap_or(8 << 30);
    group.map_or(total, |group: usize| group.min(total))
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
        assert!(machine_memory_bytes() > 64 << 20);
    }
}
