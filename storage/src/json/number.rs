//! JSON's numbers as PostgreSQL's numerics write them: without an exponent, with the digits that were given.

/// Digits before and after the point that a numeric holds.
const WHOLE_MAX: usize = 131_072;
const SCALE_MAX: usize = 16_383;

/// The numeric's text; None beyond what a numeric holds.
pub(super) fn plain(text: &str) -> Option<String> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, part].concat();
    let zero = digits.bytes().all(|digit| digit == b'0');
    // Digits before the point, once the exponent has moved it.
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let scale = usize::try_from((part.len() as i64).checked_sub(exponent)?.max(0)).ok()?;
    if scale > SCALE_MAX || (!zero && point > WHOLE_MAX as i64) {
        return None;
    }
    let mut out = String::new();
    if negative && !zero {
        out.push('-');
    }
    let before = match point {
        ..=0 => String::new(),
        _ if zero => String::new(),
        point => {
            let point = point as usize;
            let mut before: String = digits.chars().take(point).collect();
            before.extend(std::iter::repeat_n('0', point.saturating_sub(digits.len())));
            before
        }
    };
    let before = before.trim_start_matches('0');
    out.push_str(if before.is_empty() { "0" } else { before });
    if scale > 0 {
        out.push('.');
        let lead = usize::try_from((-point).max(0)).ok()?.min(scale);
        out.extend(std::iter::repeat_n('0', lead));
        out.extend(digits.chars().skip(point.max(0) as usize).take(scale - lead));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn numbers() {
        for (text, wanted) in [
            ("1", "1"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1.10", "1.10"),
            ("1e5", "100000"),
            ("1.5E+3", "1500"),
            ("1e-3", "0.001"),
            ("12.5e-3", "0.0125"),
            ("1.25e1", "12.5"),
            ("-3.50", "-3.50"),
            ("0e5", "0"),
            ("0.00e1", "0.0"),
        ] {
            assert_eq!(plain(text).as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(plain("1e200000"), None);
    }
}
