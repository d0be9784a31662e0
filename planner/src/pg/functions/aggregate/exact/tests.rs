//! Random groups, gathered in parts and merged, against the sums in numerics.

use super::super::moments;
use super::*;
use datafusion::arrow::array::{Int16Array, Int32Array, Int64Array};
use rand::prelude::*;

const KINDS: [Kind; 4] = [
    Kind::Variance { sample: true },
    Kind::Variance { sample: false },
    Kind::Deviation { sample: true },
    Kind::Deviation { sample: false },
];

fn column(rng: &mut StdRng, rows: usize) -> (ArrayRef, i8) {
    let bits = rng.random_range(0..63);
    let which = rng.random_range(0..4);
    let mut value = |least: i128, most: i128| match rng.random_range(0..20) {
        0 => None,
        1 => Some(least),
        2 => Some(most),
        3 => Some(0),
        _ => Some((i128::from(rng.random::<i64>()) >> bits).clamp(least, most)),
    };
    let mut values = |least, most| -> Vec<Option<i128>> { (0..rows).map(|_| value(least, most)).collect() };
    macro_rules! integers {
        ($array:ty, $native:ty) => {{
            let values = values(<$native>::MIN.into(), <$native>::MAX.into()).into_iter();
            (
                Arc::new(
                    values
                        .map(|value| value.map(|value| value as $native))
                        .collect::<$array>(),
                ) as ArrayRef,
                0,
            )
        }};
    }
    match which {
        0 => integers!(Int16Array, i16),
        1 => integers!(Int32Array, i32),
        2 => integers!(Int64Array, i64),
        _ => {
            let most = 10_i128.pow(PRECISION_MAX.into()) - 1;
            let values: Decimal128Array = values(-most, most).into_iter().collect();
            let values = values.with_precision_and_scale(PRECISION_MAX, 4).unwrap();
            (Arc::new(values), 4)
        }
    }
}

#[test]
fn as_in_numerics() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..400 {
        let (rows, total) = (rng.random_range(0..200), rng.random_range(1..20));
        let (values, scale) = column(&mut rng, rows);
        assert_eq!(scale_of(values.data_type()), Some(scale));
        let groups: Vec<usize> = (0..rows).map(|_| rng.random_range(0..total)).collect();
        let filter: BooleanArray = (0..rows)
            .map(|_| [Some(true), Some(false), None][rng.random_range(0..3)])
            .collect();
        let filter = rng.random::<bool>().then_some(&filter);
        let kind = KINDS[round % KINDS.len()];
        let mut plain = moments::groups(kind);
        plain
            .update_batch(std::slice::from_ref(&values), &groups, filter, total)
            .unwrap();
        let plain = plain.evaluate(EmitTo::All).unwrap();
        // In two parts, one of them row by row.
        let own = || Box::new(Groups::new(kind, scale));
        let (mut merged, mut part) = (own(), own());
        let at = rng.random_range(0..=rows);
        let slice = |from: usize, to: usize| {
            let filter = filter.map(|filter| filter.slice(from, to - from));
            ([values.slice(from, to - from)], groups[from..to].to_vec(), filter)
        };
        let (first, numbers, kept) = slice(0, at);
        part.update_batch(&first, &numbers, kept.as_ref(), total).unwrap();
        let all: Vec<usize> = (0..total).collect();
        merged
            .merge_batch(&part.state(EmitTo::All).unwrap(), &all, total)
            .unwrap();
        let (second, numbers, kept) = slice(at, rows);
        let states = own().convert_to_state(&second, kept.as_ref()).unwrap();
        merged.merge_batch(&states, &numbers, total).unwrap();
        assert_eq!(
            &merged.evaluate(EmitTo::All).unwrap(),
            &plain,
            "seed {seed}, round {round}"
        );
    }
}

#[test]
fn windows_take_values_back() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..400 {
        let rows = rng.random_range(1..60);
        let (values, scale) = column(&mut rng, rows);
        let kind = KINDS[round % KINDS.len()];
        let mut moving = One::new(kind, scale);
        moving.update_batch(std::slice::from_ref(&values)).unwrap();
        let left = rng.random_range(0..rows);
        moving.retract_batch(&[values.slice(0, left)]).unwrap();
        let mut fresh = moments::groups(kind);
        let rest = values.slice(left, rows - left);
        fresh.update_batch(&[rest], &vec![0; rows - left], None, 1).unwrap();
        let fresh = ScalarValue::try_from_array(&fresh.evaluate(EmitTo::All).unwrap(), 0).unwrap();
        assert_eq!(moving.evaluate().unwrap(), fresh, "seed {seed}, round {round}");
    }
}
