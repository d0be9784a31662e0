//! Keys of joins as words of 64 bits, in which equal keys are equal.
//!
//! | build side's key | its word | a probe side's key |
//! | --- | --- | --- |
//! | a number that 64 bits hold | itself | itself; one beyond 64 bits has no partner |
//! | a number beyond | two words | two words |
//! | a text that has codes | its code | its code's among these by a list (4 bytes a code); a text is looked up among them by its hash |
//! | a text | its hash, and where it is | its hash; the bytes of both are compared where hashes are equal |
//!
//! A text that has no codes costs a row of the build side 16 bytes beside its place in the chains (hash and address), and a row
//! of the probe side its own bytes in order, 4 bytes at random for the chain's head, and for each row of one hash 16 at random
//! and that row's bytes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

use super::super::flow::Flow;
use crate::codegen::{Range, Translated};

/// A key, or a part of one, as a 64-bit word.
pub struct Word {
    pub word: String,
    pub range: Range,
    pub data_type: DataType,
    /// Of a hash: C++ of the text that it is of, which is empty where it is null.
    pub text: Option<String>,
}

/// By what a key of the build side is known.
#[derive(Clone)]
pub enum Form {
    Number,
    Wide,
    /// By the code of one of these, which are all different.
    Codes(ArrayRef),
    Hash,
}

/// Keys as words.
pub struct Words {
    pub words: Vec<Word>,
    /// C++ of whether any is null.
    pub null: Option<String>,
    /// C++ of whether the row has no partner for another reason.
    pub alone: Option<String>,
}

impl Words {
    /// C++ of whether the row has no partner.
    pub fn absent(&self) -> Option<String> {
        match (&self.null, &self.alone) {
            (Some(null), Some(alone)) => Some(format!("({null} || {alone})")),
            (null, alone) => null.clone().or(alone.clone()),
        }
    }
}

/// One key.
struct Key {
    form: Form,
    words: Vec<Word>,
    null: Option<String>,
    alone: Option<String>,
}

impl Key {
    fn one(form: Form, word: Word, null: Option<String>) -> Self {
        Self {
            form,
            words: vec![word],
            null,
            alone: None,
        }
    }
}

/// Keys of the build side as words, and by what each is known. Where nulls are equal to each other, a further word says which
/// keys are null.
pub fn build_words(flow: &mut Flow, keys: &[PhysicalExprRef], null_equal: bool) -> Translated<(Words, Vec<Form>)> {
    let keys = keys.iter().map(|expr| key(flow, expr, None));
    let keys = keys.collect::<Translated<Vec<_>>>()?;
    let forms = keys.iter().map(|key| key.form.clone()).collect();
    Ok((together(flow, keys, null_equal), forms))
}

/// Keys of the probe side as the words of a build side's whose keys are known so.
pub fn probe_words(flow: &mut Flow, keys: &[PhysicalExprRef], forms: &[Form], null_equal: bool) -> Translated<Words> {
    let keys = keys.iter().zip(forms).map(|(expr, form)| key(flow, expr, Some(form)));
    let keys = keys.collect::<Translated<Vec<_>>>()?;
    Ok(together(flow, keys, null_equal))
}

fn together(flow: &mut Flow, keys: Vec<Key>, null_equal: bool) -> Words {
    let (mut words, mut nulls, mut alone) = (vec![], vec![], vec![]);
    for key in keys {
        for mut own in key.words {
            if let Some(null) = key.null.as_ref().filter(|_| null_equal) {
                own.word = format!("({null} ? (i64)0 : {})", own.word);
                own.range = (own.range.0.min(0), own.range.1.max(0));
            }
            words.push(own);
        }
        if let Some(own) = key.alone {
            alone.push(match &key.null {
                Some(null) => format!("(!{null} && {own})"),
                None => own,
            });
        }
        nulls.push(key.null);
    }
    let alone = match alone.is_empty() {
        true => None,
        false => Some(flow.translator.define_truth(alone.join(" || ")).value),
    };
    let null = match null_equal {
        true => {
            let bits = nulls.iter().enumerate();
            let bits = bits.map(|(bit, null)| format!("(i64){} << {bit}", null.as_deref().unwrap_or("false")));
            words.push(Word {
                word: format!("({})", bits.collect::<Vec<_>>().join(" | ")),
                range: (0, (1 << nulls.len().min(63)) - 1),
                data_type: DataType::Null,
                text: None,
            });
            None
        }
        false => {
            let mut nulls: Vec<String> = nulls.into_iter().flatten().collect();
            nulls.dedup();
            match nulls.len() {
                0 | 1 => nulls.pop(),
                _ => Some(flow.translator.define_null(nulls.join(" || "))),
            }
        }
    };
    Words { words, null, alone }
}

/// A key; with a form, as the build side's that it is compared with.
fn key(flow: &mut Flow, expr: &PhysicalExprRef, form: Option<&Form>) -> Translated<Key> {
    let column = expr.downcast_ref::<Column>().map(Column::index);
    let texts = column.and_then(|index| Some((index, flow.translator.texts_of(index)?)));
    if matches!(form, None | Some(Form::Codes(_))) {
        if let Some((index, texts)) = texts {
            let own = flow.translator.code_of(index)?.ok_or("a code that is not there")?;
            return coded(flow, (own.code, own.null), texts, form);
        }
        if let Some(given) = flow.translator.coded(expr)? {
            let texts = given.texts.ok_or("a code that is not there")?;
            let code = flow
                .translator
                .define("u32", given.load, None, DataType::UInt32, None)
                .value;
            return coded(flow, (code, given.null), texts, form);
        }
    }
    let value = flow.translator.translate(expr)?;
    let data_type = value.data_type.clone();
    if !data_type.is_string() {
        let wide = value
            .range
            .filter(|range| i64::try_from(range.0).is_err() || i64::try_from(range.1).is_err());
        let name = &value.value;
        return Ok(match (form, wide) {
            (Some(Form::Number), Some(_)) => Key {
                alone: Some(format!("({name} != (i128)(i64){name})")),
                ..Key::one(Form::Number, number(format!("(i64){name}"), data_type), value.null)
            },
            (Some(Form::Wide), _) | (None, Some(_)) => {
                // A number of a range beyond 64 bits is a whole number or a decimal.
                value.range.ok_or_else(|| format!("keys of {data_type}"))?;
                let low = number(format!("(i64)(u64)(i128){name}"), data_type.clone());
                let high = number(format!("(i64)((u128)(i128){name} >> 64)"), data_type);
                Key {
                    form: Form::Wide,
                    words: vec![low, high],
                    null: value.null,
                    alone: None,
                }
            }
            _ => {
                let (word, range) = flow.word(&value)?;
                let word = Word {
                    range,
                    ..number(word, data_type)
                };
                Key::one(Form::Number, word, value.null)
            }
        });
    }
    match form {
        Some(Form::Codes(texts)) => {
            let place = flow.translator.code_among(&value, texts)?;
            let range = (-1, texts.len() as i128);
            let word = Word {
                range,
                ..number(place.clone(), data_type)
            };
            Ok(Key {
                alone: Some(format!("{place} < 0")),
                ..Key::one(Form::Number, word, value.null)
            })
        }
        Some(Form::Number | Form::Wide) => Err("keys of different types".into()),
        _ => {
            // What a null row's text is nobody knows.
            let text = match &value.null {
                Some(null) => format!("{null} ? Text() : {}", value.value),
                None => value.value,
            };
            let text = flow
                .translator
                .define("Text", text, None, data_type.clone(), None)
                .value;
            let hash = flow
                .translator
                .define("i64", format!("(i64)text_hash({text})"), None, DataType::Int64, None)
                .value;
            let word = Word {
                text: Some(text),
                ..number(hash, data_type)
            };
            Ok(Key::one(Form::Hash, word, value.null))
        }
    }
}

/// A word that can be anything.
fn number(word: String, data_type: DataType) -> Word {
    Word {
        word,
        range: (i64::MIN.into(), i64::MAX.into()),
        data_type,
        text: None,
    }
}

/// A text that has codes, as a code among its own texts or the build side's.
fn coded(
    flow: &mut Flow,
    (code, null): (String, Option<String>),
    texts: ArrayRef,
    form: Option<&Form>,
) -> Translated<Key> {
    let data_type = texts.data_type().clone();
    let all = match form {
        Some(Form::Codes(others)) if !Arc::ptr_eq(others, &texts) => others,
        _ => &texts,
    };
    let range = (0, (all.len() as i128 - 1).max(0));
    let of = |word: String| Word {
        range,
        ..number(word, data_type.clone())
    };
    if Arc::ptr_eq(all, &texts) {
        let key = Key::one(Form::Codes(Arc::clone(&texts)), of(format!("(i64){code}")), null);
        return Ok(key);
    }
    if texts.is_empty() {
        // Every row is null.
        return Ok(Key::one(Form::Number, of("(i64)0".into()), Some("true".into())));
    }
    let mut known = HashMap::new();
    for (at, text) in all.as_string_view().iter().enumerate() {
        known.insert(text.unwrap_or_default(), at as i32);
    }
    let places = texts.as_string_view().iter();
    let places = places.map(|text| known.get(text.unwrap_or_default()).copied().unwrap_or(-1));
    let places: ArrayRef = Arc::new(Int32Array::from_iter_values(places));
    let place = flow.translator.array(&places, &code)?.value;
    Ok(Key {
        alone: Some(format!("{place} < 0")),
        ..Key::one(Form::Number, of(place), null)
    })
}
