//! Words by which rows come in the order of a value: of two rows, the one that comes first has no larger word.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use arrow::compute::{SortOptions, rank};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

use super::translator::Translator;
use super::types::{Range, Translated, c_number, c_type};

/// What the words of most values can be.
const WORDS: Range = (0, u64::MAX as i128);

impl Translator {
    /// C++ of the word of an expression, and how many of its low bits may be set.
    pub fn ordered(&mut self, expr: &PhysicalExprRef, options: SortOptions) -> Translated<(String, u32)> {
        let (word, null, (low, high)) = self.ascending(expr)?;
        let word = self
            .define("u64", word, None, arrow::datatypes::DataType::UInt64, None)
            .value;
        // The distance from the value that comes first.
        let distance = match options.descending {
            true => format!("(u64)({} - (i128){word})", c_number(high)),
            false => format!("(u64)((i128){word} - {})", c_number(low)),
        };
        // Rows that are told apart no more where all words are taken are still in order.
        let last = u64::try_from(high - low).map_err(|_| "an order beyond 64 bits")?;
        let word = match null {
            None => return Ok((distance, 64 - last.leading_zeros())),
            Some(null) if options.nulls_first => {
                let next = format!("{distance} == ~0ull ? ~0ull : {distance} + 1");
                format!("({null} ? 0ull : {next})")
            }
            Some(null) => format!("({null} ? {}ull : {distance})", last.saturating_add(1)),
        };
        Ok((word, 64 - last.saturating_add(1).leading_zeros()))
    }

    /// A word that grows with a value, and what it can be.
    fn ascending(&mut self, expr: &PhysicalExprRef) -> Translated<(String, Option<String>, Range)> {
        if let Some(index) = expr.downcast_ref::<Column>().map(Column::index)
            && let Some(texts) = self.texts_of(index)
            && !texts.is_empty()
            && let Some(code) = self.code_of(index)?
        {
            let ranks = rank(&texts, None).map_err(|error| error.to_string())?;
            let ranks: ArrayRef = Arc::new(ranks.into_iter().map(|rank| rank as i32).collect::<Int32Array>());
            let place = self.array(&ranks, &code.code)?;
            return Ok((format!("(u64){}", place.value), code.null, (0, texts.len() as i128)));
        }
        let value = self.translate(expr)?;
        let name = &value.value;
        Ok(match (c_type(&value.data_type)?, value.range) {
            ("bool", _) => (format!("(u64){name}"), value.null, (0, 1)),
            ("i64" | "i128", Some((low, high))) => {
                // From the lowest value on, where 64 bits hold that; what is beyond counts as equal.
                let span = high.saturating_sub(low).min(WORDS.1);
                let from = c_number(low);
                let word = match high.checked_sub(low) {
                    Some(_) if span < WORDS.1 => format!("(u64)((i128){name} - {from})"),
                    _ => format!("word_within((i128){name})"),
                };
                (word, value.null, (0, span))
            }
            ("f64", _) => (format!("((u64)total_order({name}) ^ 1ull << 63)"), value.null, WORDS),
            ("f32", _) => (
                format!("((u64)(u32)total_order({name}) ^ 1ull << 31)"),
                value.null,
                (0, u32::MAX.into()),
            ),
            ("Text", _) => (format!("text_prefix({name})"), value.null, WORDS),
            _ => return Err(format!("an order of {}", value.data_type)),
        })
    }
}
