//! `coalesce`, `greatest`, `least` and `nullif` of exact numbers, to which `numeric::unify` gives one type, and of dates and points
//! in time, to which `semantics::resolve` does.

use crate::pg::functions::datetime::{STAMP, STAMPTZ};
use crate::pg::numeric::Class;
use crate::pg::numeric::unify::differ;
use datafusion::arrow::datatypes::DataType;
use tenon_storage::types::NUMERIC;

/// The result's type where numerics of any precision are among the arguments, or would be. DataFusion casts no number to a
/// numeric: the arguments keep their types until `numeric::unify` comes to them.
pub(super) fn result_of(name: &str, types: &[DataType]) -> Option<DataType> {
    if let Some(of) = of_moments(name, types) {
        return Some(of);
    }
    let numeric = types.contains(&NUMERIC);
    let float = types.iter().any(DataType::is_floating);
    let known = |own: &DataType| {
        matches!(Class::of(own), Class::Null | Class::Text | Class::Float) || Class::of(own).is_exact()
    };
    if !(differ(types) || numeric && types.iter().all(known)) {
        return None;
    }
    Some(match name {
        "nullif" => match Class::of(&types[0]) {
            // No operator compares an integer with a numeric.
            Class::Integer => NUMERIC,
            _ => types[0].clone(),
        },
        _ if types.contains(&DataType::Float64) => DataType::Float64,
        _ if float => DataType::Float32,
        _ => NUMERIC,
    })
}

/// Beside a point in time dates and timestamps are such; NULLIF gives what comes first as it is.
fn of_moments(name: &str, types: &[DataType]) -> Option<DataType> {
    let is_other = |own: &DataType| *own == DataType::Date32 || *own == STAMP;
    let mixed = types.iter().any(is_other) && types.contains(&STAMPTZ);
    let known =
        |own: &DataType| is_other(own) || *own == *STAMPTZ || matches!(Class::of(own), Class::Null | Class::Text);
    let first = types
        .first()
        .filter(|first| name == "nullif" && (is_other(first) || **first == *STAMPTZ));
    match (mixed && types.iter().all(known), first) {
        (_, Some(first)) => types.iter().all(known).then(|| first.clone()),
        (true, None) => Some(STAMPTZ.clone()),
        (false, None) => None,
    }
}
