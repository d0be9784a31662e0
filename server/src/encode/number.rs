//! Integers and floats as PostgreSQL writes them.

/// Appends a decimal integer.
#[inline]
pub fn write_int<I: itoa::Integer>(value: I, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// `float8out` with `extra_float_digits` at its default: the shortest digits that read back the same.
#[inline]
pub fn write_f64(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        layout(ryu::Buffer::new().format_finite(value).as_bytes(), 15, out);
    } else {
        write_special(value.is_nan(), value > 0.0, out);
    }
}

/// `float4out`, likewise.
#[inline]
pub fn write_f32(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        layout(ryu::Buffer::new().format_finite(value).as_bytes(), 6, out);
    } else {
        write_special(value.is_nan(), value > 0.0, out);
    }
}

/// A float with so many significant digits at most, as C's `%g` has it.
#[cold]
pub fn write_digits(value: f64, digits: i32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return write_special(value.is_nan(), value > 0.0, out);
    }
    let digits = digits.max(1);
    layout(format!("{value:.*e}", digits as usize - 1).as_bytes(), digits, out);
}

fn write_special(nan: bool, positive: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(match (nan, positive) {
        (true, _) => b"NaN",
        (_, true) => b"Infinity",
        (_, false) => b"-Infinity",
    });
}

/// Rewrites Ryu's shortest text (`1.5`, `1e20`, `1.25e-7`, `-0.0`) the way PostgreSQL lays the same digits out: fixed
/// point while the decimal exponent is in -4..`fixed_below`, else `d.ddde+XX`.
fn layout(shortest: &[u8], fixed_below: i32, out: &mut Vec<u8>) {
    let (negative, body) = match shortest {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, shortest),
    };
    if negative {
        out.push(b'-');
    }
    // The significant digits, and the exponent of the first of them.
    let mut digits = [0u8; 32];
    let mut count = 0;
    let mut exponent = 0i32;
    let mut point = None;
    let mut i = 0;
    while i < body.len() {
        match body[i] {
            b'.' => point = Some(count),
            b'e' => {
                exponent = std::str::from_utf8(&body[i + 1..])
                    .ok()
                    .and_then(|e| e.parse().ok())
                    .unwrap_or(0);
                break;
            }
            digit => {
                digits[count] = digit;
                count += 1;
            }
        }
        i += 1;
    }
    let integer_digits = point.unwrap_or(count) as i32;
    let leading_zeros = digits[..count].iter().take_while(|d| **d == b'0').count();
    if leading_zeros == count {
        out.push(b'0');
        return;
    }
    let trailing_zeros = digits[..count].iter().rev().take_while(|d| **d == b'0').count();
    let digits = &digits[leading_zeros..count - trailing_zeros];
    let exponent = exponent + integer_digits - 1 - leading_zeros as i32;

    if !(-4..fixed_below).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        write_int(exponent.abs(), out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let integer = exponent as usize + 1;
        if digits.len() <= integer {
            out.extend_from_slice(digits);
            out.resize(out.len() + integer - digits.len(), b'0');
        } else {
            out.extend_from_slice(&digits[..integer]);
            out.push(b'.');
            out.extend_from_slice(&digits[integer..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_text(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn f32_text(value: f32) -> String {
        let mut out = Vec::new();
        write_f32(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_look_as_postgres_prints_them() {
        // Taken from PostgreSQL 15.
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (100.0, "100"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (123456789012345.0, "123456789012345"),
            (12345678901234.5, "12345678901234.5"),
            (1234567890123456.0, "1.234567890123456e+15"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(f64_text(value), text);
        }
        for (value, text) in [
            (1.0f32, "1"),
            (0.1, "0.1"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (123456.7, "123456.7"),
            (1234567.0, "1.234567e+06"),
            (3.4028235e38, "3.4028235e+38"),
            (1e-5, "1e-05"),
        ] {
            assert_eq!(f32_text(value), text);
        }
    }

    #[test]
    fn floats_read_back_the_same() {
        let mut bits = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..100_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let value = f64::from_bits(bits);
            if value.is_finite() {
                assert_eq!(f64_text(value).parse::<f64>().unwrap().to_bits(), bits, "{value}");
            }
            let value = f32::from_bits(bits as u32);
            if value.is_finite() {
                assert_eq!(
                    f32_text(value).parse::<f32>().unwrap().to_bits(),
                    bits as u32,
                    "{value}"
                );
            }
        }
    }
}
