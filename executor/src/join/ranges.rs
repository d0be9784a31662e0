//! Range and band conditions in a join's filter: which comparisons bound an expression of one side by expressions of
//! the other, so that the one side can be sorted and the other find its partners by two searches.
//!
//! `b.x BETWEEN p.y - 1 AND p.y + 1`, `p.y >= b.lo AND p.y < b.hi`, `b.x <= p.y`: the top-level conjuncts are compared
//! by their two sides, in either direction; of several expressions that could be sorted, one bounded on both ends wins.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExprRef, split_conjunction};
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::normalized_keys::has_normalized_keys;

/// One end of a range.
#[derive(Debug, Clone)]
pub struct End {
    /// Over the probing side's columns.
    pub expr: PhysicalExprRef,
    /// Whether the end itself is outside.
    pub strict: bool,
}

/// A condition `low <= key <= high` of every pair that the filter accepts.
#[derive(Debug, Clone)]
pub struct RangeCondition {
    /// The side whose key is sorted.
    pub sorted: JoinSide,
    /// Over that side's columns.
    pub key: PhysicalExprRef,
    pub lows: Vec<End>,
    pub highs: Vec<End>,
    /// Whether the filter says nothing else.
    pub whole: bool,
}

impl RangeCondition {
    /// The filter's best range condition, if it has one.
    pub fn of(filter: &JoinFilter) -> Result<Option<Self>> {
        // The first among equals: conditions are seen from the left side first.
        let better = |best: Self, other: Self| if other.ends() > best.ends() { other } else { best };
        Ok(Self::all(filter)?.into_iter().reduce(better))
    }

    /// All range conditions of the filter, in the order in which it names their keys.
    pub fn all(filter: &JoinFilter) -> Result<Vec<Self>> {
        let conjuncts = split_conjunction(filter.expression());
        let mut found: Vec<(RangeCondition, usize)> = vec![];
        for conjunct in &conjuncts {
            let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else {
                continue;
            };
            let (Some(left), Some(right)) = (side_of(binary.left(), filter), side_of(binary.right(), filter)) else {
                continue;
            };
            if left == right || !comparable(binary, filter.schema()) {
                continue;
            }
            // Seen from either side: `key op end`.
            let turned = binary.op().swap();
            let views = [
                (left, binary.left(), Some(*binary.op()), binary.right()),
                (right, binary.right(), turned, binary.left()),
            ];
            for (sorted, key, op, end) in views {
                let Some(op) = op else { continue };
                let (low, high, strict) = match op {
                    Operator::Gt => (true, false, true),
                    Operator::GtEq => (true, false, false),
                    Operator::Lt => (false, true, true),
                    Operator::LtEq => (false, true, false),
                    Operator::Eq => (true, true, false),
                    _ => continue,
                };
                let (key, expr) = (own_columns(key, filter)?, own_columns(end, filter)?);
                let at = found
                    .iter()
                    .position(|(range, _)| range.sorted == sorted && range.key.as_ref() == key.as_ref());
                let at = at.unwrap_or_else(|| {
                    let (lows, highs, whole) = (vec![], vec![], false);
                    let range = RangeCondition {
                        sorted,
                        key,
                        lows,
                        highs,
                        whole,
                    };
                    found.push((range, 0));
                    found.len() - 1
                });
                let (range, used) = &mut found[at];
                *used += 1;
                if low {
                    let expr = Arc::clone(&expr);
                    range.lows.push(End { expr, strict });
                }
                if high {
                    range.highs.push(End { expr, strict });
                }
            }
        }
        for (range, used) in &mut found {
            range.whole = *used == conjuncts.len();
        }
        Ok(found.into_iter().map(|(range, _)| range).collect())
    }

    /// Bounded ends: 1 or 2.
    pub fn ends(&self) -> usize {
        usize::from(!self.lows.is_empty()) + usize::from(!self.highs.is_empty())
    }
}

/// The one side that an expression reads.
fn side_of(expr: &PhysicalExprRef, filter: &JoinFilter) -> Option<JoinSide> {
    let mut side = None;
    let mut mixed = false;
    expr.apply(|node| {
        if let Some(column) = node.downcast_ref::<Column>() {
            let own = filter.column_indices().get(column.index()).map(|index| index.side);
            mixed |= own.is_none() || side.is_some() && side != own;
            side = own;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .ok()?;
    side.filter(|side| !mixed && *side != JoinSide::None)
}

/// Whether both operands have one type whose order their bits can keep.
fn comparable(binary: &BinaryExpr, schema: &Schema) -> bool {
    match (binary.left().data_type(schema), binary.right().data_type(schema)) {
        (Ok(left), Ok(right)) => left == right && has_normalized_keys(&left),
        _ => false,
    }
}

/// The expression over its side's own columns instead of the filter's.
fn own_columns(expr: &PhysicalExprRef, filter: &JoinFilter) -> Result<PhysicalExprRef> {
    let moved = Arc::clone(expr).transform(|node| {
        let found = node.downcast_ref::<Column>().map(|column| {
            let index = filter.column_indices()[column.index()].index;
            Arc::new(Column::new(column.name(), index)) as PhysicalExprRef
        });
        Ok(found.map_or(Transformed::no(node), Transformed::yes))
    })?;
    Ok(moved.data)
}
