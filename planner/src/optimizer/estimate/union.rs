//! UNION ALL: rows add up; of a column's values some are in several inputs.

use super::{ColumnProfile, Profile};

/// The profile of all rows of the inputs. No stored column is one of these, and no key of an input is a key.
pub(super) fn of_inputs(inputs: Vec<Profile>, width: usize) -> Profile {
    if let [only] = inputs.as_slice() {
        return only.clone();
    }
    let rows = inputs.iter().map(|input| input.rows).sum();
    let columns = (0..width).map(|at| {
        let columns: Vec<_> = inputs.iter().map(|input| input.columns.get(at)).collect();
        of_columns(&columns)
    });
    Profile {
        rows,
        columns: columns.collect(),
    }
}

fn of_columns(columns: &[Option<&ColumnProfile>]) -> ColumnProfile {
    // Where a column has no values, nothing is added to those of the others.
    let columns: Vec<_> = columns
        .iter()
        .filter(|column| column.is_none_or(|column| column.distinct != Some(0.0)))
        .collect();
    let all = |known: fn(&ColumnProfile) -> Option<f64>| {
        let known = columns.iter().map(|column| column.and_then(known));
        known.collect::<Option<Vec<f64>>>().filter(|known| !known.is_empty())
    };
    let (mins, maxs) = (all(|column| column.min), all(|column| column.max));
    let mut distinct = all(|column| column.distinct).map(|counts| in_common(&columns, &counts));
    // There are no more values than places between the bounds.
    let steps = all(|column| column.stored.as_ref().and_then(|stored| stored.step()));
    let bounds = (
        mins.map(|mins| mins.into_iter().fold(f64::INFINITY, f64::min)),
        maxs.map(|maxs| maxs.into_iter().fold(f64::NEG_INFINITY, f64::max)),
    );
    if let (Some(own), (Some(min), Some(max)), Some(steps)) = (&mut distinct, bounds, steps) {
        let step = steps.into_iter().fold(f64::INFINITY, f64::min);
        *own = own.min((max - min) / step + 1.0);
    }
    ColumnProfile {
        distinct,
        min: bounds.0,
        max: bounds.1,
        base_rows: all(|column| column.base_rows).map(|rows| rows.iter().sum()),
        together: None,
        stored: None,
    }
}

/// How many values the inputs have together. Keys that tell the rows of their table apart, constants, and numbers, are
/// others in each input as far as there is room for them, which the caller looks at; names of things are the same.
fn in_common(columns: &[&Option<&ColumnProfile>], counts: &[f64]) -> f64 {
    let are_others = columns.iter().zip(counts).all(|(column, count)| {
        column.is_some_and(|column| {
            let unique = column.base_rows.is_some_and(|rows| *count > 0.9 * rows);
            unique || *count <= 1.0 || column.min.is_some()
        })
    });
    match are_others {
        true => counts.iter().sum(),
        false => counts.iter().copied().fold(1.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(rows: f64, distinct: f64, bounds: Option<(f64, f64)>) -> Profile {
        Profile {
            rows,
            columns: vec![ColumnProfile {
                distinct: Some(distinct),
                min: bounds.map(|(min, _)| min),
                max: bounds.map(|(_, max)| max),
                base_rows: Some(rows),
                together: None,
                stored: None,
            }],
        }
    }

    #[test]
    fn rows_add_up_and_values_may_be_the_same() {
        let both = of_inputs(vec![input(1000.0, 12.0, None), input(200.0, 10.0, None)], 1);
        assert_eq!((both.rows, both.columns[0].distinct), (1200.0, Some(12.0)));
        assert_eq!(both.columns[0].base_rows, Some(1200.0));
    }

    #[test]
    fn ranges_are_the_hull_of_the_inputs() {
        let parts = vec![
            input(1000.0, 1000.0, Some((1.0, 1000.0))),
            input(500.0, 500.0, Some((1001.0, 1500.0))),
        ];
        let both = &of_inputs(parts, 1).columns[0];
        assert_eq!((both.min, both.max), (Some(1.0), Some(1500.0)));
        assert_eq!(both.distinct, Some(1500.0));
    }

    #[test]
    fn an_input_without_values_says_nothing() {
        let nulls = Profile {
            rows: 100.0,
            columns: vec![ColumnProfile {
                distinct: Some(0.0),
                ..Default::default()
            }],
        };
        let both = &of_inputs(vec![input(1000.0, 1000.0, Some((1.0, 1000.0))), nulls], 1).columns[0];
        assert_eq!((both.min, both.distinct), (Some(1.0), Some(1000.0)));
        let unknown = Profile {
            rows: 100.0,
            columns: vec![ColumnProfile::default()],
        };
        let both = &of_inputs(vec![input(1000.0, 1000.0, None), unknown], 1).columns[0];
        assert_eq!(both.distinct, None);
    }
}
