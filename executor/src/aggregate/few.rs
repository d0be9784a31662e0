//! Groups of few rows, at once.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;

use super::spec::GroupSpec;

impl GroupSpec {
    /// One row for each group of the rows, in the order in which their first ones come.
    pub fn groups_of(&self, batches: &[RecordBatch]) -> Result<RecordBatch> {
        let mut keys = self.group_keys(false);
        let accumulators = self.aggregates.iter().map(|aggregate| self.accumulator(aggregate));
        let mut accumulators = accumulators.collect::<Result<Vec<_>>>()?;
        let mut numbers = vec![];
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let rows = batch.num_rows();
            let evaluated = self.keys.iter().map(|(key, _)| key.evaluate(batch)?.into_array(rows));
            keys.prepare(&evaluated.collect::<Result<Vec<ArrayRef>>>()?, rows)?;
            keys.assign(&mut numbers);
            let aggregates = self.aggregates.iter().zip(&self.filters);
            for ((aggregate, filter), accumulator) in aggregates.zip(&mut accumulators) {
                let arguments = aggregate.expressions().into_iter();
                let arguments = arguments.map(|expr| expr.evaluate(batch)?.into_array(rows));
                let arguments = arguments.collect::<Result<Vec<ArrayRef>>>()?;
                let passes = match filter {
                    Some(filter) => Some(filter.evaluate(batch)?.into_array(rows)?),
                    None => None,
                };
                let passes = passes.as_ref().map(|passes| passes.as_boolean());
                accumulator.update_batch(&arguments, &numbers, passes, keys.groups())?;
            }
        }
        let groups = keys.groups();
        let mut columns = keys.emit(None)?;
        for accumulator in &mut accumulators {
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}
