//! Columns that are compared with parameters of wider integer types than their own: `id = $1` where `id` is an integer and
//! `$1` a bigint, as drivers send their languages' numbers. Not the column is widened, row by row, but the parameter is
//! narrowed, once, so that indexes, zone maps and estimates see a column and a value. What becomes NULL by it stands where
//! NULL is as good as false.

use super::parameters::call;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Cast, InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::{Expr, Operator};
use std::sync::Arc;

/// Which value of a narrower type takes the place of one of a wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Narrowing {
    /// The same; NULL where there is none.
    Same,
    /// The largest that is less.
    Below,
    /// The largest that is not more.
    AtMost,
    /// The smallest that is not less.
    AtLeast,
    /// The smallest that is more.
    Above,
}

impl Narrowing {
    /// The value of the integer type `to`; of a list, of each of its items, without those that have none.
    pub fn of(self, value: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
        if let (ScalarValue::List(list), DataType::List(item)) = (value, to) {
            let Some(items) = list.iter().next().flatten() else {
                return ScalarValue::try_from(to).ok();
            };
            let items = (0..items.len()).filter_map(|at| {
                let item_value = ScalarValue::try_from_array(&items, at).ok()?;
                let narrowed = self.of(&item_value, item.data_type())?;
                (item_value.is_null() || !narrowed.is_null()).then_some(narrowed)
            });
            let items: Vec<ScalarValue> = items.collect();
            let list = ScalarValue::new_list(&items, item.data_type(), true);
            return ScalarValue::List(list).cast_to(to).ok();
        }
        let given = match value {
            ScalarValue::Int16(value) => value.map(i128::from),
            ScalarValue::Int32(value) => value.map(i128::from),
            ScalarValue::Int64(value) => value.map(i128::from),
            _ => return None,
        };
        let (min, max) = bounds(to)?;
        let wanted = given.and_then(|given| match self {
            Narrowing::Same => Some(given).filter(|given| (min..=max).contains(given)),
            Narrowing::Below => Some((given - 1).min(max)).filter(|value| *value >= min),
            Narrowing::AtMost => Some(given.min(max)).filter(|value| *value >= min),
            Narrowing::AtLeast => Some(given.max(min)).filter(|value| *value <= max),
            Narrowing::Above => Some((given + 1).max(min)).filter(|value| *value <= max),
        });
        match to {
            DataType::Int16 => Some(ScalarValue::Int16(wanted.map(|value| value as i16))),
            DataType::Int32 => Some(ScalarValue::Int32(wanted.map(|value| value as i32))),
            _ => Some(ScalarValue::Int64(wanted.map(|value| value as i64))),
        }
    }
}

fn bounds(of: &DataType) -> Option<(i128, i128)> {
    match of {
        DataType::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
        DataType::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
        DataType::Int64 => Some((i64::MIN.into(), i64::MAX.into())),
        _ => None,
    }
}

/// A condition of which only is asked where it is true, with parameters of its columns' types; `type_of` tells these.
pub(super) fn narrowed(condition: Expr, type_of: &dyn Fn(&Column) -> Option<DataType>) -> Expr {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::And | Operator::Or) => {
            let [left, right] = [left, right].map(|side| Box::new(narrowed(*side, type_of)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::BinaryExpr(comparison) => compared(&comparison, type_of).unwrap_or(Expr::BinaryExpr(comparison)),
        Expr::InList(list) => listed(&list, type_of).unwrap_or(Expr::InList(list)),
        Expr::ScalarFunction(call) => quantified(&call, type_of).unwrap_or(Expr::ScalarFunction(call)),
        other => other,
    }
}

fn compared(comparison: &BinaryExpr, type_of: &dyn Fn(&Column) -> Option<DataType>) -> Option<Expr> {
    let (left, right) = (&comparison.left, &comparison.right);
    if let (Expr::Column(column), Operator::Eq) = (&**left, comparison.op)
        && let Expr::Cast(_) = &**right
    {
        // The parameter is the one that is widened.
        let value = parameter(right, &type_of(column)?, Narrowing::Same)?;
        return Some(left.as_ref().clone().eq(value));
    }
    let (column, of, other, op) = match widened(left, type_of) {
        Some((column, of)) => (column, of, right, comparison.op),
        None => {
            let (column, of) = widened(right, type_of)?;
            (column, of, left, comparison.op.swap()?)
        }
    };
    let (op, narrowing) = match op {
        Operator::Eq => (Operator::Eq, Narrowing::Same),
        Operator::Lt => (Operator::LtEq, Narrowing::Below),
        Operator::LtEq => (Operator::LtEq, Narrowing::AtMost),
        Operator::Gt => (Operator::GtEq, Narrowing::Above),
        Operator::GtEq => (Operator::GtEq, Narrowing::AtLeast),
        _ => return None,
    };
    let value = parameter(other, &of, narrowing)?;
    Some(Expr::BinaryExpr(BinaryExpr {
        left: Box::new(column.clone()),
        op,
        right: Box::new(value),
    }))
}

/// `column IN ($1, $2)`.
fn listed(list: &InList, type_of: &dyn Fn(&Column) -> Option<DataType>) -> Option<Expr> {
    let (column, of) = widened(&list.expr, type_of)?;
    let items = list.list.iter().map(|item| match item {
        Expr::Literal(value, metadata) => Some(Expr::Literal(Narrowing::Same.of(value, &of)?, metadata.clone())),
        other => parameter(other, &of, Narrowing::Same),
    });
    Some(Expr::InList(InList {
        expr: Box::new(column.clone()),
        list: items.collect::<Option<_>>().filter(|_| !list.negated)?,
        negated: false,
    }))
}

/// `column = ANY ($1)`, which no item decides that no row can have, and `column <> ALL ($1)`.
fn quantified(function: &ScalarFunction, type_of: &dyn Fn(&Column) -> Option<DataType>) -> Option<Expr> {
    let [column, items] = &function.args[..] else {
        return None;
    };
    if !matches!(function.name(), "any_eq" | "all_ne") {
        return None;
    }
    let (column, of) = match column {
        Expr::Column(own) => (column, type_of(own)?),
        _ => widened(column, type_of)?,
    };
    let (items, cast) = match items {
        Expr::ScalarFunction(cast) if cast.name() == "cast_items" => (cast.args.first()?, true),
        other => (other, false),
    };
    let given = match items {
        Expr::Placeholder(Placeholder { field: Some(field), .. }) => field.data_type(),
        _ => return None,
    };
    let DataType::List(item) = given else { return None };
    // NULL differs from no item as long as there is one.
    let loses = bounds(item.data_type())?.1 > bounds(&of)?.1;
    if loses && (cast || function.name() == "all_ne") {
        return None;
    }
    let item = Arc::new(item.as_ref().clone().with_data_type(of));
    let items = parameter(items, &DataType::List(item), Narrowing::Same)?;
    Some(Expr::ScalarFunction(ScalarFunction {
        func: function.func.clone(),
        args: vec![column.clone(), items],
    }))
}

/// A column of an integer type below a cast to a wider one.
fn widened<'e>(expr: &'e Expr, type_of: &dyn Fn(&Column) -> Option<DataType>) -> Option<(&'e Expr, DataType)> {
    let Expr::Cast(Cast { expr, field }) = expr else {
        return None;
    };
    let Expr::Column(column) = &**expr else { return None };
    let of = type_of(column)?;
    let ((_, max), (_, wide_max)) = (bounds(&of)?, bounds(field.data_type())?);
    (max < wide_max).then_some((&**expr, of))
}

/// A parameter as one of this type.
fn parameter(expr: &Expr, of: &DataType, narrowing: Narrowing) -> Option<Expr> {
    let (expr, cast) = match expr {
        Expr::Cast(Cast { expr, field }) => (&**expr, Some(field)),
        other => (other, None),
    };
    let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr else {
        return None;
    };
    let is_integer = bounds(field.data_type()).is_some();
    if let Some(cast) = cast {
        // One to fewer values may fail.
        let ((_, max), (_, cast_max)) = (bounds(field.data_type())?, bounds(cast.data_type())?);
        (max <= cast_max).then_some(())?;
    }
    let is_list = matches!((field.data_type(), of), (DataType::List(_), DataType::List(_)));
    let index = id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
    let field: FieldRef = Arc::new(Field::new(field.name(), of.clone(), true));
    (is_integer || is_list).then(|| call(index, field, Some(narrowing)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Narrowing::*;

    #[test]
    fn values() {
        let narrow =
            |narrowing: Narrowing, value: i64| match narrowing.of(&ScalarValue::Int64(Some(value)), &DataType::Int32) {
                Some(ScalarValue::Int32(value)) => value,
                other => panic!("{other:?}"),
            };
        let (min, max) = (i64::from(i32::MIN), i64::from(i32::MAX));
        for value in [
            i64::MIN,
            min - 1,
            min,
            min + 1,
            -1,
            0,
            7,
            max - 1,
            max,
            max + 1,
            i64::MAX,
        ] {
            // Of each row that compares so with the value, the narrowed one must say the same.
            for row in [min, min + 1, -1, 0, 6, 7, 8, max - 1, max] {
                let row32 = row as i32;
                let is = |narrowed: Option<i32>, compare: fn(&i32, &i32) -> bool| {
                    narrowed.is_some_and(|narrowed| compare(&row32, &narrowed))
                };
                assert_eq!(is(narrow(Same, value), i32::eq), row == value, "{row} = {value}");
                assert_eq!(is(narrow(Below, value), i32::le), row < value, "{row} < {value}");
                assert_eq!(is(narrow(AtMost, value), i32::le), row <= value, "{row} <= {value}");
                assert_eq!(is(narrow(Above, value), i32::ge), row > value, "{row} > {value}");
                assert_eq!(is(narrow(AtLeast, value), i32::ge), row >= value, "{row} >= {value}");
            }
        }
        assert_eq!(
            Same.of(&ScalarValue::Int64(None), &DataType::Int16),
            Some(ScalarValue::Int16(None))
        );
    }
}
