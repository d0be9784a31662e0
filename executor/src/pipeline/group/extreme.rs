//! The words of least and greatest values: of each value how far it is from the first that there may be, or from the last, plus
//! one, so that the largest word is always the one wanted and 0 says that there is none.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExprRef;

use super::super::flow::Flow;
use crate::codegen::{Range, Translated, Value, c_number};
use crate::keys::is_integer_key;
use tenon_storage::types::NUMERIC;

/// Numbers beyond this have the CPU do the work: distances of others are below 2^127.
const NUMBER_MAX: i128 = (1 << 126) - SHOWN_UNIT;
/// Of a numeric and the digits that it shows the latter are so many of the lowest bits.
pub const SHOWN_BITS: u32 = 6;
pub const SHOWN_UNIT: i128 = 1 << SHOWN_BITS;

/// What extremes are of, by their order.
#[derive(Clone)]
pub enum Values {
    Numbers {
        first: i128,
        last: i128,
        /// Of numerics.
        numeric: Option<NumericNumbers>,
    },
    /// Those of a column, in their order.
    Texts(ArrayRef),
    /// By their `order_word`.
    Floats,
}

/// Numerics are decimals with so many digits after the point; of equal ones that with fewer digits shown comes first, which go
/// with the number where they depend on it.
#[derive(Clone, Copy)]
pub struct NumericNumbers {
    pub after: i8,
    pub shown: bool,
}

impl Values {
    /// Whether a distance takes two words.
    pub fn is_wide(&self) -> bool {
        match self {
            Self::Numbers { first, last, .. } => (last - first) as u128 >= u64::MAX.into(),
            _ => false,
        }
    }
}

impl NumericNumbers {
    /// A number's value, and the digits that it shows.
    pub fn told(&self, number: i128) -> (i128, i64) {
        match self.shown {
            true => (number.div_euclid(SHOWN_UNIT), number.rem_euclid(SHOWN_UNIT) as i64),
            false => (number, self.after.into()),
        }
    }
}

/// The `order_word` of NaN, which is the last.
pub const NAN_ORDER: u64 = 0xfff8 << 48;

/// Arguments in the kernel: what several cells take is translated once.
#[derive(Default)]
pub struct Args(HashMap<PhysicalExprRef, Value>);

impl Args {
    pub fn value(&mut self, flow: &mut Flow, arg: &PhysicalExprRef) -> Translated<Value> {
        if let Some(value) = self.0.get(arg) {
            return Ok(value.clone());
        }
        let value = flow.translator.tried(arg)?;
        self.0.insert(PhysicalExprRef::clone(arg), value.clone());
        Ok(value)
    }
}

/// An argument of which an extreme is wanted.
pub struct Extreme {
    pub of: Values,
    /// C++ of the words by which it is the least, and the greatest.
    pub least: String,
    pub greatest: String,
    pub null: Option<String>,
}

/// None: it has no such form.
pub fn extreme(flow: &mut Flow, args: &mut Args, arg: &PhysicalExprRef) -> Translated<Option<Extreme>> {
    let own = arg
        .data_type(&flow.translator.schema)
        .map_err(|error| error.to_string())?;
    if own == DataType::Utf8View {
        let texts = flow.translator.ordered_texts(arg)?;
        let place = flow.translator.text_place(arg)?;
        return Ok(texts.zip(place).map(|(texts, (place, count))| Extreme {
            of: Values::Texts(texts),
            least: format!("({}ull - (u64){})", count, place.code),
            greatest: format!("((u64){} + 1)", place.code),
            null: place.null,
        }));
    }
    let is_number = own == NUMERIC || is_integer_key(&own) || matches!(own, DataType::Decimal128(..));
    if !own.is_floating() && !is_number {
        return Ok(None);
    }
    let value = args.value(flow, arg)?;
    if own.is_floating() {
        let word = format!("order_word({})", value.value);
        return Ok(Some(Extreme {
            of: Values::Floats,
            least: format!("(NAN_ORDER - {word} + 1)"),
            greatest: format!("({word} + 1)"),
            null: value.null,
        }));
    }
    let numeric = match (&value.data_type, own == NUMERIC) {
        (DataType::Decimal128(_, after), true) => Some(NumericNumbers {
            after: *after,
            shown: value.shown.is_some(),
        }),
        (_, true) => return Err(format!("extremes of a numeric of {}", value.data_type)),
        _ => None,
    };
    let (number, (first, last)) = number(flow, &value)?;
    let of = Values::Numbers { first, last, numeric };
    let (first, last) = (c_number(first), c_number(last));
    let (least, greatest) = match of.is_wide() {
        true => (
            format!("((u128){last} - (u128)(i128){number} + 1)"),
            format!("((u128)(i128){number} - (u128){first} + 1)"),
        ),
        false => (
            format!("((u64){last} - (u64){number} + 1)"),
            format!("((u64){number} - (u64){first} + 1)"),
        ),
    };
    Ok(Some(Extreme {
        of,
        least,
        greatest,
        null: value.null,
    }))
}

/// C++ of a whole number or a decimal, with what is shown of it where that depends on it, and what it can be.
fn number(flow: &mut Flow, value: &Value) -> Translated<(String, Range)> {
    let (mut low, mut high) = match &value.data_type {
        DataType::Boolean => (0, 1),
        other => value.range.ok_or_else(|| format!("extremes of {other}"))?,
    };
    let name = &value.value;
    let most = match value.shown {
        Some(_) => NUMBER_MAX / SHOWN_UNIT,
        None => NUMBER_MAX,
    };
    let mut beyond = vec![];
    if low < -most || high > most {
        let (first, last) = (c_number(-most), c_number(most));
        beyond.push(format!("{name} < {first} || {name} > {last}"));
        (low, high) = (low.max(-most), high.min(most));
    }
    beyond.extend(value.shown.iter().map(|shown| format!("{shown} >= {SHOWN_UNIT}")));
    if !beyond.is_empty() {
        flow.translator.fail_if(value.null.as_ref(), &beyond.join(" || "));
    }
    Ok(match &value.shown {
        Some(shown) => (
            format!("((i128){name} * {SHOWN_UNIT} + (i128){shown})"),
            (low * SHOWN_UNIT, high * SHOWN_UNIT + SHOWN_UNIT - 1),
        ),
        None => (name.clone(), (low, high)),
    })
}
