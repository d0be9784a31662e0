//! Operators of ranges and multiranges: calls under names that no client can write. Comparisons stay what they are.

use super::super::array::in_arrays;
use super::values::{failed, is_element, keys, spans, to_bytes, values};
use crate::pg::conventions;
use crate::pg::semantics::{fields, resolve};
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use tenon_storage::datetime::Conventions;
use tenon_storage::range::{self, Span};
use tenon_storage::{ArrayType, SqlType};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Contains,
    Within,
    Overlaps,
    Before,
    After,
    NotRight,
    NotLeft,
    Adjacent,
    Union,
    Intersection,
    Difference,
}

fn op(operator: &BinaryOperator) -> Option<Op> {
    Some(match operator {
        BinaryOperator::AtArrow => Op::Contains,
        BinaryOperator::ArrowAt => Op::Within,
        BinaryOperator::PGOverlap => Op::Overlaps,
        BinaryOperator::PGBitwiseShiftLeft => Op::Before,
        BinaryOperator::PGBitwiseShiftRight => Op::After,
        BinaryOperator::Plus => Op::Union,
        BinaryOperator::Multiply => Op::Intersection,
        BinaryOperator::Minus => Op::Difference,
        other => match other.to_string().as_str() {
            "&<" => Op::NotRight,
            "&>" => Op::NotLeft,
            "-|-" => Op::Adjacent,
            _ => return None,
        },
    })
}

/// A parameter of no type beside ranges, or arrays of them, is of theirs.
pub(in crate::pg::functions) fn with_parameters(mut expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    let is_open = |side: &Expr| matches!(side, Expr::Placeholder(open) if open.field.is_none());
    let (side, other) = match (is_open(&expr.left), is_open(&expr.right)) {
        (true, false) => (&mut expr.left, &expr.right),
        (false, true) => (&mut expr.right, &expr.left),
        _ => return expr,
    };
    if let Expr::Placeholder(open) = side
        && expr.op != BinaryOperator::StringConcat
        && let Ok(of) = fields::data_type(other, schema)
        && let Some(of) = SqlType::range_of(&of).or_else(|| array_of_ranges(&of))
    {
        open.field = Some(Arc::new(of.field("", true)));
    }
    expr
}

fn array_of_ranges(of: &DataType) -> Option<SqlType> {
    match of {
        DataType::List(item) => Some(SqlType::Array(ArrayType::of_items(SqlType::range_of(
            item.data_type(),
        )?))),
        _ => None,
    }
}

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Ranges(SqlType),
    /// A bound's value.
    Element,
}

/// The call that an operator of ranges is.
///
/// # Errors
/// 42883 where it takes no such operands.
pub(in crate::pg::functions) fn operator(
    expr: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
) -> Result<Option<Expr>> {
    let Some(op) = op(&expr.op) else { return Ok(None) };
    let of = match (SqlType::range_of(left), SqlType::range_of(right)) {
        (None, None) => return Ok(None),
        both => both,
    };
    let is_set = matches!(op, Op::Union | Op::Intersection | Op::Difference);
    let sides = match of {
        (Some(a), Some(b)) if a == b || (!is_set && a.ranges() == b.ranges()) => {
            Some((Side::Ranges(a), Side::Ranges(b)))
        }
        (Some(a), None) if op == Op::Contains && a.ranges().is_some_and(|of| is_element(of, right)) => {
            Some((Side::Ranges(a), Side::Element))
        }
        (None, Some(b)) if op == Op::Within && b.ranges().is_some_and(|of| is_element(of, left)) => {
            Some((Side::Element, Side::Ranges(b)))
        }
        _ => None,
    };
    let Some(sides) = sides else {
        let known = |of: &DataType| {
            (!super::values::is_unknown(of))
                .then(|| SqlType::from_data_type(of))
                .flatten()
        };
        return Err(resolve::undefined(&expr.op.to_string(), known(left), known(right)));
    };
    let function = Operation {
        op,
        sides,
        signature: Signature::any(2, Volatility::Immutable),
    };
    let call = Arc::new(ScalarUDF::new_from_impl(function));
    Ok(Some(call.call(vec![expr.left.clone(), expr.right.clone()])))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Operation {
    op: Op,
    sides: (Side, Side),
    signature: Signature,
}

impl Operation {
    /// The type of the ranges.
    fn ranges(&self) -> SqlType {
        match self.sides {
            (Side::Ranges(of), _) | (_, Side::Ranges(of)) => of,
            _ => SqlType::Bool,
        }
    }

    fn is_set(&self) -> bool {
        matches!(self.op, Op::Union | Op::Intersection | Op::Difference)
    }

    /// An operator that gives a truth value, of all but elements.
    fn holds(&self, a: &[Span], b: &[Span]) -> bool {
        match self.op {
            Op::Contains => range::is_in(b, a),
            Op::Within => range::is_in(a, b),
            Op::Overlaps => range::overlap(a, b),
            Op::Before => range::is_before(a, b),
            Op::After => range::is_after(a, b),
            Op::NotRight => range::is_not_right(a, b),
            Op::NotLeft => range::is_not_left(a, b),
            _ => range::is_adjacent(a, b),
        }
    }

    /// An operator that gives a range or a multirange.
    fn value(&self, a: Vec<Span>, b: Vec<Span>) -> Result<Vec<u8>> {
        let of = self.ranges();
        let many = matches!(of, SqlType::Multirange(_));
        Ok(match self.op {
            Op::Union if many => to_bytes(of, &range::of_ranges([a, b].concat())),
            Op::Difference if many => to_bytes(of, &range::difference(&a, &b)),
            Op::Union => {
                let made = range::contiguous(a.into_iter().next(), b.into_iter().next());
                range::to_bytes(made.map_err(failed)?.as_ref())
            }
            Op::Difference => {
                let made = range::minus(a.into_iter().next(), b.into_iter().next());
                range::to_bytes(made.map_err(failed)?.as_ref())
            }
            _ => to_bytes(of, &range::intersection(&a, &b)),
        })
    }

    fn of_elements(&self, arrays: &[ArrayRef], rows: usize, by: &Conventions) -> Result<ArrayRef> {
        let of = self.ranges();
        let (own, elements) = match self.sides.1 {
            Side::Element => (&arrays[0], &arrays[1]),
            _ => (&arrays[1], &arrays[0]),
        };
        let keys = match of.ranges() {
            Some(ranges) => keys(ranges, elements, by)?,
            None => vec![None; rows],
        };
        let own = values(own)?;
        let holds = |row: usize| {
            let (spans, key) = (spans(of, own.get(row)?), keys[row].as_deref()?);
            Some(spans.iter().any(|span| span.holds(key)))
        };
        Ok(Arc::new((0..rows).map(holds).collect::<BooleanArray>()))
    }

    fn of_ranges(&self, (a, b): (SqlType, SqlType), arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let (left, right) = (values(&arrays[0])?, values(&arrays[1])?);
        let both = |row: usize| Some((spans(a, left.get(row)?), spans(b, right.get(row)?)));
        if !self.is_set() {
            let holds = |row| both(row).map(|(a, b)| self.holds(&a, &b));
            return Ok(Arc::new((0..rows).map(holds).collect::<BooleanArray>()));
        }
        let made = (0..rows).map(|row| both(row).map(|(a, b)| self.value(a, b)).transpose());
        Ok(range::array(self.ranges(), made.collect::<Result<Vec<_>>>()?))
    }
}

impl ScalarUDFImpl for Operation {
    fn name(&self) -> &str {
        match self.op {
            Op::Contains => "\u{1}range_contains",
            Op::Within => "\u{1}range_within",
            Op::Overlaps => "\u{1}range_overlaps",
            Op::Before => "\u{1}range_before",
            Op::After => "\u{1}range_after",
            Op::NotRight => "\u{1}range_overleft",
            Op::NotLeft => "\u{1}range_overright",
            Op::Adjacent => "\u{1}range_adjacent",
            Op::Union => "\u{1}range_union",
            Op::Intersection => "\u{1}range_intersect",
            Op::Difference => "\u{1}range_minus",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.is_set() {
            self.ranges().data_type()
        } else {
            DataType::Boolean
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let by = conventions::of(&args.config_options);
        in_arrays(&args.args, args.number_rows, |arrays, rows| match self.sides {
            (Side::Ranges(a), Side::Ranges(b)) => self.of_ranges((a, b), arrays, rows),
            _ => self.of_elements(arrays, rows, &by),
        })
    }
}
