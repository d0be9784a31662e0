//! Where the probe side is cut.

use std::ops::Range;

/// The first and the last chunk are this part of a whole one.
const ENDS: u64 = 8;

/// Cuts `rows` rows into chunks of at most `chunk_rows`. Sizes double from the first chunk on, and halve again to the
/// last one: until the first chunk is joined nothing leaves, and while the last one's rows leave nothing arrives.
pub(super) fn chunks(rows: u64, chunk_rows: u64) -> Vec<Range<u64>> {
    let (most, least) = (chunk_rows.max(1), (chunk_rows / ENDS).max(1));
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let (mut from, mut to, mut size) = (0, rows, least);
    while from < to {
        let end = to.min(from + size);
        front.push(from..end);
        from = end;
        let start = from.max(to.saturating_sub(size));
        // Whole chunks go to the front.
        if size < most && start < to {
            back.push(start..to);
            to = start;
        }
        size = most.min(size * 2);
    }
    back.reverse();
    front.extend(back);
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_rows_once_and_are_small_at_both_ends() {
        for rows in [0, 1, 2, 7, 8, 9, 63, 64, 65, 100, 1000, 1025] {
            for chunk_rows in [0, 1, 5, 8, 64, 2000] {
                let cut = chunks(rows, chunk_rows);
                let mut next = 0;
                for chunk in &cut {
                    assert!(
                        chunk.start == next && chunk.end > chunk.start,
                        "{rows} by {chunk_rows}: {cut:?}"
                    );
                    assert!(
                        chunk.end - chunk.start <= chunk_rows.max(1),
                        "{rows} by {chunk_rows}: {cut:?}"
                    );
                    next = chunk.end;
                }
                assert_eq!(next, rows, "{rows} by {chunk_rows}: {cut:?}");
            }
        }
        let sizes: Vec<u64> = chunks(400, 64).iter().map(|chunk| chunk.end - chunk.start).collect();
        assert_eq!(sizes, [8, 16, 32, 64, 64, 64, 64, 32, 32, 16, 8]);
    }
}
