//! Random joins: two tables whose values are drawn as small numbers and cast to the type under test.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::JoinType;
use rand::{Rng, rngs::StdRng};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyType {
    Bool,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Decimal,
    WideDecimal,
    Date,
    Timestamp,
    Text,
    List,
}

/// The number that stands for NaN where there is one: above all others.
const NAN: i64 = 1000;

impl KeyType {
    pub fn draw(rng: &mut StdRng) -> Self {
        use KeyType::*;
        let all = [
            Bool,
            Int16,
            Int32,
            Int64,
            Float32,
            Float64,
            Decimal,
            WideDecimal,
            Date,
            Timestamp,
            Text,
            List,
        ];
        all[rng.random_range(0..all.len())]
    }

    /// The number that a drawn one is made to before it is cast, so that equal and smaller mean the same in all types.
    pub fn number(self, drawn: i64) -> i64 {
        match self {
            KeyType::Bool => drawn.rem_euclid(2),
            _ => drawn,
        }
    }

    pub fn column(self, numbers: &[Option<i64>]) -> ArrayRef {
        let values = numbers.iter().map(|n| n.map(|n| self.number(n)));
        // Both zeros stand for 0.
        let float = |at: usize, n: i64| match n {
            NAN => f64::NAN,
            0 if at % 2 == 1 => -0.0,
            _ => n as f64,
        };
        let wide = |n: i64| i128::from(n) << 80;
        match self {
            KeyType::Bool => Arc::new(values.map(|n| n.map(|n| n == 1)).collect::<BooleanArray>()),
            KeyType::Int16 => Arc::new(values.map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
            KeyType::Int32 => Arc::new(values.map(|n| n.map(|n| n as i32 * 1_000_000)).collect::<Int32Array>()),
            KeyType::Int64 => Arc::new(values.map(|n| n.map(|n| n << 50)).collect::<Int64Array>()),
            KeyType::Float32 => {
                let floats = values.enumerate().map(|(at, n)| n.map(|n| float(at, n) as f32));
                Arc::new(floats.collect::<Float32Array>())
            }
            KeyType::Float64 => {
                let floats = values.enumerate().map(|(at, n)| n.map(|n| float(at, n)));
                Arc::new(floats.collect::<Float64Array>())
            }
            KeyType::Decimal => {
                let decimals = values.map(|n| n.map(i128::from)).collect::<Decimal128Array>();
                Arc::new(decimals.with_data_type(DataType::Decimal128(10, 2)))
            }
            KeyType::WideDecimal => {
                let decimals = values.map(|n| n.map(wide)).collect::<Decimal128Array>();
                Arc::new(decimals.with_data_type(DataType::Decimal128(38, 10)))
            }
            KeyType::Date => Arc::new(values.map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
            KeyType::Timestamp => Arc::new(values.collect::<TimestampMicrosecondArray>()),
            KeyType::Text => {
                let texts = values.map(|n| n.map(|n| format!("the same start {:05}", n + 10_000)));
                Arc::new(texts.collect::<StringViewArray>())
            }
            KeyType::List => {
                let lists = values.map(|n| n.map(|n| vec![Some(n), None]));
                Arc::new(ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>(
                    lists,
                ))
            }
        }
    }

    pub fn has_order(self) -> bool {
        self != KeyType::List
    }

    /// A number from a few, negative ones too.
    fn draw_number(self, rng: &mut StdRng, span: i64) -> i64 {
        let float = matches!(self, KeyType::Float32 | KeyType::Float64);
        if float && rng.random_bool(0.1) {
            NAN
        } else {
            rng.random_range(-span / 2..=span / 2)
        }
    }
}

/// A text of a few letters, which is a pattern of LIKE as well.
fn draw_text(rng: &mut StdRng) -> String {
    let letters = ["a", "b", "A", "é", "𝄞", "%", "_", "\\", "a", "b", "%"];
    let length = rng.random_range(0..6);
    (0..length)
        .map(|_| letters[rng.random_range(0..letters.len())])
        .collect()
}

/// The condition of a join without keys, over `b.x`, `b.y`, `p.x`, `p.y`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    None,
    /// `b.x < p.x`
    Below,
    /// `b.x >= p.x AND b.x <= p.y`
    BuildBetween,
    /// `p.x > b.x AND p.x <= b.y`
    ProbeBetween,
    /// `b.x <> p.x`
    Differs,
}

impl Range {
    pub fn draw(rng: &mut StdRng) -> Self {
        use Range::*;
        [None, Below, BuildBetween, ProbeBetween, Differs][rng.random_range(0..5)]
    }
}

/// A condition beyond keys and ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Residual {
    None,
    /// `b.v < p.v`, a range condition of its own.
    Less,
    /// `b.v + p.v > 3`
    Sum,
    /// `b.v IS NULL OR NOT p.v IN (1, -1)`
    NullOrNotIn,
    /// `b.t < p.t`, a range condition of its own.
    TextLess,
    /// `b.t LIKE p.t`
    Like,
    /// `NOT p.t LIKE b.t`
    NotLike,
    /// `lower(b.t) = p.t`
    Lower,
    /// `starts_with(b.t, p.t)`
    StartsWith,
    /// `character_length(b.t) > p.v`
    Longer,
    /// `b.t || p.t = 'ab'`, which no device takes.
    Joined,
    /// `b.v / p.v = 2 OR p.v IS NULL`, which fails where `p.v` is 0.
    Quotient,
}

impl Residual {
    fn draw(rng: &mut StdRng) -> Self {
        use Residual::*;
        let all = [
            None,
            None,
            Less,
            Sum,
            NullOrNotIn,
            TextLess,
            Like,
            NotLike,
            Lower,
            StartsWith,
            Longer,
            Joined,
            Quotient,
        ];
        all[rng.random_range(0..all.len())]
    }
}

/// A table: key numbers by column, `x` and `y` of the range type, and `v` and `t` for the residual condition.
#[derive(Clone, Default)]
pub struct Table {
    pub keys: Vec<Vec<Option<i64>>>,
    pub x: Vec<Option<i64>>,
    pub y: Vec<Option<i64>>,
    pub v: Vec<Option<i64>>,
    pub t: Vec<Option<String>>,
}

#[derive(Clone)]
pub struct Case {
    pub join_type: JoinType,
    pub keys: Vec<KeyType>,
    pub null_equal: bool,
    pub null_aware: bool,
    pub range: Range,
    pub range_type: KeyType,
    pub residual: Residual,
    pub null_share: f64,
    /// How many different key values there are, about.
    pub span: i64,
    pub rows: (usize, usize),
    pub build: Table,
    pub probe: Table,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "{:?} join of {:?} rows, keys {:?} (nulls equal: {}, aware: {}), {:?} of {:?}, residual: {:?}, span {}",
            self.join_type,
            self.rows,
            self.keys,
            self.null_equal,
            self.null_aware,
            self.range,
            self.range_type,
            self.residual,
            self.span
        )
    }
}

impl Case {
    pub fn draw(rng: &mut StdRng, join_type: JoinType) -> Self {
        let sizes = [0, 1, 2, 31, 64, 65, 100, 300, 700];
        let mut size = || sizes[rng.random_range(0..sizes.len())];
        let rows = (size(), size());
        Self {
            join_type,
            keys: vec![],
            null_equal: false,
            null_aware: false,
            range: Range::None,
            range_type: KeyType::Int32,
            residual: Residual::draw(rng),
            null_share: [0.0, 0.1, 0.5][rng.random_range(0..3)],
            span: [0, 3, 40, 600][rng.random_range(0..4)],
            rows,
            build: Table::default(),
            probe: Table::default(),
        }
    }

    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    pub fn fill(&mut self, rng: &mut StdRng) {
        self.build = self.table(rng, self.rows.0);
        self.probe = self.table(rng, self.rows.1);
    }

    fn table(&self, rng: &mut StdRng, rows: usize) -> Table {
        let mut column = |key: KeyType, span: i64| -> Vec<Option<i64>> {
            let one = |_| (!rng.random_bool(self.null_share)).then(|| key.draw_number(rng, span));
            (0..rows).map(one).collect()
        };
        let (x, y) = (column(self.range_type, self.span), column(self.range_type, self.span));
        let (keys, v) = (
            self.keys.iter().map(|key| column(*key, self.span)).collect(),
            column(KeyType::Int32, 40),
        );
        let text = |_| (!rng.random_bool(self.null_share)).then(|| draw_text(rng));
        Table {
            keys,
            x,
            y,
            v,
            t: (0..rows).map(text).collect(),
        }
    }

    /// `id`, the keys, `x`, `y`, `v`, `t`, in batches of a few rows.
    pub fn batches(&self, table: &Table) -> (Arc<Schema>, Vec<RecordBatch>) {
        let rows = table.v.len();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..rows as i64))];
        columns.extend(
            self.keys
                .iter()
                .zip(&table.keys)
                .map(|(key, numbers)| key.column(numbers)),
        );
        columns.push(self.range_type.column(&table.x));
        columns.push(self.range_type.column(&table.y));
        columns.push(KeyType::Int16.column(&table.v));
        columns.push(Arc::new(StringViewArray::from_iter(table.t.iter())));
        let fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| Field::new(format!("c{at}"), column.data_type().clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let whole = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let batches = (0..rows).step_by(97).map(|from| whole.slice(from, 97.min(rows - from)));
        (schema, batches.collect())
    }
}
