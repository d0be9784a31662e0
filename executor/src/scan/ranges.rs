//! `column op literal` over columns that storage keeps as differences: the literal is moved into the differences' frame
//! once, and 64 rows at a time are compared as they lie. Rows that one range excludes are not shown to the next, 64 of
//! them together.

use arrow::array::BooleanArray;
use arrow::buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use tenon_storage::{Differences, NarrowColumn};

use super::filter::Range;

/// A range over a column's differences: those from `first`, `span` of them and one more.
pub struct NarrowRange<'a> {
    differences: &'a Differences,
    nulls: Option<&'a NullBuffer>,
    first: u64,
    span: u64,
}

const LANES: usize = 64;

impl<'a> NarrowRange<'a> {
    /// None: the column's values do not go into lanes, or none of them is in the range.
    pub fn of(range: Range, column: &'a NarrowColumn) -> Option<Self> {
        let base = i64::try_from(column.base()).ok()?;
        let (min, max) = (
            i128::from(range.min) - i128::from(base),
            i128::from(range.max) - i128::from(base),
        );
        let first = u64::try_from(min.max(0)).ok()?;
        let last = u64::try_from(max).ok()?;
        Some(Self {
            differences: column.differences(),
            nulls: column.nulls(),
            first,
            span: last.checked_sub(first)?,
        })
    }

    /// Keeps those of `rows`, row numbers of the segment, that are in the range.
    pub fn retain(&self, rows: &mut Vec<u32>) {
        macro_rules! retain {
            ($differences:expr) => {
                rows.retain(|row| u64::from($differences[*row as usize]).wrapping_sub(self.first) <= self.span)
            };
        }
        match self.differences {
            Differences::None(_) if self.first == 0 => {}
            Differences::None(_) => rows.clear(),
            Differences::U8(differences) => retain!(differences),
            Differences::U16(differences) => retain!(differences),
            Differences::U32(differences) => retain!(differences),
            Differences::U64(differences) => retain!(differences),
        }
        if let Some(nulls) = self.nulls {
            rows.retain(|row| nulls.is_valid(*row as usize));
        }
    }

    /// A bit for each of the `rows` rows, at most 64, from `offset`. Nulls are not seen.
    fn mask(&self, offset: usize, rows: usize) -> u64 {
        macro_rules! mask {
            ($differences:expr, $t:ty) => {{
                // A range that begins past the type's end has no row; one that ends there has all that follow.
                match <$t>::try_from(self.first) {
                    Err(_) => 0,
                    Ok(first) => {
                        let span = <$t>::try_from(self.span).unwrap_or(<$t>::MAX);
                        // What wraps comes out above `MAX - first`, so that the span may not reach there.
                        mask(
                            &$differences[offset..offset + rows],
                            first,
                            span.min(<$t>::MAX - first),
                        )
                    }
                }
            }};
        }
        match self.differences {
            Differences::None(_) if self.first == 0 => u64::MAX,
            Differences::None(_) => 0,
            Differences::U8(differences) => mask!(differences, u8),
            Differences::U16(differences) => mask!(differences, u16),
            Differences::U32(differences) => mask!(differences, u32),
            Differences::U64(differences) => mask!(differences, u64),
        }
    }
}

/// Which of the `rows` rows from `offset` are in all ranges.
pub fn pass(ranges: &[NarrowRange<'_>], offset: usize, rows: usize) -> BooleanArray {
    let mut words = MutableBuffer::with_capacity(rows.div_ceil(LANES) * size_of::<u64>());
    for from in (0..rows).step_by(LANES) {
        let count = LANES.min(rows - from);
        let mut mask = u64::MAX;
        for range in ranges {
            mask &= range.mask(offset + from, count);
            if mask == 0 {
                break;
            }
        }
        words.push(mask.to_le());
    }
    let mut bits = BooleanBuffer::new(words.into(), 0, rows);
    for nulls in ranges.iter().filter_map(|range| range.nulls) {
        bits = &bits & nulls.slice(offset, rows).inner();
    }
    BooleanArray::new(bits, None)
}

trait Lane: Copy + PartialOrd {
    fn minus(self, other: Self) -> Self;
}

macro_rules! lane {
    ($($t:ty),*) => {$(
        impl Lane for $t {
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}

lane!(u8, u16, u32, u64);

/// A bit for each value, at most 64, that is at least `first` and at most `first + span`.
#[inline(always)]
fn mask<T: Lane>(values: &[T], first: T, span: T) -> u64 {
    let mut bytes = [0_u8; LANES];
    match <&[T; LANES]>::try_from(values) {
        // Of a fixed length, so that it becomes vector instructions.
        Ok(values) => {
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = u8::from(value.minus(first) <= span);
            }
        }
        Err(_) => {
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = u8::from(value.minus(first) <= span);
            }
        }
    }
    let mut mask = 0;
    for (at, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // The product gathers the lowest bits of eight bytes in the highest byte, the first byte's bit lowest.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * at);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::sync::Arc;
    use tenon_storage::{ColumnDef, Database, MemoryBudget, Segment, SqlType, TableDef};

    fn segment(values: &Int64Array) -> Arc<Segment> {
        let database = Database::new(MemoryBudget::unlimited());
        let mut transaction = database.begin();
        let columns = vec![ColumnDef::new("a", SqlType::Int8)];
        let table = TableDef {
            columns,
            ..TableDef::default()
        };
        let table = transaction.create_table("public", "t", table).unwrap();
        let mut writer = transaction.writer(&table);
        let column: ArrayRef = Arc::new(values.clone());
        writer
            .append(&RecordBatch::try_new(table.schema().clone(), vec![column]).unwrap())
            .unwrap();
        Arc::clone(&writer.finish().unwrap()[0])
    }

    #[test]
    fn ranges_are_those_of_plain_values() {
        let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or_else(rand::random);
        println!("TENON_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut compared = 0;
        for _ in 0..60 {
            let span = [0, 1, 254, 255, 256, 0xffff, 0x1_0000, 0xffff_ffff][random.random_range(0..8)];
            let base = [i64::MIN, -100, 0, i64::MAX - span][random.random_range(0..4)];
            let nulls = [0.0, 0.2][random.random_range(0..2)];
            let rows = random.random_range(1024..1400);
            let value = |random: &mut StdRng| {
                let value = base + random.random_range(0..=span);
                (!random.random_bool(nulls)).then_some(value)
            };
            let values: Int64Array = (0..rows).map(|_| value(&mut random)).collect();
            let segment = segment(&values);
            let narrow = segment.narrow(0).unwrap();
            for _ in 0..20 {
                let mut end = || match random.random_range(0..4) {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    2 => base.saturating_add(random.random_range(-3..=3)),
                    _ => base.saturating_add(random.random_range(0..=span)),
                };
                let ranges = [end(), end(), end(), end()];
                let ranges = [(ranges[0], ranges[1]), (ranges[2], ranges[3])];
                let of = |(min, max)| NarrowRange::of(Range { column: 0, min, max }, narrow);
                let (Some(first), Some(second)) = (of(ranges[0]), of(ranges[1])) else {
                    continue;
                };
                let offset = random.random_range(0..rows);
                let count = random.random_range(0..=rows - offset);
                let holds = |row: usize| {
                    values.is_valid(row)
                        && ranges
                            .iter()
                            .all(|(min, max)| (*min..=*max).contains(&values.value(row)))
                };
                let expected: Vec<u32> = (offset..offset + count)
                    .filter(|row| holds(*row))
                    .map(|row| row as u32)
                    .collect();
                let found = pass(&[first, second], offset, count);
                let found: Vec<u32> = found.values().set_indices().map(|row| (offset + row) as u32).collect();
                assert_eq!(found, expected, "{ranges:?} from {base} by {span}");
                let mut retained: Vec<u32> = (offset as u32..(offset + count) as u32).collect();
                ranges
                    .iter()
                    .filter_map(|range| of(*range))
                    .for_each(|range| range.retain(&mut retained));
                assert_eq!(retained, expected, "{ranges:?} from {base} by {span}");
                compared += 1;
            }
        }
        assert!(compared > 100, "only {compared} pairs of ranges were compared");
    }
}
