//! LIKE and functions of texts, over values of both sides.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};

use super::inputs::{Form, load};
use super::translator::Translator;
use super::types::{Range, Translated, c_type};
use super::value::Value;

/// Lengths and places.
const LENGTHS: Range = (0, u32::MAX as i128);

/// The parts that a constant pattern looks for one after the other, anywhere: `%part%part%`.
pub fn parts(like: &LikeExpr) -> Option<Vec<String>> {
    let literal = like.pattern().downcast_ref::<Literal>()?;
    let pattern = literal.value().try_as_str()??;
    let within = pattern.strip_prefix('%')?.strip_suffix('%')?;
    let plain = !like.case_insensitive() && !pattern.contains(['_', '\\']);
    let parts = within.split('%').filter(|part| !part.is_empty());
    plain.then(|| parts.map(str::to_string).collect())
}

/// The hash of a text, as the kernels have it (`text_hash`).
fn hash(text: &[u8]) -> u64 {
    let mixed = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^ (hash >> 32)
    };
    let (mut hash, mut word) = (text.len() as u64, 0);
    for (at, byte) in text.iter().enumerate() {
        word = word << 8 | u64::from(*byte);
        if at & 7 == 7 {
            hash = mixed(hash, word);
            word = 0;
        }
    }
    mixed(mixed(hash, word), hash)
}

impl Translator {
    /// A name for which of these texts, which are all different, this one is; -1: none of them.
    pub fn code_among(&mut self, text: &Value, texts: &ArrayRef) -> Translated<String> {
        let slots = (texts.len() * 2).next_power_of_two().max(2);
        let mut table = vec![0u32; slots];
        for (code, own) in texts.as_string_view().iter().enumerate() {
            let mut at = hash(own.unwrap_or_default().as_bytes()) as usize & (slots - 1);
            while table[at] != 0 {
                at = (at + 1) & (slots - 1);
            }
            table[at] = code as u32 + 1;
        }
        let loaded = load(texts)?;
        let Form::Text(offset) = loaded.form else {
            return Err(format!("codes of {}", texts.data_type()));
        };
        let at = self.buffers.len();
        self.made_bytes += loaded.made_bytes + size_of_val(&table[..]);
        self.buffers.push(Buffer::from_vec(table));
        self.buffers.extend(loaded.buffers);
        let mask = self.literal_words(&[slots as u64 - 1]);
        // What a null row's text is nobody knows.
        let text = match &text.null {
            Some(null) => format!("({null} ? Text() : {})", text.value),
            None => text.value.clone(),
        };
        let call = format!("text_code<{offset}>(p, {at}, p.literal<u64>({mask}), {text})");
        Ok(self.define("i64", call, None, DataType::Int64, None).value)
    }

    /// Whether a text has all parts, each behind the one before.
    pub fn like_parts(&mut self, text: &PhysicalExprRef, parts: &[String], negated: bool) -> Translated<Value> {
        let text = self.translate(text)?;
        if !text.data_type.is_string() {
            return Err(format!("no device form of {} LIKE", text.data_type));
        }
        let mut from = String::from("0");
        for part in parts {
            let mut head = [0; 8];
            let shown = part.len().min(8);
            head[..shown].copy_from_slice(&part.as_bytes()[..shown]);
            let all = self.literal(&ScalarValue::Utf8View(Some(part.clone())))?;
            let at = self.literal_words(&[u64::from_le_bytes(head), u64::MAX >> (64 - 8 * shown)]);
            let sought = format!(
                "Part{{p.literal<u64>({at}), p.literal<u64>({}), {}}}",
                at + 1,
                all.value
            );
            // Behind a part that is not there none is looked for.
            let found = format!("text_find_part({}, {from}, {sought})", text.value);
            let found = match from.as_str() {
                "0" => found,
                before => format!("{before} < 0 ? -1 : {found}"),
            };
            let found = self.define("i64", found, None, DataType::Int64, None).value;
            let end = format!("{found} < 0 ? -1 : {found} + {}", part.len());
            from = self.define("i64", end, None, DataType::Int64, None).value;
        }
        let sign = if negated { "<" } else { ">=" };
        Ok(self.define("bool", format!("{from} {sign} 0"), text.null, DataType::Boolean, None))
    }

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
            ("btrim" | "ltrim" | "rtrim", [_, rest @ ..]) => {
                let characters = match rest {
                    [] => "Text{(const u8*)\" \", 1u}",
                    [characters] => characters.value.as_str(),
                    _ => return Ok(None),
                };
                let (first, last) = (name != "rtrim", name != "ltrim");
                format!("text_trim({t}, {characters}, {first}, {last})")
            }
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
