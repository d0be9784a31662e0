//! Group keys: columns in, group numbers out, and at the end one row of key columns for each group.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::group_table::GroupTable;
use super::text::{TextPool, is_text};
use crate::keys::{append_integer_keys, from_integer_keys, is_integer_key};

pub struct GroupKeys {
    columns: Vec<KeyColumn>,
    group_table: GroupTable,
    nulls: Nulls,
    scratch: Vec<Vec<i64>>,
}

/// How keys are told apart that are NULL.
enum Nulls {
    /// None is.
    None,
    /// Of one key, the rows are a group of their own; only the others' keys are looked up. Of the prepared rows, which are not
    /// NULL, where some are; and the groups of these.
    Apart(Option<NullBuffer>, Vec<usize>),
    /// One more integer key holds a bit for each.
    Mask,
}

struct KeyColumn {
    data_type: DataType,
    text: Option<TextPool>,
}

/// Whether a column of this type can be a group key.
pub fn is_supported(data_type: &DataType) -> bool {
    is_integer_key(data_type) || is_text(data_type)
}

impl GroupKeys {
    /// `small`: the table is not to take more memory than its groups need.
    pub fn new(types: &[DataType], nullable: bool, small: bool) -> Self {
        let columns = types.iter().map(|data_type| KeyColumn {
            data_type: data_type.clone(),
            text: is_text(data_type).then(|| TextPool::new(data_type)),
        });
        let nulls = match types.len() {
            _ if !nullable => Nulls::None,
            1 => Nulls::Apart(None, vec![]),
            _ => Nulls::Mask,
        };
        let width = types.len() + usize::from(matches!(nulls, Nulls::Mask));
        Self {
            columns: columns.collect(),
            group_table: GroupTable::new(width.max(1), small),
            nulls,
            scratch: vec![vec![]; width],
        }
    }

    pub fn groups(&self) -> usize {
        self.group_table.groups()
    }

    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.group_table.clear();
        let pools = self.columns.iter_mut().filter_map(|column| column.text.as_mut());
        pools.for_each(TextPool::clear);
    }

    pub fn bytes(&self) -> usize {
        let pools = self.columns.iter().filter_map(|column| column.text.as_ref());
        let scratch = self
            .scratch
            .iter()
            .map(|integers| integers.capacity() * size_of::<i64>());
        let apart = match &self.nulls {
            Nulls::Apart(_, numbers) => numbers.capacity() * size_of::<usize>(),
            Nulls::None | Nulls::Mask => 0,
        };
        apart + self.group_table.bytes() + pools.map(TextPool::bytes).sum::<usize>() + scratch.sum::<usize>()
    }

    /// Bytes that `emit` makes: strings are not copied, but for their views and where their type has none.
    pub fn emitted_bytes(&self) -> usize {
        let pools = self.columns.iter().filter_map(|column| column.text.as_ref());
        let copied = pools.filter(|pool| !pool.has_views()).map(TextPool::bytes);
        2 * self.columns.len() * self.groups() * size_of::<u128>() + copied.sum::<usize>()
    }

    /// Makes room for so many groups.
    pub fn reserve(&mut self, groups: usize) {
        self.group_table.reserve(groups);
        let pools = self.columns.iter_mut().filter_map(|column| column.text.as_mut());
        pools.for_each(|pool| pool.reserve(groups));
    }

    /// Takes in the keys of the next `rows` rows, which `assign` then gives numbers.
    pub fn prepare(&mut self, keys: &[ArrayRef], rows: usize) -> Result<()> {
        self.prepare_hashed(keys, &[], rows)
    }

    /// The same, with the hashes of the rows' strings by column, as `text_hashes` of other keys has told them, or none.
    pub fn prepare_hashed(&mut self, keys: &[ArrayRef], hashes: &[Option<&[u32]>], rows: usize) -> Result<()> {
        for (at, ((column, integers), key)) in self.columns.iter_mut().zip(&mut self.scratch).zip(keys).enumerate() {
            integers.clear();
            match &mut column.text {
                Some(pool) => pool.ids(key, hashes.get(at).copied().flatten(), integers),
                None => append_integer_keys(key, integers)?,
            }
        }
        let nulls = |key: &ArrayRef| key.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        match &mut self.nulls {
            Nulls::None => {}
            Nulls::Apart(valid, _) => {
                *valid = nulls(&keys[0]);
                if let Some(valid) = valid {
                    let mut valid = valid.iter();
                    self.scratch[0].retain(|_| valid.next().unwrap_or(false));
                }
            }
            Nulls::Mask => {
                let mut mask = vec![0i64; rows];
                for (at, key) in keys.iter().enumerate() {
                    if let Some(nulls) = nulls(key) {
                        for row in (0..rows).filter(|&row| nulls.is_null(row)) {
                            mask[row] |= 1 << at;
                            self.scratch[at][row] = 0;
                        }
                    }
                }
                self.scratch[keys.len()] = mask;
            }
        }
        Ok(())
    }

    /// The group number of each prepared row, new groups included.
    pub fn assign(&mut self, out: &mut Vec<usize>) {
        out.clear();
        let Nulls::Apart(valid @ Some(_), numbers) = &mut self.nulls else {
            self.group_table.assign(&self.scratch, out);
            return;
        };
        numbers.clear();
        self.group_table.assign(&self.scratch, numbers);
        let null = self.group_table.null_or_new();
        let mut numbers = numbers.iter();
        let of_row = |valid: bool| if valid { numbers.next().copied() } else { None };
        out.extend(
            valid
                .take()
                .iter()
                .flatten()
                .map(of_row)
                .map(|number| number.unwrap_or(null)),
        );
    }

    /// Bytes that preparing so many rows may allocate at once where a table of strings doubles.
    pub fn text_growth_bytes(&self, rows: usize) -> usize {
        let pools = self.columns.iter().filter_map(|column| column.text.as_ref());
        pools.map(|pool| pool.doubling_bytes(rows)).sum()
    }

    /// Bytes that assigning what is prepared may allocate at once, besides what is held.
    pub fn growth_bytes(&self) -> usize {
        self.group_table.growth_bytes(&self.scratch)
    }

    /// The hashes of the groups' strings, by column.
    pub fn text_hashes(&self) -> Vec<Option<Vec<u32>>> {
        let null = self.group_table.null();
        let columns = self.columns.iter().enumerate().map(|(at, column)| {
            let by_id = column.text.as_ref()?.hashes();
            let ids = self.group_table.integers(at, None);
            let mut hashes: Vec<u32> = ids
                .into_iter()
                .map(|id| by_id.get(id as usize).copied().unwrap_or(0))
                .collect();
            if let Some(null) = null {
                hashes[null] = 0;
            }
            if matches!(self.nulls, Nulls::Mask) {
                let masks = self.group_table.integers(self.columns.len(), None);
                let nulls = hashes.iter_mut().zip(masks).filter(|(_, mask)| mask >> at & 1 == 1);
                nulls.for_each(|(hash, _)| *hash = 0);
            }
            Some(hashes)
        });
        columns.collect()
    }

    /// A hash of each group's key, the same in all tables; `texts` are the hashes of strings.
    pub fn hashes(&self, texts: &[Option<Vec<u32>>]) -> Vec<u64> {
        let mut hashes = vec![HASH_SEED; self.groups()];
        for (at, text) in texts.iter().enumerate() {
            match text {
                Some(text) => mix_all(&mut hashes, text.iter().map(|&hash| i64::from(hash))),
                None => mix_all(&mut hashes, self.group_table.integers(at, None).into_iter()),
            }
        }
        if matches!(self.nulls, Nulls::Mask) {
            mix_all(
                &mut hashes,
                self.group_table.integers(self.columns.len(), None).into_iter(),
            );
        }
        // Of one key that may be NULL: that of the group without one lies apart, and holds anything.
        if let Some(null) = self.group_table.null() {
            hashes[null] = HASH_SEED;
        }
        hashes
    }

    /// The key columns, one row a group, in the order of group numbers or in another one. Of strings they are no longer here
    /// then: the groups are to be forgotten.
    pub fn emit(&mut self, order: Option<&[u32]>) -> Result<Vec<ArrayRef>> {
        let masks = matches!(self.nulls, Nulls::Mask).then(|| self.group_table.integers(self.columns.len(), order));
        let null = self.group_table.null();
        let null = null.map(|null| match order {
            Some(order) => order.iter().position(|&group| group as usize == null),
            None => Some(null),
        });
        let mut arrays = vec![];
        for (at, column) in self.columns.iter_mut().enumerate() {
            let valid = |row: usize| match &masks {
                Some(masks) => masks[row] >> at & 1 == 0,
                None => null != Some(Some(row)),
            };
            let integers = self.group_table.integers(at, order);
            let may_be_null = masks.is_some() || null.is_some();
            let nulls = may_be_null.then(|| (0..integers.len()).map(valid).collect::<NullBuffer>());
            let nulls = nulls.filter(|n| n.null_count() > 0);
            arrays.push(match &mut column.text {
                Some(pool) => pool.strings(integers.into_iter().map(|id| id as u32).collect(), nulls)?,
                None => from_integer_keys(&integers, nulls, &column.data_type)?,
            });
        }
        Ok(arrays)
    }
}

/// Other than what the tables begin with, whose slots would lie together for groups of one share.
const HASH_SEED: u64 = 0x2545_F491_4F6C_DD1D;

fn mix_all(hashes: &mut [u64], integers: impl Iterator<Item = i64>) {
    for (hash, integer) in hashes.iter_mut().zip(integers) {
        let mixed = (*hash ^ integer as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        *hash = mixed ^ mixed >> 29;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::pick;
    use arrow::array::{AsArray, BinaryArray, Int32Array, StringViewArray, UInt32Array};
    use arrow::datatypes::Int32Type;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::collections::HashMap;
    use std::sync::Arc;

    fn value(column: &ArrayRef, row: usize) -> Option<String> {
        column.is_valid(row).then(|| match column.data_type() {
            DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
            DataType::Binary => String::from_utf8(column.as_binary::<i32>().value(row).to_vec()).unwrap(),
            _ => column.as_string_view().value(row).to_string(),
        })
    }

    #[test]
    fn groups_are_those_of_a_map() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..300 {
            let types = (0..rng.random_range(1..4)).map(|_| match rng.random_range(0..4) {
                0 => DataType::Binary,
                1 => DataType::Int32,
                _ => DataType::Utf8View,
            });
            let types: Vec<DataType> = types.collect();
            let (nullable, span) = (rng.random(), [2, 100, 1 << 30][rng.random_range(0..3)]);
            let mut keys = GroupKeys::new(&types, nullable, rng.random());
            let mut reference: HashMap<Vec<Option<String>>, usize> = HashMap::new();
            let (mut numbers, mut last): (Vec<usize>, Vec<ArrayRef>) = (vec![], vec![]);
            for _ in 0..rng.random_range(0..6) {
                if rng.random_ratio(1, 6) {
                    keys.clear();
                    reference.clear();
                }
                let (rows, nulls) = (rng.random_range(0..300), [0.0, 0.2, 1.0][rng.random_range(0..3)]);
                let columns = types.iter().map(|data_type| -> ArrayRef {
                    let integers = (0..rows).map(|_| {
                        let is_null = nullable && rng.random_bool(nulls);
                        (!is_null).then(|| rng.random_range(-span..span))
                    });
                    let integers: Int32Array = integers.collect();
                    let named =
                        |integer| format!("{}{integer}", if integer % 2 == 0 { "" } else { "no short string " });
                    let texts = || integers.iter().map(|own| own.map(named));
                    match data_type {
                        DataType::Utf8View => Arc::new(texts().collect::<StringViewArray>()),
                        DataType::Binary => Arc::new(texts().collect::<BinaryArray>()),
                        _ => Arc::new(integers),
                    }
                });
                let mut columns: Vec<ArrayRef> = columns.collect();
                // Rows of the arrays before, whose buffers they share.
                if rng.random() && !last.is_empty() {
                    let of_last = last[0].len() as u32;
                    let picked = (0..rows).filter(|_| of_last > 0).map(|_| rng.random_range(0..of_last));
                    let picked: UInt32Array = picked.map(Some).collect();
                    columns = last.iter().map(|column| pick(column, &picked).unwrap()).collect();
                }
                let rows = columns[0].len();
                last.clone_from(&columns);
                keys.prepare(&columns, rows).unwrap();
                keys.assign(&mut numbers);
                assert_eq!(numbers.len(), rows, "seed {seed}");
                for (row, number) in numbers.iter().enumerate() {
                    let key: Vec<_> = columns.iter().map(|column| value(column, row)).collect();
                    let known = reference.entry(key).or_insert(*number);
                    assert_eq!(known, number, "seed {seed}");
                }
            }
            assert_eq!(keys.groups(), reference.len(), "seed {seed}");
            let emitted = keys.emit(None).unwrap();
            for (key, number) in reference {
                let found: Vec<_> = emitted.iter().map(|column| value(column, number)).collect();
                assert_eq!(found, key, "seed {seed}");
            }
        }
    }
}
