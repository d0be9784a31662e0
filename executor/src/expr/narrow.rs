//! Decimal arithmetic and comparison in 64 bits.
//!
//! More than 400 lines because the operators, their limits of 64 bits and the tree that they are put into are one
//! rewriting.
//!
//! DataFusion computes decimals in 128 bits, each operation checked. Sums and products of money fit 64 bits nearly
//! always, and whether they do is cheap to see: each batch is loaded as `i64` with its largest magnitude, the
//! magnitudes are carried through the expression, and if no step can pass 2^62 the whole batch is computed with plain
//! vector instructions. Otherwise, and for anything unusual, DataFusion's own expression is evaluated.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, Decimal128Array, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};

/// No intermediate value may reach this magnitude.
const MAGNITUDE_MAX: u128 = 1 << 62;

/// Puts the narrow forms into an expression, wherever they fit.
pub fn accelerate(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let expr = expr.transform_down(|e| {
        let Some(binary) = e.downcast_ref::<BinaryExpr>() else {
            return Ok(Transformed::no(e));
        };
        if let Some(node) = Node::of(&e).filter(|node| !matches!(node, Node::Leaf { .. } | Node::Literal { .. })) {
            let fast: Arc<dyn PhysicalExpr> = Arc::new(NarrowArithmetic { original: e, node });
            return Ok(Transformed::new(fast, true, TreeNodeRecursion::Jump));
        }
        if let Some((column, value)) = comparison(binary) {
            let op = *binary.op();
            let fast: Arc<dyn PhysicalExpr> = Arc::new(NarrowComparison {
                original: e,
                column,
                op,
                value,
            });
            return Ok(Transformed::new(fast, true, TreeNodeRecursion::Jump));
        }
        Ok(Transformed::no(e))
    })?;
    Ok(expr.data)
}

/// A tree of +, -, * over decimals.
#[derive(Debug, Clone)]
enum Node {
    /// A decimal or integer column.
    Leaf {
        column: usize,
        scale: i8,
    },
    Literal {
        value: i64,
        scale: i8,
    },
    Binary {
        op: Operator,
        left: Box<Node>,
        right: Box<Node>,
        scale: i8,
    },
}

/// Values of a node over a batch, none of magnitude above `magnitude`.
enum Values {
    Many { values: Vec<i64>, magnitude: u128 },
    One(i64),
}

impl Node {
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Some(Self::Leaf {
                column: column.index(),
                scale: i8::MIN,
            });
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let ScalarValue::Decimal128(Some(value), _, scale) = literal.value() else {
                return None;
            };
            return Some(Self::Literal {
                value: i64::try_from(*value).ok()?,
                scale: *scale,
            });
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            // An integer column made a decimal without fraction digits, as type coercion does.
            let DataType::Decimal128(_, 0) = cast.cast_type() else {
                return None;
            };
            let column = cast.expr().downcast_ref::<Column>()?;
            return Some(Self::Leaf {
                column: column.index(),
                scale: 0,
            });
        }
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let (left, right) = (Self::of(binary.left())?, Self::of(binary.right())?);
        match binary.op() {
            op @ (Operator::Plus | Operator::Minus | Operator::Multiply) => Some(Self::Binary {
                op: *op,
                left: left.into(),
                right: right.into(),
                scale: 0,
            }),
            _ => None,
        }
    }

    /// Fills in the scales, which only the batch's types tell; false if a type does not fit.
    fn resolve(&mut self, schema: &Schema) -> bool {
        match self {
            Self::Literal { .. } => true,
            // CASE asks what its conditions are over no columns at all.
            Self::Leaf { column, scale } => match schema.fields().get(*column).map(|field| field.data_type()) {
                Some(DataType::Decimal128(_, s)) if *scale == i8::MIN || *s == *scale => {
                    *scale = *s;
                    *s >= 0
                }
                Some(DataType::Int16 | DataType::Int32 | DataType::Int64) => *scale == 0,
                _ => false,
            },
            Self::Binary { op, left, right, scale } => {
                if !left.resolve(schema) || !right.resolve(schema) {
                    return false;
                }
                *scale = match op {
                    Operator::Multiply => left.scale().saturating_add(right.scale()),
                    _ => left.scale().max(right.scale()),
                };
                (0..=18).contains(scale)
            }
        }
    }

    fn scale(&self) -> i8 {
        match self {
            Self::Leaf { scale, .. } | Self::Literal { scale, .. } | Self::Binary { scale, .. } => *scale,
        }
    }

    /// The values over `batch`, and into `nulls` the rows that are null; `None` if 64 bits may not do.
    fn evaluate(&self, batch: &RecordBatch, nulls: &mut Option<NullBuffer>) -> Option<Values> {
        match self {
            Self::Literal { value, .. } => Some(Values::One(*value)),
            Self::Leaf { column, .. } => {
                let array = batch.columns().get(*column)?;
                if array.null_count() > 0 {
                    *nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
                }
                let values: Vec<i64> = match array.data_type() {
                    DataType::Decimal128(precision, _) => {
                        let wide = array.as_primitive::<Decimal128Type>().values();
                        if *precision > 18 && !wide.iter().all(|&v| v == i128::from(v as i64)) {
                            return None;
                        }
                        wide.iter().map(|&v| v as i64).collect()
                    }
                    DataType::Int16 => array
                        .as_primitive::<Int16Type>()
                        .values()
                        .iter()
                        .map(|&v| v.into())
                        .collect(),
                    DataType::Int32 => array
                        .as_primitive::<Int32Type>()
                        .values()
                        .iter()
                        .map(|&v| v.into())
                        .collect(),
                    DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
                    _ => return None,
                };
                let (min, max) = values.iter().fold((0, 0), |(min, max), &v| (v.min(min), v.max(max)));
                let magnitude = u128::from(min.unsigned_abs().max(max.unsigned_abs()));
                Some(Values::Many { values, magnitude })
            }
            Self::Binary { op, left, right, scale } => {
                let (mut l, mut r) = (left.evaluate(batch, nulls)?, right.evaluate(batch, nulls)?);
                if *op != Operator::Multiply {
                    l = l.rescale(scale - left.scale())?;
                    r = r.rescale(scale - right.scale())?;
                }
                combine(*op, l, r)
            }
        }
    }
}

impl Values {
    fn magnitude(&self) -> u128 {
        match self {
            Self::Many { magnitude, .. } => *magnitude,
            Self::One(value) => u128::from(value.unsigned_abs()),
        }
    }

    fn rescale(self, digits: i8) -> Option<Self> {
        if digits == 0 {
            return Some(self);
        }
        combine(
            Operator::Multiply,
            self,
            Self::One(10i64.checked_pow(u32::try_from(digits).ok()?)?),
        )
    }
}

fn combine(op: Operator, left: Values, right: Values) -> Option<Values> {
    let magnitude = match op {
        Operator::Multiply => left.magnitude() * right.magnitude(),
        _ => left.magnitude() + right.magnitude(),
    };
    if magnitude >= MAGNITUDE_MAX || left.magnitude() >= MAGNITUDE_MAX || right.magnitude() >= MAGNITUDE_MAX {
        return None;
    }
    Some(match op {
        Operator::Plus => apply(left, right, magnitude, |a, b| a.wrapping_add(b)),
        Operator::Minus => apply(left, right, magnitude, |a, b| a.wrapping_sub(b)),
        _ => apply(left, right, magnitude, |a, b| a.wrapping_mul(b)),
    })
}

fn apply(left: Values, right: Values, magnitude: u128, op: impl Fn(i64, i64) -> i64) -> Values {
    match (left, right) {
        (Values::One(a), Values::One(b)) => Values::One(op(a, b)),
        (Values::Many { mut values, .. }, Values::One(b)) => {
            values.iter_mut().for_each(|a| *a = op(*a, b));
            Values::Many { values, magnitude }
        }
        (Values::One(a), Values::Many { mut values, .. }) => {
            values.iter_mut().for_each(|b| *b = op(a, *b));
            Values::Many { values, magnitude }
        }
        (Values::Many { mut values, .. }, Values::Many { values: other, .. }) => {
            values.iter_mut().zip(&other).for_each(|(a, &b)| *a = op(*a, b));
            Values::Many { values, magnitude }
        }
    }
}

/// Decimals as unscaled integers.
pub struct NarrowValues {
    pub values: Vec<i64>,
    pub nulls: Option<NullBuffer>,
    /// No value is above it, nor below it with its sign changed.
    pub magnitude: u128,
}

/// Decimal +, -, *.
#[derive(Debug)]
pub struct NarrowArithmetic {
    original: Arc<dyn PhysicalExpr>,
    node: Node,
}

impl NarrowArithmetic {
    /// The unscaled values of each row, if 64 bits do. The type is the original's.
    pub fn evaluate_narrow(&self, batch: &RecordBatch) -> Result<Option<NarrowValues>> {
        let DataType::Decimal128(_, out_scale) = self.original.data_type(batch.schema_ref())? else {
            return Ok(None);
        };
        let mut node = self.node.clone();
        if !node.resolve(batch.schema_ref()) || node.scale() != out_scale {
            return Ok(None);
        }
        let mut nulls = None;
        Ok(match node.evaluate(batch, &mut nulls) {
            Some(Values::Many { values, magnitude }) => Some(NarrowValues {
                values,
                nulls,
                magnitude,
            }),
            _ => None,
        })
    }
}

impl PhysicalExpr for NarrowArithmetic {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.original.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.original.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let DataType::Decimal128(precision, scale) = self.original.data_type(batch.schema_ref())? else {
            return self.original.evaluate(batch);
        };
        match self.evaluate_narrow(batch)? {
            Some(NarrowValues { values, nulls, .. }) => {
                let wide: Vec<i128> = values.into_iter().map(i128::from).collect();
                let array = Decimal128Array::new(wide.into(), nulls).with_precision_and_scale(precision, scale)?;
                Ok(ColumnarValue::Array(Arc::new(array)))
            }
            None => self.original.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.original.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        accelerate(Arc::clone(&self.original).with_new_children(children)?)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt_sql(f)
    }
}

/// What `accelerate` put another form in place of.
pub(super) fn original(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let arithmetic = expr.downcast_ref::<NarrowArithmetic>().map(|own| &own.original);
    arithmetic.or_else(|| expr.downcast_ref::<NarrowComparison>().map(|own| &own.original))
}

/// `column op literal` over decimals of at most 18 digits, which their type keeps within 64 bits.
#[derive(Debug)]
pub struct NarrowComparison {
    original: Arc<dyn PhysicalExpr>,
    column: usize,
    op: Operator,
    value: i64,
}

fn comparison(binary: &BinaryExpr) -> Option<(usize, i64)> {
    use Operator::*;
    let column = binary.left().downcast_ref::<Column>()?;
    let literal = binary.right().downcast_ref::<Literal>()?;
    let ScalarValue::Decimal128(Some(value), _, _) = literal.value() else {
        return None;
    };
    matches!(binary.op(), Eq | NotEq | Lt | LtEq | Gt | GtEq).then_some(())?;
    Some((column.index(), i64::try_from(*value).ok()?))
}

impl PhysicalExpr for NarrowComparison {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.original.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        // CASE asks what its conditions are over a batch without columns: DataFusion's form tells it.
        let Some(array) = batch.columns().get(self.column) else {
            return self.original.evaluate(batch);
        };
        let Some(wide) = array
            .as_primitive_opt::<Decimal128Type>()
            .filter(|a| a.precision() <= 18)
        else {
            return self.original.evaluate(batch);
        };
        let (rows, literal) = (wide.values().as_ref(), self.value);
        let bits = match self.op {
            Operator::Eq => compare(rows, |v| v == literal),
            Operator::NotEq => compare(rows, |v| v != literal),
            Operator::Lt => compare(rows, |v| v < literal),
            Operator::LtEq => compare(rows, |v| v <= literal),
            Operator::Gt => compare(rows, |v| v > literal),
            Operator::GtEq => compare(rows, |v| v >= literal),
            _ => return self.original.evaluate(batch),
        };
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(
            bits,
            wide.nulls().cloned(),
        ))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.original.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        accelerate(Arc::clone(&self.original).with_new_children(children)?)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt_sql(f)
    }
}

fn compare(rows: &[i128], test: impl Fn(i64) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |row| test(rows[row] as i64))
}

macro_rules! same_as_original {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.original.fmt(f)
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.original.eq(&other.original)
            }
        }

        impl Eq for $type {}

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.original.hash(state);
            }
        }
    )*};
}

same_as_original!(NarrowArithmetic, NarrowComparison);
