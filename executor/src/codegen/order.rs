//! Words by which rows come in the order of a value: of two rows, the one that comes first has no larger word.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, UInt32Array};
use arrow::compute::{SortOptions, sort_to_indices, take};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

use super::given::CodeNames;
use super::translator::Translator;
use super::types::{Range, Translated, c_number, c_type};

/// What the words of most values can be.
const WORDS: Range = (0, u64::MAX as i128);

/// Which texts come one after the other in their order.
fn in_order(texts: &dyn Array) -> Translated<UInt32Array> {
    sort_to_indices(texts, None, None).map_err(|error| error.to_string())
}

/// The place of each text among all in their order.
fn ranks(texts: &dyn Array) -> Translated<Vec<i32>> {
    let order = in_order(texts)?;
    let mut ranks = vec![0; order.len()];
    for (rank, &text) in order.values().iter().enumerate() {
        ranks[text as usize] = rank as i32;
    }
    Ok(ranks)
}

/// C++ of a word by which rows come in an order, and how many of its low bits may be set.
pub struct Ordered {
    pub word: String,
    pub bits: u32,
}

/// A word that grows with a value.
struct Ascending {
    word: String,
    null: Option<String>,
    /// What it can be.
    range: Range,
    /// Which values it tells apart.
    tells: Tells,
}

enum Tells {
    All,
    Some,
    /// Not all, but the value is a number of this name between these.
    Wide(String, Range),
}

impl Translator {
    /// A word of the order of an expression; different values may have the same.
    pub fn ordered(&mut self, expr: &PhysicalExprRef, options: SortOptions) -> Translated<Ordered> {
        let own = self.ascending(expr)?;
        self.with_nulls(own, options)
    }

    /// Words of the order of an expression that tell all values apart, those that count most first.
    pub fn ordered_exactly(&mut self, expr: &PhysicalExprRef, options: SortOptions) -> Translated<Vec<Ordered>> {
        let own = self.ascending(expr)?;
        let null = own.null.clone();
        let mut words = match &own.tells {
            Tells::All if null.is_none() || own.range.1 - own.range.0 < WORDS.1 => {
                return Ok(vec![self.with_nulls(own, options)?]);
            }
            Tells::All => vec![self.with_nulls(Ascending { null: None, ..own }, options)?],
            Tells::Wide(name, (low, high)) => {
                let span = high.wrapping_sub(*low) as u128;
                let distance = match options.descending {
                    true => format!("((u128){} - (u128)(i128){name})", c_number(*high)),
                    false => format!("((u128)(i128){name} - (u128){})", c_number(*low)),
                };
                vec![
                    Ordered {
                        word: format!("(u64)({distance} >> 64)"),
                        bits: u64::BITS - ((span >> 64) as u64).leading_zeros(),
                    },
                    Ordered {
                        word: format!("(u64){distance}"),
                        bits: u64::BITS,
                    },
                ]
            }
            Tells::Some => return Err(format!("an order by {expr} is not told by words of 64 bits")),
        };
        if let Some(null) = null {
            let [of_null, of_value] = if options.nulls_first { [0, 1] } else { [1, 0] };
            for own in &mut words {
                own.word = format!("({null} ? 0ull : {})", own.word);
            }
            let first = Ordered {
                word: format!("({null} ? {of_null}ull : {of_value}ull)"),
                bits: 1,
            };
            words.insert(0, first);
        }
        Ok(words)
    }

    /// The distance from the value that comes first, with a place for null.
    fn with_nulls(&mut self, own: Ascending, options: SortOptions) -> Translated<Ordered> {
        let (low, high) = own.range;
        let word = self
            .define("u64", own.word, None, arrow::datatypes::DataType::UInt64, None)
            .value;
        let distance = match options.descending {
            true => format!("(u64)({} - (i128){word})", c_number(high)),
            false => format!("(u64)((i128){word} - {})", c_number(low)),
        };
        // Rows that are told apart no more where all words are taken are still in order.
        let last = u64::try_from(high - low).map_err(|_| "an order beyond 64 bits")?;
        let (word, last) = match own.null {
            None => (distance, last),
            Some(null) if options.nulls_first => {
                let next = format!("{distance} == ~0ull ? ~0ull : {distance} + 1");
                (format!("({null} ? 0ull : {next})"), last.saturating_add(1))
            }
            Some(null) => {
                let last = last.saturating_add(1);
                (format!("({null} ? {last}ull : {distance})"), last)
            }
        };
        Ok(Ordered {
            word,
            bits: u64::BITS - last.leading_zeros(),
        })
    }

    /// The texts of a column that has codes, in their order; None: it is no such.
    pub fn ordered_texts(&mut self, expr: &PhysicalExprRef) -> Translated<Option<ArrayRef>> {
        let column = expr.downcast_ref::<Column>().map(Column::index);
        let texts = column.and_then(|index| self.texts_of(index));
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else {
            return Ok(None);
        };
        let ordered = take(&texts, &in_order(&texts)?, None).map_err(|error| error.to_string())?;
        Ok(Some(ordered))
    }

    /// The place of a row's text among these, in their order, and how many they are.
    pub fn text_place(&mut self, expr: &PhysicalExprRef) -> Translated<Option<(CodeNames, usize)>> {
        if let Some(index) = expr.downcast_ref::<Column>().map(Column::index)
            && let Some(texts) = self.texts_of(index)
            && !texts.is_empty()
            && let Some(own) = self.code_of(index)?
        {
            let ranks: ArrayRef = Arc::new(Int32Array::from(ranks(&texts)?));
            let code = self.array(&ranks, &own.code)?.value;
            return Ok(Some((CodeNames { code, ..own }, texts.len())));
        }
        Ok(None)
    }

    fn ascending(&mut self, expr: &PhysicalExprRef) -> Translated<Ascending> {
        if let Some((CodeNames { code, null }, texts)) = self.text_place(expr)? {
            return Ok(Ascending {
                word: format!("(u64){code}"),
                null,
                range: (0, texts as i128 - 1),
                tells: Tells::All,
            });
        }
        let value = self.translate(expr)?;
        let name = &value.value;
        let (word, range, tells) = match (c_type(&value.data_type)?, value.range) {
            ("bool", _) => (format!("(u64){name}"), (0, 1), Tells::All),
            ("i64" | "i128", Some((low, high))) => {
                // From the lowest value on, where 64 bits hold that; what is beyond counts as equal.
                let span = high.saturating_sub(low).min(WORDS.1);
                let from = c_number(low);
                match high.checked_sub(low) {
                    Some(_) if span < WORDS.1 => (format!("(u64)((i128){name} - {from})"), (0, span), Tells::All),
                    _ => (
                        format!("word_within((i128){name})"),
                        WORDS,
                        Tells::Wide(name.clone(), (low, high)),
                    ),
                }
            }
            ("f64", _) => (format!("((u64)total_order({name}) ^ 1ull << 63)"), WORDS, Tells::All),
            ("f32", _) => (
                format!("((u64)(u32)total_order({name}) ^ 1ull << 31)"),
                (0, u32::MAX.into()),
                Tells::All,
            ),
            ("Text", _) => (format!("text_prefix({name})"), WORDS, Tells::Some),
            _ => return Err(format!("an order of {}", value.data_type)),
        };
        Ok(Ascending {
            word,
            null: value.null,
            range,
            tells,
        })
    }
}
