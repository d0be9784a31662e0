//! What comes out of the join.

use crate::join::JoinKind;

/// What a join is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The number of pairs and the sum of `build value * probe value` over them, modulo 2^64. Nothing is written.
    Aggregate,
    /// Rows. Kinds other than inner want row numbers as values.
    Join(JoinKind),
}

/// Values of one side of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words<'a> {
    /// Row numbers, or payloads where both sides have 4 bytes.
    U32(&'a [u32]),
    U64(&'a [u64]),
}

/// A piece of a join's result, in host memory.
#[derive(Clone, Copy, Debug)]
pub enum TritonOutput<'a> {
    /// Values of partners, at the same places.
    Pairs { build: Words<'a>, probe: Words<'a> },
    /// Build rows that come out alone, ascending.
    BuildRows(&'a [u32]),
    /// Probe rows that come out alone, ascending.
    ProbeRows(&'a [u32]),
    /// A byte a row: 1 where the row has a partner. All of them, in pieces.
    Marks(&'a [u8]),
}

/// Rows of one piece that comes out of flags.
const PIECE_ROWS: usize = 64 << 10;

/// Hands out the rows whose bit is `set`, of `rows` rows.
pub(super) fn rows_where<E>(
    bits: &[u32],
    rows: u64,
    set: bool,
    mut f: impl FnMut(&[u32]) -> Result<(), E>,
) -> Result<(), E> {
    let mut piece = Vec::with_capacity(PIECE_ROWS.min(rows as usize));
    for row in 0..rows {
        if (bits[(row >> 5) as usize] >> (row & 31) & 1 == 1) == set {
            piece.push(row as u32);
            if piece.len() == PIECE_ROWS {
                f(&piece)?;
                piece.clear();
            }
        }
    }
    if piece.is_empty() { Ok(()) } else { f(&piece) }
}

/// Hands out a byte a row.
pub(super) fn marks<E>(bits: &[u32], rows: u64, mut f: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    for from in (0..rows).step_by(PIECE_ROWS) {
        let to = rows.min(from + PIECE_ROWS as u64);
        let piece: Vec<u8> = (from..to)
            .map(|row| (bits[(row >> 5) as usize] >> (row & 31) & 1) as u8)
            .collect();
        f(&piece)?;
    }
    Ok(())
}
