//! Random rows through partial and final accumulators, against sorted vectors.

use super::groups::{Groups, Outcome};
use super::rows::Order;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;

const DELIMITER: &str = "; ";

#[derive(Clone)]
struct Row {
    group: usize,
    text: Option<String>,
    key: Option<i64>,
    admitted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    ordered: bool,
    distinct: bool,
    text: bool,
    descending: bool,
}

impl Case {
    fn options(self) -> SortOptions {
        SortOptions::new(self.descending, self.descending)
    }

    fn types(self) -> Vec<DataType> {
        match self.ordered && !self.distinct {
            true => vec![DataType::Utf8View, DataType::Int64],
            false => vec![DataType::Utf8View],
        }
    }

    fn accumulator(self) -> Groups {
        let types = self.types();
        let arguments = (0..types.len()).collect();
        let keys = match self.ordered || self.distinct {
            true => vec![self.options()],
            false => vec![],
        };
        let order = Order {
            keys,
            distinct: self.distinct,
        };
        let outcome = match self.text {
            true => Outcome::Text {
                delimiter: DELIMITER.into(),
            },
            false => Outcome::List,
        };
        Groups::new(types, arguments, order, outcome, self.text)
    }

    /// The values of one group; those that are in no order by SQL are sorted too.
    fn expected(self, rows: &[Row], group: usize) -> Vec<Option<String>> {
        let admitted = |row: &&Row| row.group == group && row.admitted && (row.text.is_some() || !self.text);
        let mut rows: Vec<Row> = rows.iter().filter(admitted).cloned().collect();
        let nulls_last = |null: bool| null != self.descending;
        let towards = |ordering: std::cmp::Ordering| if self.descending { ordering.reverse() } else { ordering };
        if self.distinct {
            rows.sort_by(|a, b| {
                let nulls = nulls_last(a.text.is_none()).cmp(&nulls_last(b.text.is_none()));
                nulls.then(towards(a.text.cmp(&b.text)))
            });
            rows.dedup_by(|a, b| a.text == b.text);
        } else if self.ordered {
            rows.sort_by(|a, b| {
                let nulls = nulls_last(a.key.is_none()).cmp(&nulls_last(b.key.is_none()));
                nulls.then(towards(a.key.cmp(&b.key)))
            });
        }
        rows.into_iter().map(|row| row.text).collect()
    }
}

fn random_rows(rng: &mut StdRng, groups: usize) -> Vec<Row> {
    let row = |rng: &mut StdRng| Row {
        group: rng.random_range(0..groups),
        text: rng.random_bool(0.8).then(|| {
            let long = if rng.random_bool(0.5) {
                "a string that no view holds inline "
            } else {
                ""
            };
            format!("{long}{}", rng.random_range(0..30))
        }),
        key: rng.random_bool(0.8).then(|| rng.random_range(0..1000)),
        admitted: rng.random_bool(0.7),
    };
    let rows = rng.random_range(0..400);
    // A key names one row only: else the order among equals would be anyone's.
    let mut rows: Vec<Row> = (0..rows).map(|_| row(rng)).collect();
    let mut used = std::collections::HashSet::new();
    rows.retain(|row| used.insert((row.group, row.key)));
    rows
}

fn columns(rows: &[Row]) -> (Vec<ArrayRef>, Vec<usize>, BooleanArray) {
    let texts: StringViewArray = rows.iter().map(|row| row.text.as_deref()).collect();
    let keys: Int64Array = rows.iter().map(|row| row.key).collect();
    let admitted = rows.iter().map(|row| Some(row.admitted)).collect();
    (
        vec![Arc::new(texts), Arc::new(keys)],
        rows.iter().map(|row| row.group).collect(),
        admitted,
    )
}

/// The groups' values: lists, or texts taken apart again.
fn values(result: &ArrayRef, text: bool) -> Vec<Vec<Option<String>>> {
    let own = |value: Option<&str>| value.map(String::from);
    let group = |at: usize| match (result.is_valid(at), text) {
        (false, _) => vec![],
        (true, true) => result
            .as_string::<i64>()
            .value(at)
            .split(DELIMITER)
            .map(|v| own(Some(v)))
            .collect(),
        (true, false) => result
            .as_list::<i32>()
            .value(at)
            .as_string_view()
            .iter()
            .map(own)
            .collect(),
    };
    (0..result.len()).map(group).collect()
}

#[test]
fn agrees_with_sorted_vectors() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..300 {
        let case = Case {
            ordered: rng.random(),
            distinct: rng.random(),
            text: rng.random(),
            descending: rng.random(),
        };
        let groups = rng.random_range(1..10);
        let parts: Vec<Vec<Row>> = (0..rng.random_range(1..4))
            .map(|_| random_rows(&mut rng, groups))
            .collect();
        let mut last = case.accumulator();
        for part in &parts {
            let mut first = case.accumulator();
            for piece in part.chunks(rng.random_range(1..200)) {
                let (columns, numbers, admitted) = columns(piece);
                match rng.random_bool(0.2) {
                    true => {
                        let state = first.convert_to_state(&columns, Some(&admitted)).unwrap();
                        last.merge_batch(&state, &numbers, groups).unwrap();
                    }
                    false => first.update_batch(&columns, &numbers, Some(&admitted), groups).unwrap(),
                }
            }
            first.update_batch(&columns(&[]).0, &[], None, groups).unwrap();
            let numbers: Vec<usize> = (0..groups).collect();
            // The first groups may be handed over before the others.
            let early = rng.random_range(0..groups);
            for (emit_to, numbers) in [
                (EmitTo::First(early), &numbers[..early]),
                (EmitTo::All, &numbers[early..]),
            ] {
                let state = first.state(emit_to).unwrap();
                assert_eq!(state[0].data_type(), &super::groups::state_type(&case.types()));
                last.merge_batch(&state, numbers, groups).unwrap();
            }
            assert!(first.state(EmitTo::All).unwrap()[0].is_empty());
        }
        let all: Vec<Row> = parts.concat();
        let early = rng.random_range(0..=groups);
        let mut found = values(&last.evaluate(EmitTo::First(early)).unwrap(), case.text);
        found.extend(values(&last.evaluate(EmitTo::All).unwrap(), case.text));
        assert_eq!(found.len(), groups, "seed {seed}");
        for (group, mut found) in found.into_iter().enumerate() {
            let mut expected = case.expected(&all, group);
            if !case.distinct && (!case.ordered || parts.len() > 1) {
                // Keys repeat between the parts.
                expected.sort();
                found.sort();
            }
            assert_eq!(found, expected, "{case:?}, seed {seed}");
        }
    }
}

#[test]
fn distinct_keeps_only_what_differs() {
    let case = Case {
        ordered: false,
        distinct: true,
        text: false,
        descending: false,
    };
    let mut accumulator = case.accumulator();
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..10_000).map(|row| format!("{:050}", row % 100)),
    ));
    for _ in 0..50 {
        let groups: Vec<usize> = (0..10_000).map(|row| row % 3).collect();
        accumulator
            .update_batch(std::slice::from_ref(&texts), &groups, None, 3)
            .unwrap();
    }
    assert!(accumulator.size() < 20 << 20, "{} bytes", accumulator.size());
    let lists = accumulator.evaluate(EmitTo::All).unwrap();
    assert!((0..3).all(|group| lists.as_list::<i32>().value(group).len() == 100));
}

#[test]
fn numbers_are_lists_too() {
    let order = Order {
        keys: vec![],
        distinct: false,
    };
    let mut accumulator = Groups::new(vec![DataType::Int64], vec![0], order, Outcome::List, false);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    // A slice, of which few rows count.
    let admitted: BooleanArray = (0..100).map(|row| Some(row % 10 == 0)).collect();
    let groups = vec![0; 100];
    accumulator
        .update_batch(&[numbers.slice(500, 100)], &groups, Some(&admitted), 1)
        .unwrap();
    let list = accumulator.evaluate(EmitTo::All).unwrap();
    let list = list.as_list::<i32>().value(0);
    let expected: Vec<i64> = (500..600).step_by(10).collect();
    assert_eq!(list.as_primitive::<Int64Type>().values(), &expected[..]);
}
