//! LIKE and functions of texts, over values of both sides.

use arrow::datatypes::DataType;

use super::translator::Translator;
use super::types::{Range, Translated, c_type};
use super::value::Value;

/// Lengths and places.
const LENGTHS: Range = (0, u32::MAX as i128);

impl Translator {
    /// LIKE, or with `fold` ILIKE, which folds case beyond ASCII on the host alone.
    pub fn like(&mut self, text: &Value, pattern: &Value, negated: bool, fold: bool) -> Translated<Value> {
        if !text.data_type.is_string() || !pattern.data_type.is_string() {
            return Err(format!(
                "no device form of {} LIKE {}",
                text.data_type, pattern.data_type
            ));
        }
        if fold && !(text.ascii && pattern.ascii) {
            return Err("ILIKE beyond ASCII".into());
        }
        let null = self.any_null([text, pattern]);
        let not = if negated { "!" } else { "" };
        let call = format!("{not}text_like<{fold}>({}, {})", text.value, pattern.value);
        Ok(self.define("bool", call, null, DataType::Boolean, None))
    }

    /// The call of a function of texts; none if it is none.
    pub fn text_function(&mut self, name: &str, args: &[Value], result: &DataType) -> Translated<Option<Value>> {
        let Some(text) = args.first().filter(|text| text.data_type.is_string()) else {
            return Ok(None);
        };
        let null = self.any_null(args);
        let t = &text.value;
        let call = match (name, args) {
            ("starts_with", [_, part]) => format!("text_starts_with({t}, {})", part.value),
            ("ends_with", [_, part]) => format!("text_ends_with({t}, {})", part.value),
            ("contains", [_, part]) => format!("text_find({t}, {}) >= 0", part.value),
            ("strpos", [_, part]) => format!("text_position({t}, {})", part.value),
            ("length" | "character_length", [_]) => format!("text_chars({t})"),
            ("octet_length", [_]) => format!("(i64){t}.length"),
            ("left", [_, chars]) => format!("text_left({t}, {})", chars.value),
            ("right", [_, chars]) => format!("text_right({t}, {})", chars.value),
            ("substr" | "substring", [_, from, rest @ ..]) => {
                let from = &from.value;
                self.fail_if(null.as_ref(), &format!("{from} == -0x7fffffffffffffffll - 1"));
                let count = match rest {
                    [] => "0x7fffffffffffffffll".into(),
                    [count] => {
                        self.fail_if(null.as_ref(), &format!("{} < 0", count.value));
                        count.value.clone()
                    }
                    _ => return Ok(None),
                };
                format!("text_part({t}, {from}, {count})")
            }
            _ => return Ok(None),
        };
        let others = args[1..].iter().all(|arg| {
            let known = ["left", "right", "substr", "substring"].contains(&name);
            if known {
                arg.data_type.is_signed_integer()
            } else {
                arg.data_type.is_string()
            }
        });
        if !others {
            return Err(format!("no device form of {name}() of these types"));
        }
        let c_type = c_type(result)?;
        let range = (c_type == "i64").then_some(LENGTHS);
        let value = self.define(c_type, call, null, result.clone(), range);
        Ok(Some(Value {
            ascii: text.ascii,
            ..value
        }))
    }
}
