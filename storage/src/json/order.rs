//! Bytes whose order is that of `jsonb`: objects after arrays, these by their length, then booleans, numbers, strings and
//! null. Equal values have equal bytes, however many zeros their numbers end in.

use super::Json;

const NULL: u8 = 1;
const STRING: u8 = 2;
const NUMBER: u8 = 3;
const FALSE: u8 = 4;
const TRUE: u8 = 5;
const ARRAY: u8 = 6;
const OBJECT: u8 = 7;

/// The key of a whole value.
pub fn order_key(value: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Json::Array(items) => {
            // A scalar is an array of one, before all real ones of that length.
            out.push(ARRAY);
            out.extend((items.len() as u32).to_be_bytes());
            out.push(1);
            items.iter().for_each(|item| write(item, &mut out));
        }
        Json::Object(_) => write(value, &mut out),
        scalar => {
            out.push(ARRAY);
            out.extend(1_u32.to_be_bytes());
            out.push(0);
            write(scalar, &mut out);
        }
    }
    out
}

fn write(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.push(NULL),
        Json::Moment(moment) => write(&Json::String(moment.to_string()), out),
        Json::String(text) => {
            out.push(STRING);
            string(text, out);
        }
        Json::Number(text) => {
            out.push(NUMBER);
            number(text, out);
        }
        Json::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
        Json::Array(items) => {
            out.push(ARRAY);
            out.extend((items.len() as u32).to_be_bytes());
            items.iter().for_each(|item| write(item, out));
        }
        Json::Object(pairs) => {
            out.push(OBJECT);
            out.extend((pairs.len() as u32).to_be_bytes());
            for (key, value) in pairs {
                string(key, out);
                write(value, out);
            }
        }
    }
}

/// Text holds no byte 0, which therefore ends it.
fn string(text: &str, out: &mut Vec<u8>) {
    out.extend(text.as_bytes());
    out.push(0);
}

/// Sign, then the place of the first digit, then the digits; complemented for negative numbers.
fn number(text: &str, out: &mut Vec<u8>) {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let all = [whole, part].concat();
    let figures = all.trim_start_matches('0').trim_end_matches('0');
    if figures.is_empty() {
        return out.push(1);
    }
    let zeros = all.len() - all.trim_start_matches('0').len();
    let exponent = whole.len() as i32 - zeros as i32;
    let start = out.len() + 1;
    out.push(if negative { 0 } else { 2 });
    out.extend((exponent as u32 ^ 0x8000_0000).to_be_bytes());
    out.extend(figures.bytes());
    out.push(0);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending() {
        let values = [
            "[]",
            "null",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-10",
            "-9.5",
            "-0.01",
            "0",
            "0.001",
            "0.01",
            "1",
            "1.5",
            "9",
            "10",
            "100",
            "false",
            "true",
            "[null]",
            "[1]",
            "[1, 2]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"a\": 1, \"b\": 0}",
        ];
        let keys: Vec<Vec<u8>> = values
            .iter()
            .map(|text| order_key(&Json::parse(text).unwrap()))
            .collect();
        for (at, pair) in keys.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} and {}", values[at], values[at + 1]);
        }
        let key = |text| order_key(&Json::parse(text).unwrap());
        assert_eq!(key("[1.10, 0.0]"), key("[1.1,0]"));
        assert_eq!(
            Json::parse(" {\"bb\":1,\"a\":2, \"bb\" : 1.10} ").unwrap().to_string(),
            "{\"a\": 2, \"bb\": 1.10}"
        );
    }
}
