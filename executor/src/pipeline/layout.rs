//! Where a fragment's arrays lie: those that are never needed at the same time share memory.

use super::fragment::{ArraySpec, Fragment, Input, Step};

/// Smaller arrays have memory of their own.
const SHARED_BYTES_MIN: u64 = 1 << 20;

/// Memory, and which of it each array has.
#[derive(Default)]
pub struct Layout {
    /// Bytes of each piece of memory.
    pub slots: Vec<u64>,
    /// The slot of each array.
    pub slot_of: Vec<usize>,
    /// Arrays that are set before the first step.
    pub set_first: Vec<usize>,
    /// Before each step, arrays that are to be set because others had their memory, or earlier passes.
    pub set_before: Vec<Vec<usize>>,
}

impl Layout {
    pub fn of(fragment: &Fragment) -> Self {
        let passes = fragment.in_passes();
        let lives = lives(fragment).into_iter().zip(&fragment.arrays);
        // What passes share is needed from the first to the last.
        let lives = lives.map(
            |((first, last), array)| match first < passes.end && last >= passes.start {
                true if !array.in_pass => (first.min(passes.start), last.max(passes.end.saturating_sub(1))),
                _ => (first, last),
            },
        );
        Self::within(&fragment.arrays, &lives.collect::<Vec<_>>(), fragment.steps.len())
    }

    /// Of arrays with the first and the last step that needs each.
    fn within(arrays: &[ArraySpec], lives: &[(usize, usize)], steps: usize) -> Self {
        let mut layout = Self {
            slots: vec![],
            slot_of: vec![0; arrays.len()],
            set_first: vec![],
            set_before: vec![vec![]; steps],
        };
        // After which step each slot is free; None: never.
        let mut free_after: Vec<Option<usize>> = vec![];
        let mut order: Vec<usize> = (0..arrays.len()).collect();
        order.sort_by_key(|&array| lives[array].0);
        for array in order {
            let (spec, (first, last)) = (&arrays[array], lives[array]);
            // Elements of any width fit in.
            let bytes = spec.bytes.next_multiple_of(size_of::<i128>() as u64);
            let shared = bytes >= SHARED_BYTES_MIN;
            let free =
                (0..layout.slots.len()).filter(|&slot| shared && free_after[slot].is_some_and(|end| end < first));
            // The smallest that is large enough, else the largest, which grows.
            let fits = |slot: usize| match layout.slots[slot] >= bytes {
                true => (0, layout.slots[slot]),
                false => (1, u64::MAX - layout.slots[slot]),
            };
            let slot = match free.min_by_key(|&slot| fits(slot)) {
                Some(slot) => {
                    layout.slots[slot] = layout.slots[slot].max(bytes);
                    slot
                }
                None => {
                    layout.slots.push(bytes);
                    free_after.push(None);
                    layout.slots.len() - 1
                }
            };
            let taken = free_after[slot].is_some();
            match spec.fill {
                Some(_) if taken || spec.in_pass => layout.set_before[first].push(array),
                Some(_) => layout.set_first.push(array),
                None => {}
            }
            free_after[slot] = shared.then_some(last);
            layout.slot_of[array] = slot;
        }
        layout
    }
}

/// The first and the last step that needs each array: what the host reads is needed until after the last, and what nothing
/// needs is there all the time.
fn lives(fragment: &Fragment) -> Vec<(usize, usize)> {
    let end = fragment.steps.len();
    let mut lives = vec![None; fragment.arrays.len()];
    let mut needs = |at: usize, array: usize| {
        let own: &mut Option<(usize, usize)> = &mut lives[array];
        *own = Some(own.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
    };
    for (at, step) in fragment.steps.iter().enumerate() {
        match step {
            Step::Pipeline(own) => {
                for input in &own.inputs {
                    if let Input::Array(array) = input {
                        needs(at, *array);
                    }
                }
            }
            Step::Order(own) => {
                own.words.iter().for_each(|(array, _)| needs(at, *array));
                let kept = own.kept.iter().map(|(_, words)| *words);
                let own = [own.count, own.order].into_iter();
                own.chain(kept).for_each(|array| needs(at, array));
            }
            Step::Sums(own) => [own.count, own.from, own.to]
                .into_iter()
                .for_each(|array| needs(at, array)),
        }
    }
    let read = fragment.results.iter().map(|(array, _)| *array);
    let counts = fragment.tables.iter().map(|(count, _)| *count);
    let texts = fragment.texts_in.iter().copied();
    read.chain(counts).chain(texts).for_each(|array| needs(end, array));
    let life = |life: Option<(usize, usize)>| life.filter(|(first, _)| *first < end).unwrap_or((0, end));
    lives.into_iter().map(life).collect()
}

#[cfg(test)]
mod tests {
    use rand::prelude::*;

    use super::super::fragment::ArraySpec;
    use super::Layout;

    const MIB: u64 = 1 << 20;

    fn array(mib: u64, fill: Option<u8>) -> ArraySpec {
        ArraySpec {
            bytes: mib * MIB,
            fill,
            in_pass: false,
        }
    }

    #[test]
    fn arrays_of_different_times_share_memory() {
        let arrays = [array(8, None), array(4, Some(0)), array(6, Some(0)), array(9, None)];
        let layout = Layout::within(&arrays, &[(0, 1), (1, 3), (2, 2), (3, 3)], 4);
        assert_eq!(
            layout.slots,
            [9 * MIB, 4 * MIB],
            "the first one's is taken twice, and grows"
        );
        assert_eq!(layout.slot_of, [0, 1, 0, 0]);
        assert_eq!(layout.set_before, [vec![], vec![], vec![2], vec![]]);
        assert_eq!(layout.set_first, [1]);
    }

    #[test]
    fn what_is_needed_at_once_lies_apart() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..200 {
            let steps = random.random_range(1..9);
            let count = random.random_range(0..12);
            let arrays: Vec<_> = (0..count).map(|_| array(random.random_range(0..5), None)).collect();
            let lives: Vec<(usize, usize)> = (0..count)
                .map(|_| {
                    let first = random.random_range(0..steps);
                    (first, random.random_range(first..steps + 1))
                })
                .collect();
            let layout = Layout::within(&arrays, &lives, steps);
            for a in 0..count {
                assert!(layout.slots[layout.slot_of[a]] >= arrays[a].bytes);
                for b in 0..a {
                    let meet = lives[a].0 <= lives[b].1 && lives[b].0 <= lives[a].1;
                    assert!(
                        !meet || layout.slot_of[a] != layout.slot_of[b],
                        "{a} and {b} of {lives:?}"
                    );
                }
            }
        }
    }
}
