//! PostgreSQL's functions and operators on arrays.
//!
//! An array of several dimensions is a list of lists. `lists` sees it as PostgreSQL does: the sizes of its dimensions and
//! its items in one row.
//!
//! - `poly`: functions over `anyarray` and its elements, and how their arguments get one type;
//! - `construct`: `ARRAY[...]`, `array_fill`; `build`: arrays made of other arrays; `subscript`: `a[1]`, `a[2:3]`;
//! - `measure`: sizes and bounds; `search`: positions, `@>`, `&&`; `compare`: `<`, `=` and their kin;
//! - `quantified`: `x < ANY (array)`; `blanks`: items of `char(n)`; `text`: `array_to_string`, `string_to_array`; `subquery`: `ARRAY(SELECT ...)`.

mod assign;
mod blanks;
mod build;
mod cast;
mod compare;
mod construct;
mod even;
mod lists;
mod measure;
mod poly;
mod quantified;
mod search;
mod subquery;
mod subscript;
mod text;

pub(crate) use assign::{ASSIGN, ASSIGN_SLICE, NO_LOWER, NO_UPPER};
pub(crate) use blanks::{bare_items, padded_items};
pub(crate) use cast::cast_items;
pub(crate) use compare::{extreme as extreme_of_arrays, operator as comparison};
pub(crate) use construct::FILL;
pub(super) use construct::in_arrays;
pub(crate) use construct::{array_of_records, constructor};
pub(crate) use even::EVEN;
pub(crate) use poly::{type_name, unified, unifies};
pub(crate) use quantified::{listed, name as quantified};
pub(crate) use search::{contains, overlaps};
pub(crate) use subquery::OR_EMPTY;
pub(crate) use subscript::{SLICE, SUBSCRIPT};

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

/// The type of an array's items, below all its dimensions, and how many these are; 0 for what is no array.
pub(crate) fn leaf(data_type: &DataType) -> (&DataType, usize) {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let (leaf, depth) = leaf(item.data_type());
            (leaf, depth + 1)
        }
        other => (other, 0),
    }
}

/// Functions that return sets: as ones that return arrays of their rows.
pub(super) fn sets() -> Vec<ScalarUDF> {
    vec![text::table()]
}

/// A function by its name.
pub(super) fn function(name: &str) -> Arc<ScalarUDF> {
    static BUILD: LazyLock<Vec<Arc<ScalarUDF>>> =
        LazyLock::new(|| build::functions().into_iter().map(Arc::new).collect());
    let found = BUILD.iter().find(|function| function.name() == name);
    found.unwrap_or(&BUILD[0]).clone()
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut all = vec![subquery::OrEmpty::udf(), construct::fill(), even::function()];
    all.extend(assign::functions());
    all.extend(build::functions());
    all.extend(measure::functions());
    all.extend(search::functions());
    all.extend(compare::functions());
    all.extend(quantified::functions());
    all.extend(subscript::functions());
    all.extend(text::functions());
    all
}
