//! A stable sort that can be stopped: it looks up from its work from time to time.

use crate::pg::bounds;
use datafusion::common::Result;
use std::cmp::Ordering;

/// What is sorted, or merged, between two looks.
const PIECE: usize = 1 << 14;

/// Sorts pieces, then merges neighbours until there is one.
pub(super) fn sort_by<T: Copy>(positions: &mut [T], compare: impl Fn(T, T) -> Ordering) -> Result<()> {
    for piece in positions.chunks_mut(PIECE) {
        bounds::look()?;
        piece.sort_by(|a, b| compare(*a, *b));
    }
    let mut first = Vec::new();
    let mut width = PIECE;
    while width < positions.len() {
        for both in positions.chunks_mut(2 * width).filter(|both| both.len() > width) {
            merge(both, width, &mut first, &compare)?;
        }
        width *= 2;
    }
    Ok(())
}

/// Merges what lies before `middle` with the rest. `first` is room for the one.
fn merge<T: Copy>(both: &mut [T], middle: usize, first: &mut Vec<T>, compare: impl Fn(T, T) -> Ordering) -> Result<()> {
    if compare(both[middle - 1], both[middle]).is_le() {
        return Ok(());
    }
    first.clear();
    first.extend_from_slice(&both[..middle]);
    let (mut left, mut right) = (0, middle);
    // What is written never passes what is still to be read of the second part.
    for at in 0..both.len() {
        if at % PIECE == 0 {
            bounds::look()?;
        }
        if left == first.len() {
            break;
        }
        both[at] = match right < both.len() && compare(both[right], first[left]).is_lt() {
            true => {
                right += 1;
                both[right - 1]
            }
            false => {
                left += 1;
                first[left - 1]
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn sorts_as_the_standard_library_does() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for rows in [0, 1, 2, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
            let values: Vec<u32> = (0..rows).map(|_| random.random_range(0..1 + rows as u32 / 8)).collect();
            let compare = |a: u32, b: u32| values[a as usize].cmp(&values[b as usize]);
            let mut expected: Vec<u32> = (0..rows as u32).collect();
            let mut found = expected.clone();
            expected.sort_by(|a, b| compare(*a, *b));
            sort_by(&mut found, compare).unwrap();
            assert!(found == expected, "{rows} rows, seed {seed}");
        }
    }
}
