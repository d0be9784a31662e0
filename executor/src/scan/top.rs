//! What a sort that keeps its first rows only tells the scan below it: rows whose first sort key comes behind that of the
//! last row kept so far cannot be among them. Segments that have no others are passed over, and the rest are read in the
//! order that brings the first rows first, whatever order the table is stored in.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, IsNullExpr, Literal, is_null, lit,
};
use tenon_storage::{Bound, ColumnStatistics, Segment, TableVersion};

use super::exec::MORSEL_ROWS;
use super::filter::ScanFilter;

/// A sort's filter, and its first key.
#[derive(Debug, Clone)]
pub struct TopFilter {
    /// Over the sort's input: what may still be among the first rows. A `DynamicFilterPhysicalExpr`.
    pub filter: Arc<dyn PhysicalExpr>,
    /// The sort's first key.
    pub key: Arc<dyn PhysicalExpr>,
    pub options: SortOptions,
    /// How many rows the sort keeps.
    pub rows: usize,
    /// Whether the sort counts on the order in which the rows come.
    pub in_order: bool,
}

/// The rows that may still be among the first, by a table's column that is the first key.
#[derive(Debug)]
enum Passing {
    All,
    Nulls,
    None,
    Beyond(Box<Threshold>),
}

#[derive(Debug)]
struct Threshold {
    /// The last row's value; None: of a type without bounds.
    bound: Option<Bound>,
    /// Whether rows of the same value may be among the first, by other keys.
    ties: bool,
    nulls: bool,
    of_values: ScanFilter,
    of_nulls_too: ScanFilter,
}

/// A filter in one partition under way.
pub struct Top {
    filter: TopFilter,
    column: usize,
    /// Whether the value that passes is above the last row's.
    above: bool,
    table: Arc<Schema>,
    generation: u64,
    passing: Passing,
}

impl Top {
    /// The sort's first key is this column of the table.
    pub fn new(filter: TopFilter, column: usize, table: Arc<Schema>) -> Self {
        let above = filter.options.descending;
        Self {
            filter,
            column,
            above,
            table,
            generation: 0,
            passing: Passing::All,
        }
    }

    /// How many rows the sort keeps.
    pub fn rows(&self) -> usize {
        self.filter.rows
    }

    /// Learns what the sort has seen meanwhile.
    fn refresh(&mut self) -> Result<()> {
        let generation = self.filter.filter.snapshot_generation();
        if generation != self.generation {
            self.passing = match self.filter.filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
                Some(filter) => self.passing(&filter.current()?)?,
                None => Passing::All,
            };
            self.generation = generation;
        }
        Ok(())
    }

    /// False: none of the segment's rows is among the first.
    pub fn enter(&mut self, segment: &Segment) -> Result<bool> {
        self.refresh()?;
        let statistics = segment.statistics(self.column);
        let (nulls, values) = (statistics.null_count, statistics.rows - statistics.null_count);
        Ok(match &self.passing {
            Passing::All => true,
            Passing::None => false,
            Passing::Nulls => nulls > 0,
            Passing::Beyond(threshold) => {
                threshold.nulls && nulls > 0 || values > 0 && threshold.may_pass(statistics, self.above)
            }
        })
    }

    /// Whether rows behind this one in the order of the first key may be among the first, as far as is seen: NULLs are taken to be
    /// behind it.
    pub fn goes_on_behind(&mut self, segment: &Segment, row: usize) -> Result<bool> {
        self.refresh()?;
        match &self.passing {
            Passing::All => Ok(true),
            Passing::None => Ok(false),
            // They come first, then.
            Passing::Nulls => Ok(segment.column_slice(self.column, row, 1).null_count() > 0),
            Passing::Beyond(threshold) => {
                let filter = match threshold.nulls {
                    true => &threshold.of_nulls_too,
                    false => &threshold.of_values,
                };
                let values = filter.columns().iter();
                let values = values.map(|column| segment.column_slice(*column, row, 1)).collect();
                let passes = filter.evaluate(values, 1)?;
                Ok(passes.is_valid(0) && passes.value(0))
            }
        }
    }

    /// The condition on the segment's rows; None: they all may be among the first.
    pub fn condition(&self, segment: &Segment) -> Option<&ScanFilter> {
        match &self.passing {
            Passing::Beyond(threshold) if threshold.nulls && segment.statistics(self.column).null_count > 0 => {
                Some(&threshold.of_nulls_too)
            }
            Passing::Beyond(threshold) => Some(&threshold.of_values),
            _ => None,
        }
    }

    /// Reads the sort's filter: alternatives, of which those on the first key alone say which of its values pass, and the
    /// others that equal values may.
    fn passing(&self, filter: &Arc<dyn PhysicalExpr>) -> Result<Passing> {
        let (mut value, mut nulls, mut ties) = (None, false, false);
        let is_key = |expr: &Arc<dyn PhysicalExpr>| expr.eq(&self.filter.key);
        let mut open = vec![filter];
        while let Some(expr) = open.pop() {
            if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
                match binary.op() {
                    Operator::Or => open.extend([binary.left(), binary.right()]),
                    Operator::And => ties = true,
                    Operator::Gt | Operator::Lt if is_key(binary.left()) => {
                        let Some(literal) = binary.right().downcast_ref::<Literal>() else {
                            return Ok(Passing::All);
                        };
                        value = Some(literal.value().clone());
                    }
                    _ => return Ok(Passing::All),
                }
            } else if expr.downcast_ref::<IsNullExpr>().is_some_and(|null| is_key(null.arg())) {
                nulls = true;
            } else {
                let literal = expr.downcast_ref::<Literal>().map(Literal::value);
                if literal != Some(&ScalarValue::Boolean(Some(false))) {
                    return Ok(Passing::All);
                }
            }
        }
        match value {
            Some(value) => self
                .beyond(value, nulls, ties)
                .map(|own| Passing::Beyond(Box::new(own))),
            None if ties => Ok(Passing::Nulls),
            None if nulls => Ok(Passing::All),
            None => Ok(Passing::None),
        }
    }

    fn beyond(&self, value: ScalarValue, nulls: bool, ties: bool) -> Result<Threshold> {
        let name = self.table.field(self.column).name();
        let column = Arc::new(Column::new(name, self.column)) as Arc<dyn PhysicalExpr>;
        let op = match (self.above, ties) {
            (true, true) => Operator::GtEq,
            (true, false) => Operator::Gt,
            (false, true) => Operator::LtEq,
            (false, false) => Operator::Lt,
        };
        let of_values = Arc::new(BinaryExpr::new(Arc::clone(&column), op, lit(value.clone())));
        let of_values = of_values as Arc<dyn PhysicalExpr>;
        let of_nulls_too = Arc::new(BinaryExpr::new(is_null(column)?, Operator::Or, Arc::clone(&of_values)));
        let of_nulls_too = of_nulls_too as Arc<dyn PhysicalExpr>;
        Ok(Threshold {
            bound: ColumnStatistics::of_array(&value.to_array()?).min,
            ties,
            nulls,
            of_values: ScanFilter::try_new(&of_values, &self.table)?,
            of_nulls_too: ScanFilter::try_new(&of_nulls_too, &self.table)?,
        })
    }
}

impl Threshold {
    fn may_pass(&self, statistics: &ColumnStatistics, above: bool) -> bool {
        let best = if above { &statistics.max } else { &statistics.min };
        let (Some(best), Some(bound)) = (best, &self.bound) else {
            return true;
        };
        match best.partial_cmp(bound) {
            None => true,
            Some(Ordering::Equal) => self.ties,
            Some(order) => (order == Ordering::Greater) == above,
        }
    }
}

/// A segment, and whether its last rows are to be read first.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub segment: usize,
    pub backwards: bool,
}

/// The table's segments in the order that brings the first rows by the column first; None: as they are.
pub fn order(table: &TableVersion, column: usize, filter: &TopFilter) -> Option<Vec<Place>> {
    if table.rows() <= MORSEL_ROWS as u64 || filter.in_order {
        return None;
    }
    let options = filter.options;
    let segments = table.segments().iter().enumerate();
    let mut places: Vec<_> = segments
        .map(|(number, segment)| {
            let statistics = segment.statistics(column);
            let place = Place {
                segment: number,
                backwards: is_backwards(segment, column, options.descending),
            };
            let best = if options.descending {
                &statistics.max
            } else {
                &statistics.min
            };
            let nulls_first = options.nulls_first && statistics.null_count > 0;
            (!nulls_first, best.clone(), place)
        })
        .collect();
    let by_value = |one: &Option<Bound>, other: &Option<Bound>| match (one, other) {
        (Some(one), Some(other)) => {
            let order = one.partial_cmp(other).unwrap_or(Ordering::Equal);
            if options.descending { order.reverse() } else { order }
        }
        // What nothing is known of is read when most is known of the rest.
        _ => one.is_none().cmp(&other.is_none()),
    };
    places.sort_by(|(one_late, one, _), (other_late, other, _)| {
        one_late.cmp(other_late).then_with(|| by_value(one, other))
    });
    Some(places.into_iter().map(|(_, _, place)| place).collect())
}

/// Whether a segment's last row comes before its first in the order.
fn is_backwards(segment: &Segment, column: usize, descending: bool) -> bool {
    let value = |row: usize| ColumnStatistics::of_array(&segment.column_slice(column, row, 1)).min;
    if segment.rows() < 2 {
        return false;
    }
    match (value(0), value(segment.rows() - 1)) {
        (Some(first), Some(last)) => {
            let before = if descending { Ordering::Greater } else { Ordering::Less };
            last.partial_cmp(&first) == Some(before)
        }
        _ => false,
    }
}
