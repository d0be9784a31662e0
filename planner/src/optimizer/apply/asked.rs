//! Which values rows of an input ask for: each once, however many rows have them.

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use foldhash::HashMap;

/// Which of the different values each row has; none where it does not ask.
pub(super) struct Asked {
    pub numbers: Vec<Option<u32>>,
    /// The first row of each number.
    pub firsts: Vec<u32>,
}

impl Asked {
    pub fn of(values: &[ArrayRef], guard: Option<&BooleanArray>, rows: usize) -> Result<Self> {
        let asks = |row: usize| guard.is_none_or(|guard| guard.is_valid(row) && guard.value(row));
        let fields: Vec<_> = values
            .iter()
            .map(|array| SortField::new(array.data_type().clone()))
            .collect();
        let (mut numbers, mut firsts) = (Vec::with_capacity(rows), Vec::new());
        if !RowConverter::supports_fields(&fields) {
            for row in 0..rows {
                numbers.push(asks(row).then_some(firsts.len() as u32));
                firsts.extend(asks(row).then_some(row as u32));
            }
            return Ok(Self { numbers, firsts });
        }
        let keys = RowConverter::new(fields)?.convert_columns(values)?;
        let mut known: HashMap<&[u8], u32> = HashMap::default();
        for row in 0..rows {
            numbers.push(asks(row).then(|| {
                *known.entry(keys.row(row).data()).or_insert_with(|| {
                    firsts.push(row as u32);
                    firsts.len() as u32 - 1
                })
            }));
        }
        Ok(Self { numbers, firsts })
    }
}
