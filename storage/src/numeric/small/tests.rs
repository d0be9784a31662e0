//! Random numbers, of few and of many digits, by both ways.

use super::*;
use crate::numeric::Numeric;
use rand::prelude::*;

fn seeded() -> (u64, StdRng) {
    let seed = rand::random();
    println!("seed {seed}");
    (seed, StdRng::seed_from_u64(seed))
}

fn finite(rng: &mut StdRng) -> Finite {
    const EDGES: [i128; 8] = [0, 1, 5, 9_999, 10_000, i64::MAX as i128, i128::MAX, i128::MIN];
    let unscaled = match rng.random_range(0..10) {
        0 => EDGES[rng.random_range(0..EDGES.len())],
        1 => POWERS[rng.random_range(0..POWERS.len())],
        2 => 5 * POWERS[rng.random_range(0..38)],
        _ => rng.random::<i128>() >> rng.random_range(1..128),
    };
    let unscaled = if rng.random() {
        unscaled
    } else {
        unscaled.wrapping_neg()
    };
    let scale = match rng.random_range(0..10) {
        0 => SCALE_MAX - rng.random_range(0..3),
        1 => rng.random_range(0..200),
        2..5 => 0,
        _ => rng.random_range(0..20),
    };
    Finite::new(Int::Small(unscaled), scale)
}

fn same(fast: Option<Finite>, plain: impl FnOnce() -> Finite, told: &str) -> bool {
    let Some(fast) = fast else { return false };
    let plain = plain();
    assert_eq!(
        (fast.unscaled.big(), fast.scale),
        (plain.unscaled.big(), plain.scale),
        "{told}"
    );
    true
}

#[test]
fn arithmetic() {
    let (seed, mut rng) = seeded();
    let mut fast = [0; 4];
    for _ in 0..50_000 {
        let (a, b) = (finite(&mut rng), finite(&mut rng));
        let told = format!("seed {seed}: {a:?} and {b:?}");
        fast[0] += usize::from(same(add(&a, &b), || a.add(&b), &told));
        fast[1] += usize::from(same(sub(&a, &b), || a.sub(&b), &told));
        fast[2] += usize::from(same(mul(&a, &b), || a.mul(&b), &told));
        if !b.unscaled.is_zero() {
            fast[3] += usize::from(same(div(&a, &b), || a.quotient(&b), &told));
        }
    }
    assert!(fast.iter().all(|fast| *fast > 5_000), "{fast:?}");
}

#[test]
fn roots() {
    let (seed, mut rng) = seeded();
    let mut fast = 0;
    for round in 0..20_000_u32 {
        let mut value = finite(&mut rng);
        value.unscaled = value.unscaled.abs();
        value.scale = value.scale.min(40);
        if let (true, Int::Small(root)) = (round.is_multiple_of(3), &value.unscaled) {
            // Squares and their neighbours.
            let root = root >> 64;
            value.unscaled = Int::Small(root * root + i128::from(round % 5) - 2).abs();
        }
        let scale = rng.random_range(0..30);
        let told = format!("seed {seed}: {value:?} to {scale}");
        same(Some(value.sqrt_fast(scale)), || value.sqrt_to(scale), &told);
        if let Int::Small(unscaled) = value.unscaled {
            fast += usize::from(root(unscaled, rng.random_range(0..20)).is_some());
        }
    }
    assert!(fast > 5_000, "{fast}");
}

#[test]
fn bytes() {
    let (seed, mut rng) = seeded();
    let mut fast = 0;
    for _ in 0..50_000 {
        let value = finite(&mut rng);
        let told = format!("seed {seed}: {value:?}");
        let mut plain = vec![];
        value.write_any_key(&mut plain);
        let own = Numeric::from(value.clone()).to_bytes();
        let (key, _) = own.split_at(own.len() - 2);
        assert_eq!(key, plain, "{told}");
        fast += usize::from(write_digits(&value, &mut vec![]).is_some());
        let Numeric::Finite(back) = Numeric::from_bytes(&own) else {
            panic!("{told}");
        };
        same(Some(back), || value.clone(), &told);
        if let Some((weight, digits)) = value.base_10000() {
            let negative = value.unscaled.is_negative();
            // Cut as well as whole.
            let scale = rng.random_range(0..=value.scale);
            let digits = || digits.iter().copied();
            let plain = || Finite::of_any_digits(negative, weight, digits(), scale);
            same(of_digits(negative, weight, digits(), scale), plain, &told);
        }
    }
    assert!(fast > 20_000, "{fast}");
}
