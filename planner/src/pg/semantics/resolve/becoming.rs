//! Values that become such of another type beside one of it, to which DataFusion has no cast, or another one: networks beside
//! addresses, dates and timestamps beside points in time, dates beside timestamps, times beside those with a zone.

use super::neighbours::type_of_two;
use super::{Group, group, known};
use crate::pg::functions::datetime::{STAMP, STAMPTZ};
use crate::pg::functions::network::converted;
use crate::pg::semantics::times;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, lit, when};
use tenon_storage::SqlType;
use tenon_storage::network::CIDR;

/// Whether a value of a type becomes one of another that it stands with: DataFusion has no cast between these, or another one.
pub(super) fn becomes(own: SqlType, wanted: SqlType) -> bool {
    match wanted {
        SqlType::Inet => own == SqlType::Cidr,
        // DataFusion goes through nanoseconds, which hold few years.
        SqlType::Timestamp => own == SqlType::Date,
        SqlType::TimestampTz => matches!(own, SqlType::Date | SqlType::Timestamp),
        SqlType::TimeTz => own == SqlType::Time,
        _ => false,
    }
}

/// The value then: a date or timestamp by the session's zone.
pub(super) fn become_of(expr: Expr, own: SqlType, wanted: SqlType) -> Expr {
    match (own, wanted) {
        (SqlType::Cidr, _) => converted(expr, &CIDR),
        (_, wanted) => times::convert(expr, &wanted.data_type()),
    }
}

/// Dates and timestamps beside points in time become such, and dates beside timestamps these.
pub(crate) fn to_one_moment(exprs: &mut [Expr], types: &[DataType]) {
    let Some(wanted) = [&*STAMPTZ, &STAMP].into_iter().find(|of| types.contains(of)) else {
        return;
    };
    for (expr, own) in exprs.iter_mut().zip(types) {
        if (*own == DataType::Date32 || *own == STAMP) && own != wanted {
            *expr = times::convert(std::mem::take(expr), wanted);
        }
    }
}

/// NULLIF of dates and times of different types, which compares them as `=` does and gives the first as it is.
pub(super) fn nullif_of_moments(args: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let [first, second] = args else { return Ok(None) };
    let (Some(own), Some(other)) = (known(first, schema), known(second, schema)) else {
        return Ok(None);
    };
    let points = matches!(group(own), Group::Moment | Group::Time);
    let Some(wanted) = type_of_two(own, other).filter(|_| own != other && points) else {
        return Ok(None);
    };
    let side = |expr: &Expr, own: SqlType| match own == wanted {
        true => expr.clone(),
        false => times::convert(expr.clone(), &wanted.data_type()),
    };
    let equal = side(first, own).eq(side(second, other));
    // Times of the two types have no `=` of their own: what is compared is what there is.
    let (given, of) = match group(own) {
        Group::Time => (side(first, own), wanted),
        _ => (first.clone(), own),
    };
    let null = lit(ScalarValue::try_from(&of.data_type())?);
    when(equal, null).otherwise(given).map(Some)
}

/// Whether a window function gives another value where its frame has no row.
pub(super) fn has_default(call: &WindowFunction) -> bool {
    matches!(call.fun.name(), "lag" | "lead") && call.params.args.len() == 3
}

/// That value becomes such as the others are.
pub(super) fn with_default(mut call: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let [value, _, default] = call.params.args.as_mut_slice()
        && let (Some(own), Some(wanted)) = (known(default, schema), known(value, schema))
        && becomes(own, wanted)
    {
        *default = become_of(std::mem::take(default), own, wanted);
        changed = true;
    }
    Transformed::new_transformed(Expr::WindowFunction(call), changed)
}
