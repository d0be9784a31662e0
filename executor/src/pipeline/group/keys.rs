//! Keys of groups as code.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

use super::super::flow::{Flow, codes, is_unique};
use super::super::fragment::Fragment;
use super::super::passes::{ScanColumn, Stage};
use crate::aggregate::GroupSpec;
use crate::codegen::{Range, Translated, c_number, c_type};

/// What the keys of numerics are where the CPU groups by them.
const NUMERIC_KEY: DataType = DataType::Binary;

/// A key as code.
pub struct Coded {
    /// C++ of a 64-bit word, from `low` to `high`.
    pub word: String,
    /// Of a number beyond 64 bits: C++ of those above.
    pub above: Option<String>,
    pub low: i128,
    pub high: i128,
    pub null: Option<String>,
    pub data_type: DataType,
    /// Whether it is the key of a numeric.
    pub of_numeric: bool,
    pub texts: Option<ArrayRef>,
    /// Of a text whose word is a hash.
    pub text: Option<Whole>,
    /// The scan's column that has its values.
    pub equals: Option<ScanColumn>,
    /// Of a key whose values are those of a pass: C++ of the first, and how many there are.
    pub pass: Option<(String, u64)>,
}

impl Coded {
    /// A word of 64 bits that is the value's own.
    fn new(word: String, (low, high): Range, null: Option<String>, data_type: DataType) -> Self {
        Self {
            word,
            above: None,
            low,
            high,
            null,
            data_type,
            of_numeric: false,
            texts: None,
            text: None,
            equals: None,
            pass: None,
        }
    }
}

/// A text of a table's column as a key.
pub struct Whole {
    /// C++ of the text.
    pub value: String,
    pub position: String,
    pub scan: usize,
    pub column: usize,
}

impl Coded {
    /// How many values it can have, null included.
    pub fn span(&self) -> u64 {
        let all = self.high.checked_sub(self.low).and_then(|all| u64::try_from(all).ok());
        let all = all.unwrap_or(u64::MAX);
        let values = match &self.pass {
            Some((_, values)) => *values,
            None => all.saturating_add(1),
        };
        values.saturating_add(u64::from(self.null.is_some()))
    }
}

/// A key that another one of the same table decides.
pub struct Late {
    pub at: usize,
    pub position: String,
    pub scan: usize,
    pub column: usize,
    pub data_type: DataType,
    pub null: Option<String>,
}

/// The keys, and those that others decide, where they do.
pub fn keys(
    fragment: &Fragment,
    flow: &mut Flow,
    spec: &GroupSpec,
    decide: bool,
) -> Translated<(Vec<Coded>, Vec<Late>)> {
    let column = |flow: &Flow, expr: &PhysicalExprRef| {
        let at = expr.downcast_ref::<Column>()?.index();
        Some((at, flow.columns.get(at)?.clone()))
    };
    // Scans of which a key names the row.
    let mut named = vec![];
    for (expr, _) in &spec.keys {
        if let Some((scan, own)) = column(flow, expr).and_then(|(_, col)| col.origin)
            && decide
            && is_unique(&fragment.scans[scan].table, own)
        {
            named.push((scan, own));
        }
    }
    let (mut keys, mut late) = (vec![], vec![]);
    for (at, (expr, _)) in spec.keys.iter().enumerate() {
        let known = column(flow, expr);
        let equals = known.as_ref().and_then(|(_, col)| col.equals);
        if let Some((index, col)) = &known {
            let given = flow.current()[*index].given.clone();
            if codes(&given).is_some() {
                let code = flow.translator.code_of(*index)?.ok_or("a code that is not there")?;
                let count = codes(&given).unwrap_or_default();
                let word = format!("(i64){}", code.code);
                keys.push(Coded {
                    texts: given.texts.clone(),
                    ..Coded::new(word, (0, count as i128 - 1), code.null, given.data_type.clone())
                });
                continue;
            }
            if (given.is_unread() || c_type(&given.data_type)? == "Text")
                && let (Some((scan, own)), Some(position)) = (col.origin, &col.position)
                && named.iter().any(|(named, key)| *named == scan && *key != own)
            {
                late.push(Late {
                    at,
                    position: position.clone(),
                    scan,
                    column: own,
                    data_type: given.data_type.clone(),
                    null: given.null.clone(),
                });
                continue;
            }
        }
        if let Some(given) = flow.translator.coded(expr)? {
            let texts = given.texts.clone().ok_or("a code that is not there")?;
            let code = flow
                .translator
                .define("u32", given.load, None, DataType::UInt32, None)
                .value;
            let range = (0, (texts.len() as i128 - 1).max(0));
            keys.push(Coded {
                texts: Some(texts),
                ..Coded::new(format!("(i64){code}"), range, given.null, given.data_type)
            });
            continue;
        }
        let value = flow.translator.translate(expr)?;
        // The groups' rows have the types that the plan promises.
        let promised = expr
            .data_type(&flow.translator.schema)
            .map_err(|error| error.to_string())?;
        let of_numeric = promised == NUMERIC_KEY && matches!(value.data_type, DataType::Decimal128(_, 0..));
        if value.data_type != promised && !of_numeric {
            return Err(format!("keys of {promised}"));
        }
        // A short text fits a word; where a row has a longer one, the CPU does the work.
        let is_computed = known.as_ref().is_none_or(|(_, col)| col.position.is_none());
        if value.data_type == DataType::Utf8View && is_computed {
            let word = format!("(i64)text_word(p, {})", value.value);
            keys.push(Coded::new(word, (0, 8 << 56), value.null, value.data_type));
            continue;
        }
        if value.data_type == DataType::Utf8View
            && let Some((_, col)) = known
            && let (Some((scan, own)), Some(position)) = (col.origin, col.position)
        {
            let name = value.value;
            let text = match &value.null {
                Some(null) => {
                    flow.translator
                        .define(
                            "Text",
                            format!("{null} ? Text() : {name}"),
                            None,
                            DataType::Utf8View,
                            None,
                        )
                        .value
                }
                None => name,
            };
            let word = format!("(i64)text_hash({text})");
            let range = (i64::MIN.into(), i64::MAX.into());
            keys.push(Coded {
                text: Some(Whole {
                    value: text,
                    position,
                    scan,
                    column: own,
                }),
                ..Coded::new(word, range, value.null, value.data_type)
            });
            continue;
        }
        let passes = fragment
            .passes()
            .filter(|passes| flow.stage == Stage::Pass && passes.has(equals));
        let (word, above, range) = match (flow.word(&value), value.range) {
            (Err(_), Some(range)) if passes.is_none() => {
                let own = &value.value;
                let above = format!("(u64)((u128)(i128){own} >> 64)");
                (format!("(u64)(i128){own}"), Some(above), range)
            }
            _ => {
                let (word, range) = flow.narrow_word(&value)?;
                (word, None, range)
            }
        };
        let pass = passes.map(|passes| (flow.pass_bounds().0, passes.length));
        keys.push(Coded {
            equals,
            pass,
            above,
            of_numeric,
            ..Coded::new(word, range, value.null, value.data_type)
        });
    }
    Ok((keys, late))
}

/// C++ of the number of the keys' group.
pub fn number(keys: &[Coded], spans: &[u64]) -> String {
    let mut number = String::from("0ull");
    for (key, span) in keys.iter().zip(spans) {
        let low = match &key.pass {
            Some((low, _)) => low.clone(),
            None => c_number(key.low),
        };
        let digit = format!("(u64)({} - ({low}))", key.word);
        let digit = match &key.null {
            Some(null) => format!("({null} ? {}ull : {digit})", span - 1),
            None => digit,
        };
        number = format!("({number} * {span}ull + {digit})");
    }
    format!("(u32){number}")
}
