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
    /// Whether keys may be null: then one more integer key holds a bit for each null.
    nullable: bool,
    scratch: Vec<Vec<i64>>,
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
        let width = types.len() + usize::from(nullable);
        Self {
            columns: columns.collect(),
            group_table: GroupTable::new(width.max(1), small),
            nullable,
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
        self.group_table.bytes() + pools.map(TextPool::bytes).sum::<usize>() + scratch.sum::<usize>()
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
        if self.nullable {
            let mut mask = vec![0i64; rows];
            for (at, key) in keys.iter().enumerate() {
                if let Some(nulls) = key.nulls().filter(|n| n.null_count() > 0) {
                    for row in (0..rows).filter(|&row| nulls.is_null(row)) {
                        mask[row] |= 1 << at;
                        self.scratch[at][row] = 0;
                    }
                }
            }
            self.scratch[keys.len()] = mask;
        }
        Ok(())
    }

    /// The group number of each prepared row, new groups included.
    pub fn assign(&mut self, out: &mut Vec<usize>) {
        out.clear();
        self.group_table.assign(&self.scratch, out);
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
        let masks: Option<Vec<i64>> = self
            .nullable
            .then(|| self.group_table.integer(self.columns.len()).collect());
        let mut arrays = vec![];
        for (at, column) in self.columns.iter().enumerate() {
            let valid = |group: usize| masks.as_ref().is_none_or(|masks| masks[group] >> at & 1 == 0);
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
                    let nulls = masks
                        .as_ref()
                        .map(|_| (0..integers.len()).map(valid).collect::<NullBuffer>());
                    from_integer_keys(&integers, nulls.filter(|n| n.null_count() > 0), &column.data_type)?
                }
            });
        }
        Ok(arrays)
    }
}
