//! Floats as PostgreSQL writes them, which is by Ryu (Adams, PLDI 2018) without the bounds of the interval that reads back
//! the same: decimals that are exactly between two floats are not taken, though they read back as the even one.

/// `float8out` with `extra_float_digits` at its default: the shortest digits that read back the same.
#[inline]
pub fn write_f64(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return write_special(value.is_nan(), value > 0.0, out);
    }
    let shortest = Decimal::of(ryu::Buffer::new().format_finite(value).as_bytes());
    let size = value.abs();
    if size >= F64_BOUNDS_MIN {
        let bounds = bounds(size.to_bits(), f64::MANTISSA_DIGITS, f64::MAX_EXP);
        return shortest
            .within(bounds, value, |text| text.parse() == Ok(value))
            .layout(15, out);
    }
    shortest.layout(15, out);
}

/// `float4out`, likewise.
#[inline]
pub fn write_f32(value: f32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return write_special(value.is_nan(), value > 0.0, out);
    }
    let shortest = Decimal::of(ryu::Buffer::new().format_finite(value).as_bytes());
    let size = value.abs();
    if size >= F32_BOUNDS_MIN {
        let bounds = bounds(size.to_bits().into(), f32::MANTISSA_DIGITS, f32::MAX_EXP);
        return shortest
            .within(bounds, value.into(), |text| text.parse() == Ok(value))
            .layout(6, out);
    }
    shortest.layout(6, out);
}

/// A float with so many significant digits at most, as C's `%g` has it.
#[cold]
pub fn write_digits(value: f64, digits: i32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return write_special(value.is_nan(), value > 0.0, out);
    }
    let digits = digits.max(1);
    Decimal::of(format!("{value:.*e}", digits as usize - 1).as_bytes()).layout(digits, out);
}

fn write_special(nan: bool, positive: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(match (nan, positive) {
        (true, _) => b"NaN",
        (_, true) => b"Infinity",
        (_, false) => b"-Infinity",
    });
}

/// The least floats whose interval may have a decimal of as few digits for a bound: a bound is an odd number of all the
/// mantissa's bits, times a power of two; a decimal of 17 (9) digits that is one is at the least so large.
const F64_BOUNDS_MIN: f64 = (1u64 << 51) as f64;
const F32_BOUNDS_MIN: f32 = (1u32 << 21) as f32;

/// An odd number (or an even one) times a power of two.
type Binary = (u64, i32);

/// What is between a positive normal float and its neighbours: the bounds of the interval that reads back as it.
fn bounds(bits: u64, mantissa_digits: u32, max_exponent: i32) -> [Binary; 2] {
    let stored = mantissa_digits - 1;
    let fraction = bits & ((1 << stored) - 1);
    let exponent = (bits >> stored) as i32 - max_exponent + 1 - stored as i32;
    let mantissa = fraction | 1 << stored;
    let above = (2 * mantissa + 1, exponent - 1);
    // Below a power of two, floats lie half as far apart.
    let below = match fraction {
        0 => (4 * mantissa - 1, exponent - 2),
        _ => (2 * mantissa - 1, exponent - 1),
    };
    [below, above]
}

/// A number's significant digits, and the exponent of the first of them.
struct Decimal {
    negative: bool,
    digits: [u8; 32],
    /// Where the digits begin and end.
    range: (usize, usize),
    exponent: i32,
}

impl Decimal {
    /// Reads `1.5`, `1e20`, `1.25e-7`, `-0.0`.
    fn of(text: &[u8]) -> Self {
        let (negative, body) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
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
        let trailing_zeros = match leading_zeros == count {
            true => 0,
            false => digits[..count].iter().rev().take_while(|d| **d == b'0').count(),
        };
        Self {
            negative,
            digits,
            range: (leading_zeros, count - trailing_zeros),
            exponent: exponent + integer_digits - 1 - leading_zeros as i32,
        }
    }

    fn digits(&self) -> &[u8] {
        &self.digits[self.range.0..self.range.1]
    }

    /// These digits or, where they are a bound, those of more digits that are none and read back the same.
    fn within(self, bounds: [Binary; 2], value: f64, reads_back: impl Fn(&str) -> bool) -> Self {
        if !self.is_one_of(bounds) {
            return self;
        }
        let longer = (self.digits().len()..).map(|after_point| format!("{value:.after_point$e}"));
        let longer = longer.take(f64::DIGITS as usize + 3).filter(|text| reads_back(text));
        let mut decimals = longer.map(|text| Self::of(text.as_bytes()));
        decimals.find(|decimal| !decimal.is_one_of(bounds)).unwrap_or(self)
    }

    /// Whether the number, without its sign, is one of these.
    fn is_one_of(&self, bounds: [Binary; 2]) -> bool {
        let digits = self.digits();
        let number = digits
            .iter()
            .fold(0u128, |all, digit| all * 10 + u128::from(digit - b'0'));
        let power = self.exponent + 1 - digits.len() as i32;
        // The bounds, of at most 55 bits, are multiples of no larger power of five; nor are 17 digits.
        let fives = 5u128.pow(power.unsigned_abs().min(24));
        bounds.into_iter().any(|(odd, twos)| {
            let (left, right) = match power >= 0 {
                true => (number * fives, u128::from(odd)),
                false => (number, u128::from(odd) * fives),
            };
            let (left_twos, right_twos) = (left.trailing_zeros(), right.trailing_zeros());
            power.abs() < 24
                && left >> left_twos == right >> right_twos
                && left_twos as i32 + power == right_twos as i32 + twos
        })
    }

    /// As PostgreSQL lays digits out: with a point in its place while the exponent is in -4..`fixed_below`, else
    /// `d.ddde+XX`.
    fn layout(&self, fixed_below: i32, out: &mut Vec<u8>) {
        let (digits, exponent) = (self.digits(), self.exponent);
        if self.negative {
            out.push(b'-');
        }
        if digits.is_empty() {
            out.push(b'0');
        } else if !(-4..fixed_below).contains(&exponent) {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            let size = exponent.unsigned_abs();
            if size >= 100 {
                out.push(b'0' + (size / 100) as u8);
            }
            out.extend_from_slice(&[b'0' + (size / 10 % 10) as u8, b'0' + (size % 10) as u8]);
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
            // Between two floats, or as near to two decimals.
            (1e23, "9.999999999999999e+22"),
            (2e23, "1.9999999999999998e+23"),
            (5.960464477539062e-7, "5.960464477539062e-07"),
            (2f64.powi(-25), "2.9802322387695312e-08"),
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
            (50331648.0, "5.0331648e+07"),
            (82418944.0, "8.2418944e+07"),
            (3e10, "3.0000001e+10"),
            (0.0024414062, "0.0024414062"),
            (3936627.2, "3.9366272e+06"),
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
