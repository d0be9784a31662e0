//! The arguments of `json_object_agg(DISTINCT name, value)`, which are gathered as pairs.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::datatypes::{Field, FieldRef};
use std::sync::Arc;

/// One array of pairs as an array of the first of each and one of the second.
pub(super) fn apart(arrays: &[ArrayRef], fields: &[FieldRef]) -> Option<([ArrayRef; 2], [FieldRef; 2])> {
    let list = arrays.first().filter(|_| arrays.len() == 1)?.as_list_opt::<i32>()?;
    let pairs = list.values().as_struct_opt()?;
    let [first, second] = [0, 1].map(|at| {
        let item = pairs.fields()[at].clone();
        let column = pairs.column(at).clone();
        let one: ArrayRef = Arc::new(ListArray::new(
            item,
            list.offsets().clone(),
            column,
            list.nulls().cloned(),
        ));
        let field = Field::new(fields[0].name(), one.data_type().clone(), true);
        (one, Arc::new(field))
    });
    Some(([first.0, second.0], [first.1, second.1]))
}
