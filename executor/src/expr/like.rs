//! `expr [NOT] LIKE 'a%b%c'` by substring search.
//!
//! DataFusion turns a pattern with more than two `%` into a regular expression; here the pieces between the `%` are
//! searched one after the other with vector instructions. Patterns with `_` or an escape keep DataFusion's form.
//!
//! A column of long strings usually lies in one buffer, row after row. Then the first piece is searched in the whole
//! stretch of bytes at once, and only rows with a hit are looked at.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, ByteView, MAX_INLINE_VIEW_LEN, RecordBatch,
    StringViewArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use memchr::memmem::Finder;

#[derive(Debug)]
pub struct FastLike {
    /// DataFusion's form of the same.
    original: Arc<dyn PhysicalExpr>,
    input: Arc<dyn PhysicalExpr>,
    negated: bool,
    pattern: Pattern,
}

#[derive(Debug)]
struct Pattern {
    prefix: Vec<u8>,
    middle: Vec<Finder<'static>>,
    /// None: the pattern has no `%`, and `prefix` is all of it.
    suffix: Option<Vec<u8>>,
}

impl Pattern {
    fn parse(pattern: &str) -> Option<Self> {
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let mut parts = pattern.split('%').map(str::as_bytes);
        let prefix = parts.next()?.to_vec();
        let suffix = parts.next_back().map(<[u8]>::to_vec);
        let middle = parts
            .filter(|part| !part.is_empty())
            .map(|part| Finder::new(part).into_owned())
            .collect();
        Some(Self { prefix, middle, suffix })
    }

    /// Which rows match, if the pattern has a piece to search for and the long strings lie in order in one buffer.
    fn search_stretch(&self, array: &StringViewArray) -> Option<BooleanBuffer> {
        if !self.prefix.is_empty() || self.suffix.is_none() || array.data_buffers().is_empty() {
            return None;
        }
        let needle = self.middle.first()?;
        let mut bits = BooleanBufferBuilder::new(array.len());
        bits.append_n(array.len(), false);
        let (mut buffer, mut start, mut end) = (None, 0, 0);
        for (row, &view) in array.views().iter().enumerate() {
            let view = ByteView::from(view);
            if view.length <= MAX_INLINE_VIEW_LEN {
                let valid = array.is_valid(row);
                bits.set_bit(row, valid && self.matches(array.value(row).as_bytes()));
                continue;
            }
            match buffer {
                None => (buffer, start) = (Some(view.buffer_index), view.offset),
                Some(index) if index == view.buffer_index && view.offset >= end => {}
                Some(_) => return None,
            }
            end = view.offset.checked_add(view.length)?;
        }
        let Some(buffer) = buffer else {
            return Some(bits.finish());
        };
        let stretch = array
            .data_buffers()
            .get(buffer as usize)?
            .get(start as usize..end as usize)?;
        // Strings that are spread thinly would make the stretch longer than they are.
        if stretch.len() > array.len() * 256 {
            return None;
        }
        let mut row = 0;
        let mut at = 0;
        while let Some(hit) = needle.find(&stretch[at..]) {
            let hit = at + hit + start as usize;
            // The last long string that begins at or before the hit.
            let view = loop {
                let view = ByteView::from(*array.views().get(row)?);
                if view.length > MAX_INLINE_VIEW_LEN && (view.offset + view.length) as usize > hit {
                    break view;
                }
                row += 1;
            };
            if (view.offset as usize) <= hit {
                bits.set_bit(row, array.is_valid(row) && self.matches(array.value(row).as_bytes()));
                at = (view.offset + view.length - start) as usize;
            } else {
                at = hit + 1 - start as usize;
            }
            if at >= stretch.len() {
                break;
            }
        }
        Some(bits.finish())
    }

    fn matches(&self, text: &[u8]) -> bool {
        let Some(suffix) = &self.suffix else {
            return text == self.prefix;
        };
        let Some(rest) = text.strip_prefix(self.prefix.as_slice()) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(suffix.as_slice()) else {
            return false;
        };
        for part in &self.middle {
            match part.find(rest) {
                Some(at) => rest = &rest[at + part.needle().len()..],
                None => return false,
            }
        }
        true
    }
}

impl FastLike {
    /// DataFusion's form of the same.
    pub(super) fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.original
    }

    /// The fast form of `expr`, if it is a LIKE that has one.
    pub fn of(expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(like) = expr.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive()) else {
            return Ok(None);
        };
        let Some(literal) = like.pattern().downcast_ref::<Literal>() else {
            return Ok(None);
        };
        let (ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text))) = literal.value() else {
            return Ok(None);
        };
        let Some(pattern) = Pattern::parse(text) else {
            return Ok(None);
        };
        let (original, input) = (Arc::clone(expr), Arc::clone(like.expr()));
        Ok(Some(Arc::new(Self {
            original,
            input,
            negated: like.negated(),
            pattern,
        })))
    }
}

impl fmt::Display for FastLike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt(f)
    }
}

impl PartialEq for FastLike {
    fn eq(&self, other: &Self) -> bool {
        self.original.eq(&other.original)
    }
}

impl Eq for FastLike {}

impl Hash for FastLike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.original.hash(state);
    }
}

impl PhysicalExpr for FastLike {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.input.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array: ArrayRef = match self.input.evaluate(batch)? {
            ColumnarValue::Array(array) => array,
            ColumnarValue::Scalar(_) => return self.original.evaluate(batch),
        };
        let test = |text: &str| self.pattern.matches(text.as_bytes()) != self.negated;
        let bits = match array.data_type() {
            DataType::Utf8View => {
                let array = array.as_string_view();
                match self.pattern.search_stretch(array) {
                    Some(bits) if self.negated => !&bits,
                    Some(bits) => bits,
                    None => BooleanBuffer::collect_bool(array.len(), |row| test(array.value(row))),
                }
            }
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                BooleanBuffer::collect_bool(array.len(), |row| test(array.value(row)))
            }
            _ => return self.original.evaluate(batch),
        };
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(
            bits,
            array.nulls().cloned(),
        ))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(input) = children.pop() else { return Ok(self) };
        let pattern = self.original.children().get(1).map(|pattern| Arc::clone(pattern));
        let original = match pattern {
            Some(pattern) => Arc::clone(&self.original).with_new_children(vec![input, pattern])?,
            None => Arc::clone(&self.original),
        };
        Ok(Self::of(&original)?.unwrap_or(original))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn patterns() {
        let cases = [
            ("%special%requests%", "a special set of requests", true),
            ("%special%requests%", "requests special", false),
            ("PROMO%", "PROMO X", true),
            ("PROMO%", "XPROMO", false),
            ("%BRASS", "A BRASS", true),
            ("%BRASS", "BRASS A", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a%a", "a", false),
            ("a%a", "aa", true),
            ("%", "", true),
            ("", "", true),
            ("%é%", "né", true),
            ("a%b%b", "ab", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::parse(pattern).map(|p| p.matches(text.as_bytes())),
                Some(expected),
                "{pattern} {text}"
            );
        }
        assert!(Pattern::parse("a_b").is_none());
    }

    #[test]
    fn stretches_agree_with_single_rows() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let words = ["ab", "special", "requests", "spec", "ialrequests", "x"];
        for _ in 0..200 {
            let rows = rng.random_range(0..60);
            let text = |rng: &mut StdRng| {
                (0..rng.random_range(0..6))
                    .map(|_| words[rng.random_range(0..words.len())])
                    .collect::<String>()
            };
            let array: StringViewArray = (0..rows)
                .map(|_| rng.random_bool(0.9).then(|| text(&mut rng)))
                .collect();
            let array = array.slice(rows / 3, rows - rows / 3);
            for pattern in ["%special%", "%special%requests%", "%special%ab", "%b%"] {
                let pattern = Pattern::parse(pattern).unwrap();
                if let Some(bits) = pattern.search_stretch(&array) {
                    for row in (0..array.len()).filter(|&row| array.is_valid(row)) {
                        assert_eq!(
                            bits.value(row),
                            pattern.matches(array.value(row).as_bytes()),
                            "seed {seed}"
                        );
                    }
                }
            }
        }
    }
}
