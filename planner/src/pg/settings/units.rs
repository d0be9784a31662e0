//! Times and sizes with their units.

/// A number and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim()))
}

/// A time in milliseconds: `500ms`, `30s`, `5min`, `2h`; a bare number is milliseconds, as in PostgreSQL.
pub fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1e3,
        "min" => 60e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        _ => return None,
    };
    // PostgreSQL keeps times in an integer.
    let ms = (number * factor).round();
    (ms <= f64::from(i32::MAX)).then_some(ms as u64)
}

/// As SHOW prints a time: in the largest unit that gives a whole number.
pub fn duration_text(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match units.iter().find(|(of, _)| ms >= *of && ms.is_multiple_of(*of)) {
        Some((of, unit)) => format!("{}{unit}", ms / of),
        None if ms == 0 => "0".into(),
        None => format!("{ms}ms"),
    }
}

/// A size in bytes: `512MiB`, `16 GB`, `1000000`.
pub fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number * factor;
    (bytes >= 1.0 && bytes <= i64::MAX as f64).then_some(bytes as usize)
}

/// A size in the largest unit that gives a whole number.
pub fn bytes_text(bytes: usize) -> String {
    let units = [
        (1_usize << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units.iter().find(|(of, _)| bytes >= *of && bytes.is_multiple_of(*of)) {
        Some((of, unit)) => format!("{}{unit}", bytes / of),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases = [
            ("0", 0, "0"),
            ("250", 250, "250ms"),
            ("5s", 5000, "5s"),
            ("1.5 min", 90_000, "90s"),
            ("60000", 60_000, "1min"),
            ("2h", 7_200_000, "2h"),
            ("10 ms", 10, "10ms"),
            ("24h", 86_400_000, "1d"),
        ];
        for (text, ms, shown) in cases {
            assert_eq!(milliseconds(text), Some(ms), "{text}");
            assert_eq!(duration_text(ms), shown, "{text}");
        }
        for bad in ["soon", "-1", "", "5 years", "100d"] {
            assert_eq!(milliseconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes() {
        let cases = [
            ("512MiB", 512 << 20, "512MiB"),
            ("4096 MiB", 4 << 30, "4GiB"),
            ("1.5 GB", 1_500_000_000, "1500000000B"),
            ("123", 123, "123B"),
        ];
        for (text, size, shown) in cases {
            assert_eq!(bytes(text), Some(size), "{text}");
            assert_eq!(bytes_text(size), shown, "{text}");
            assert_eq!(bytes(shown), Some(size), "{shown}");
        }
        for bad in ["", "0", "-1", "1 XB", "50%", "GB"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
