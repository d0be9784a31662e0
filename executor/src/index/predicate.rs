//! What a scan's filters say about a column: a few values, or a range of them. It is what an index is asked for; the
//! filters themselves are evaluated on the rows found, so that saying too little here is never wrong.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, LikeExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;

use super::encoding::{KeyEncoding, KeyRange};
use super::implied::{constant, is_same};

/// More key ranges than this are not looked up one by one.
const RANGES_MAX: usize = 10_000;

/// Values of one column that may pass. NULL never does.
#[derive(Clone, Debug)]
pub enum Constraint {
    Points(Vec<ScalarValue>),
    /// The bounds are among the values.
    Range(Option<ScalarValue>, Option<ScalarValue>),
    /// Those of any of these ranges.
    Ranges(Vec<Bounds>),
}

impl Constraint {
    /// The range in which all values lie that may pass, of ranges; of other constraints None.
    pub fn covering(&self) -> Option<Bounds> {
        let ranges = match self {
            Constraint::Points(_) => return None,
            Constraint::Range(low, high) => return Some((low.clone(), high.clone())),
            Constraint::Ranges(ranges) => ranges,
        };
        // One without an end has none in common with the others.
        let ends = |ends: Vec<&Option<ScalarValue>>, first: Ordering| {
            let mut ends = ends.into_iter();
            let mut end = ends.next()?.clone()?;
            for other in ends {
                let other = other.as_ref()?;
                if other.partial_cmp(&end)? == first {
                    end = other.clone();
                }
            }
            Some(end)
        };
        let low = ends(ranges.iter().map(|(low, _)| low).collect(), Ordering::Less);
        let high = ends(ranges.iter().map(|(_, high)| high).collect(), Ordering::Greater);
        Some((low, high))
    }
}

/// The ends of a range, where it has such.
pub type Bounds = (Option<ScalarValue>, Option<ScalarValue>);

/// By the column's position in the table; what is computed of columns comes after them ([`Subjects`]).
pub type Constraints = HashMap<usize, Constraint>;

/// What constraints are about.
pub struct Subjects<'a> {
    /// The table's columns.
    pub table: &'a Schema,
    /// What indexes compute of these, by which they find rows.
    pub computed: &'a [Arc<dyn PhysicalExpr>],
}

impl Subjects<'_> {
    /// The column, or the place behind the columns of what is computed.
    pub fn number(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let columns = self.table.fields().len();
        match expr.downcast_ref::<Column>() {
            Some(column) => Some(column.index()).filter(|column| *column < columns),
            None => {
                let at = self.computed.iter().position(|own| is_same(own, expr, self.table));
                at.map(|at| columns + at)
            }
        }
    }

    fn data_type(&self, number: usize) -> Option<DataType> {
        let columns = self.table.fields();
        match number.checked_sub(columns.len()) {
            None => Some(columns[number].data_type().clone()),
            Some(at) => self.computed[at].data_type(self.table).ok(),
        }
    }
}

/// What the filters, which all must hold, say about each column.
pub fn constraints(filters: &[Arc<dyn PhysicalExpr>], table: &Schema) -> Constraints {
    constraints_on(filters, &Subjects { table, computed: &[] })
}

/// The same, about what is computed of columns too.
pub fn constraints_on(filters: &[Arc<dyn PhysicalExpr>], subjects: &Subjects<'_>) -> Constraints {
    let mut found = HashMap::new();
    filters.iter().for_each(|filter| add(filter, subjects, &mut found));
    found
}

fn add(filter: &Arc<dyn PhysicalExpr>, subjects: &Subjects<'_>, found: &mut Constraints) {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>()
        && *binary.op() == Operator::And
    {
        add(binary.left(), subjects, found);
        add(binary.right(), subjects, found);
        return;
    }
    let Some((column, constraint)) = one(filter, subjects) else {
        return;
    };
    let merged = match found.remove(&column) {
        Some(before) => both(before, constraint),
        None => constraint,
    };
    found.insert(column, merged);
}

fn one(filter: &Arc<dyn PhysicalExpr>, subjects: &Subjects<'_>) -> Option<(usize, Constraint)> {
    if let Some(list) = filter.downcast_ref::<InListExpr>() {
        let column = subjects.number(list.expr()).filter(|_| !list.negated())?;
        let of = subjects.data_type(column)?;
        let values = list.list().iter().map(|item| literal(item, &of));
        let mut values = values.collect::<Option<Vec<_>>>()?;
        values.retain(|value| !value.is_null());
        return Some((column, Constraint::Points(values)));
    }
    if let Some(like) = filter.downcast_ref::<LikeExpr>() {
        return beginning(like, subjects);
    }
    let binary = filter.downcast_ref::<BinaryExpr>()?;
    if *binary.op() == Operator::Or {
        let found = |side| constraints_on(std::slice::from_ref(side), subjects);
        let (mut left, mut right) = (found(binary.left()), found(binary.right()));
        let column = left.keys().copied().filter(|column| right.contains_key(column)).min()?;
        return Some((column, either(left.remove(&column)?, right.remove(&column)?)));
    }
    let is_value = |side: &Arc<dyn PhysicalExpr>| side.is::<Literal>() || collect_columns(side).is_empty();
    let (subject, value, op) = match (is_value(binary.left()), is_value(binary.right())) {
        (false, true) => (binary.left(), binary.right(), *binary.op()),
        (true, false) => (binary.right(), binary.left(), binary.op().swap()?),
        _ => return None,
    };
    let column = subjects.number(subject)?;
    let value = literal(value, &subjects.data_type(column)?).filter(|value| !value.is_null())?;
    let constraint = match op {
        Operator::Eq => Constraint::Points(vec![value]),
        Operator::Lt | Operator::LtEq => Constraint::Range(None, Some(value)),
        Operator::Gt | Operator::GtEq => Constraint::Range(Some(value), None),
        _ => return None,
    };
    Some((column, constraint))
}

/// The texts that begin as a pattern does before its first wildcard.
fn beginning(like: &LikeExpr, subjects: &Subjects<'_>) -> Option<(usize, Constraint)> {
    if like.negated() || like.case_insensitive() {
        return None;
    }
    let column = subjects.number(like.expr())?;
    let of = subjects.data_type(column)?;
    let pattern = literal(like.pattern(), &of)?;
    let (mut prefix, mut ended) = (String::new(), false);
    let mut rest = pattern.try_as_str()??.chars();
    while let Some(next) = rest.next() {
        match next {
            '%' | '_' => {
                ended = true;
                break;
            }
            '\\' => prefix.push(rest.next()?),
            other => prefix.push(other),
        }
    }
    if prefix.is_empty() {
        return None;
    }
    let high = match ended {
        true => text_after(&prefix),
        false => Some(prefix.clone()),
    };
    let of_type = |text: String| ScalarValue::Utf8View(Some(text)).cast_to(&of).ok();
    let high = match high {
        Some(high) => Some(of_type(high)?),
        None => None,
    };
    Some((column, Constraint::Range(Some(of_type(prefix)?), high)))
}

/// The first text behind all that begin with this one.
fn text_after(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // Between two characters there may be numbers that are none.
        if let Some(next) = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// A constant of the column's type.
fn literal(expr: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Option<ScalarValue> {
    let value = &constant(expr)?;
    let is_string = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if value.data_type() == *data_type {
        Some(value.clone())
    } else if is_string(&value.data_type()) && is_string(data_type) {
        value.cast_to(data_type).ok()
    } else {
        None
    }
}

/// What passes either.
fn either(a: Constraint, b: Constraint) -> Constraint {
    let ranges = |of: Constraint| match of {
        Constraint::Points(values) => values
            .into_iter()
            .map(|value| (Some(value.clone()), Some(value)))
            .collect(),
        Constraint::Range(low, high) => vec![(low, high)],
        Constraint::Ranges(ranges) => ranges,
    };
    match (a, b) {
        (Constraint::Points(mut first), Constraint::Points(second)) => {
            first.extend(second);
            Constraint::Points(first)
        }
        (a, b) => {
            let mut all = ranges(a);
            all.extend(ranges(b));
            Constraint::Ranges(all)
        }
    }
}

/// What passes both, or a little more.
fn both(a: Constraint, b: Constraint) -> Constraint {
    use Constraint::*;
    let tighter = |a: Option<ScalarValue>, b: Option<ScalarValue>, wanted: Ordering| match (a, b) {
        (Some(a), Some(b)) => Some(if b.partial_cmp(&a) == Some(wanted) { b } else { a }),
        (a, b) => a.or(b),
    };
    match (a, b) {
        (Points(a), Points(b)) => Points(if a.len() <= b.len() { a } else { b }),
        (points @ Points(_), Range(..) | Ranges(_)) | (Range(..) | Ranges(_), points @ Points(_)) => points,
        (ranges @ Ranges(_), Range(..) | Ranges(_)) | (Range(..), ranges @ Ranges(_)) => ranges,
        (Range(low, high), Range(other_low, other_high)) => Range(
            tighter(low, other_low, Ordering::Greater),
            tighter(high, other_high, Ordering::Less),
        ),
    }
}

/// The constraints that an index with these columns can use: points in its first columns, and at last a range. Empty
/// where the first column has none.
pub fn usable<'a>(columns: &[usize], found: &'a Constraints) -> Vec<(usize, &'a Constraint)> {
    let mut used = Vec::new();
    for column in columns {
        let Some(constraint) = found.get(column) else { break };
        used.push((*column, constraint));
        if matches!(constraint, Constraint::Range(..) | Constraint::Ranges(_)) {
            break;
        }
    }
    used
}

/// The key ranges of constraints that `usable` gave. None where they are too many.
pub fn key_ranges(used: &[(usize, &Constraint)], encoding: &KeyEncoding) -> Result<Option<Vec<KeyRange>>> {
    let mut prefixes: Vec<Vec<ArrayRef>> = vec![vec![]];
    let mut bounds: Vec<(Option<ArrayRef>, Option<ArrayRef>)> = vec![(None, None)];
    let array = |value: &Option<ScalarValue>| value.as_ref().map(ScalarValue::to_array).transpose();
    for (_, constraint) in used {
        match constraint {
            Constraint::Points(values) => {
                if prefixes.len().saturating_mul(values.len()) > RANGES_MAX {
                    return Ok(None);
                }
                let values = values.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
                let extended = |prefix: &Vec<ArrayRef>| {
                    let extend = |value: &ArrayRef| prefix.iter().chain([value]).cloned().collect();
                    values.iter().map(extend).collect::<Vec<Vec<ArrayRef>>>()
                };
                prefixes = prefixes.iter().flat_map(extended).collect();
            }
            Constraint::Range(low, high) => bounds = vec![(array(low)?, array(high)?)],
            Constraint::Ranges(ranges) => {
                let arrays = ranges.iter().map(|(low, high)| Ok((array(low)?, array(high)?)));
                bounds = arrays.collect::<Result<_>>()?;
            }
        }
    }
    if prefixes.len().saturating_mul(bounds.len()) > RANGES_MAX {
        return Ok(None);
    }
    let range = |prefix: &Vec<ArrayRef>, (low, high): &(Option<ArrayRef>, Option<ArrayRef>)| {
        encoding.range(prefix, low.as_ref(), high.as_ref())
    };
    let ranges = prefixes
        .iter()
        .flat_map(|prefix| bounds.iter().map(move |bounds| range(prefix, bounds)));
    ranges.collect::<Result<Vec<_>>>().map(Some)
}
