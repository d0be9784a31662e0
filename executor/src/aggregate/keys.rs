//! Group keys: columns in, group numbers out, and at the end one row of key columns for each group.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::group_table::GroupTable;
use super::text::TextPool;
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
    is_integer_key(data_type) || *data_type == DataType::Utf8View
}

impl GroupKeys {
    /// `small`: the table is not to take more memory than its groups need.
    pub fn new(types: &[DataType], nullable: bool, small: bool) -> Self {
        let columns = types.iter().map(|data_type| KeyColumn {
            data_type: data_type.clone(),
            text: (*data_type == DataType::Utf8View).then(TextPool::default),
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
        for pool in self.columns.iter_mut().filter_map(|column| column.text.as_mut()) {
            *pool = TextPool::default();
        }
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

    /// Bytes that `emit` makes: strings are not copied, but for their views.
    pub fn emitted_bytes(&self) -> usize {
        2 * self.columns.len() * self.groups() * size_of::<u128>()
    }

    /// Takes in the keys of the next `rows` rows, which `assign` then gives numbers.
    pub fn prepare(&mut self, keys: &[ArrayRef], rows: usize) -> Result<()> {
        for ((column, integers), key) in self.columns.iter_mut().zip(&mut self.scratch).zip(keys) {
            integers.clear();
            match &mut column.text {
                Some(pool) => pool.ids(key.as_string_view(), integers),
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

    /// The key columns, one row a group, in the order of group numbers.
    pub fn emit(&self) -> Result<Vec<ArrayRef>> {
        let masks: Option<Vec<i64>> =
            matches!(self.nulls, Nulls::Mask).then(|| self.group_table.integer(self.columns.len()).collect());
        let null = self.group_table.null();
        let mut arrays = vec![];
        for (at, column) in self.columns.iter().enumerate() {
            let valid = |group: usize| match &masks {
                Some(masks) => masks[group] >> at & 1 == 0,
                None => null != Some(group),
            };
            arrays.push(match &column.text {
                Some(pool) => {
                    let ids = self
                        .group_table
                        .integer(at)
                        .enumerate()
                        .map(|(group, id)| valid(group).then_some(id));
                    pool.strings(ids)?
                }
                None => {
                    let integers: Vec<i64> = self.group_table.integer(at).collect();
                    let may_be_null = masks.is_some() || null.is_some();
                    let nulls = may_be_null.then(|| (0..integers.len()).map(valid).collect::<NullBuffer>());
                    from_integer_keys(&integers, nulls.filter(|n| n.null_count() > 0), &column.data_type)?
                }
            });
        }
        Ok(arrays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringViewArray};
    use arrow::datatypes::Int32Type;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::collections::HashMap;
    use std::sync::Arc;

    fn value(column: &ArrayRef, row: usize) -> Option<String> {
        column.is_valid(row).then(|| match column.data_type() {
            DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
            _ => column.as_string_view().value(row).to_string(),
        })
    }

    #[test]
    fn groups_are_those_of_a_map() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..300 {
            let are_text: Vec<bool> = (0..rng.random_range(1..4)).map(|_| rng.random()).collect();
            let types = are_text
                .iter()
                .map(|text| if *text { DataType::Utf8View } else { DataType::Int32 });
            let types: Vec<DataType> = types.collect();
            let (nullable, span) = (rng.random(), [2, 100, 1 << 30][rng.random_range(0..3)]);
            let mut keys = GroupKeys::new(&types, nullable, rng.random());
            let mut reference: HashMap<Vec<Option<String>>, usize> = HashMap::new();
            let mut numbers = vec![];
            for _ in 0..rng.random_range(0..6) {
                if rng.random_ratio(1, 6) {
                    keys.clear();
                    reference.clear();
                }
                let (rows, nulls) = (rng.random_range(0..300), [0.0, 0.2, 1.0][rng.random_range(0..3)]);
                let columns = are_text.iter().map(|text| -> ArrayRef {
                    let integers = (0..rows).map(|_| {
                        let is_null = nullable && rng.random_bool(nulls);
                        (!is_null).then(|| rng.random_range(-span..span))
                    });
                    let integers: Int32Array = integers.collect();
                    let named =
                        |integer| format!("{}{integer}", if integer % 2 == 0 { "" } else { "no short string " });
                    match text {
                        true => Arc::new(integers.iter().map(|own| own.map(named)).collect::<StringViewArray>()),
                        false => Arc::new(integers),
                    }
                });
                let columns: Vec<ArrayRef> = columns.collect();
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
            let emitted = keys.emit().unwrap();
            for (key, number) in reference {
                let found: Vec<_> = emitted.iter().map(|column| value(column, number)).collect();
                assert_eq!(found, key, "seed {seed}");
            }
        }
    }
}
