//! A sort key's values as 64-bit integers in its order, to be sorted by themselves: without a call for each comparison.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::SortColumn;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::Result;
use tenon_executor::keys::{append_integer_keys, is_integer_key};

/// For each row a code: equal where Arrow compares the values as equal, less where it puts a value first. None for types
/// that have no such codes, and where there are NULLs.
pub(super) fn codes(key: &SortColumn) -> Result<Option<Vec<u64>>> {
    let values = &key.values;
    if values.null_count() > 0 {
        return Ok(None);
    }
    let mut codes: Vec<u64> = match values.data_type() {
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>().values().iter();
            floats.map(|&float| of_bits(f64::from(float).to_bits())).collect()
        }
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>().values().iter();
            floats.map(|&float| of_bits(float.to_bits())).collect()
        }
        of if is_integer_key(of) => {
            let mut integers = Vec::with_capacity(values.len());
            append_integer_keys(values.as_ref(), &mut integers)?;
            integers.into_iter().map(|integer| integer as u64 ^ 1 << 63).collect()
        }
        _ => return Ok(None),
    };
    if key.options.is_some_and(|options| options.descending) {
        codes.iter_mut().for_each(|code| *code = !*code);
    }
    Ok(Some(codes))
}

/// In the total order of IEEE 754.
fn of_bits(bits: u64) -> u64 {
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{
        ArrayRef, Date32Array, Float32Array, Float64Array, Int16Array, Int64Array, make_comparator,
    };
    use datafusion::arrow::compute::SortOptions;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::sync::Arc;

    fn columns(rng: &mut StdRng) -> [ArrayRef; 5] {
        let edges = [
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            f64::MAX,
        ];
        let floats: Vec<f64> = (0..50)
            .map(|row| match row % 3 {
                0 => edges[rng.random_range(0..edges.len())],
                1 => rng.random_range(-3..3).into(),
                _ => f64::from_bits(rng.random()),
            })
            .collect();
        let integers: Vec<i64> = (0..50)
            .map(|row| match row % 3 {
                0 => [i64::MIN, -1, 0, 1, i64::MAX][rng.random_range(0..5)],
                1 => rng.random_range(-3..3),
                _ => rng.random(),
            })
            .collect();
        [
            Arc::new(Float32Array::from_iter_values(floats.iter().map(|float| *float as f32))),
            Arc::new(Float64Array::from(floats)),
            Arc::new(Int16Array::from_iter_values(
                integers.iter().map(|integer| *integer as i16),
            )),
            Arc::new(Date32Array::from_iter_values(
                integers.iter().map(|integer| *integer as i32),
            )),
            Arc::new(Int64Array::from(integers)),
        ]
    }

    #[test]
    fn codes_are_in_the_order_of_values() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..50 {
            for values in columns(&mut rng) {
                let options = SortOptions::new(rng.random(), rng.random());
                let compare = make_comparator(&values, &values, options).unwrap();
                let rows = values.len();
                let key = SortColumn {
                    values: Arc::clone(&values),
                    options: Some(options),
                };
                let codes = codes(&key).unwrap().unwrap();
                for (a, b) in (0..rows).flat_map(|a| (0..rows).map(move |b| (a, b))) {
                    let told = format!("{values:?}: rows {a} and {b}, {options:?}, seed {seed}");
                    assert_eq!(codes[a].cmp(&codes[b]), compare(a, b), "{told}");
                }
            }
        }
    }
}
