//! `coalesce`, `greatest`, `least` and `nullif` of exact numbers, to which `numeric::unify` gives one type.

use crate::pg::numeric::Class;
use crate::pg::numeric::unify::differ;
use datafusion::arrow::datatypes::DataType;
use tenon_storage::types::NUMERIC;

/// The result's type where numerics of any precision are among the arguments, or would be. DataFusion casts no number to a
/// numeric: the arguments keep their types until `numeric::unify` comes to them.
pub(super) fn result_of(name: &str, types: &[DataType]) -> Option<DataType> {
    let numeric = types.contains(&NUMERIC);
    let float = types.iter().any(DataType::is_floating);
    let known = |own: &DataType| {
        matches!(Class::of(own), Class::Null | Class::Text | Class::Float) || Class::of(own).is_exact()
    };
    if !(differ(types) || numeric && types.iter().all(known)) {
        return None;
    }
    Some(match name {
        "nullif" => types[0].clone(),
        _ if types.contains(&DataType::Float64) => DataType::Float64,
        _ if float => DataType::Float32,
        _ => NUMERIC,
    })
}
