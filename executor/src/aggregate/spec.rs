//! What is grouped and aggregated, apart from the input.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::PhysicalExpr;

use super::keys::{GroupKeys, is_supported};

/// What is grouped and aggregated, apart from the input.
#[derive(Debug, Clone)]
pub struct GroupSpec {
    pub keys: Vec<(Arc<dyn PhysicalExpr>, String)>,
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// FILTER (WHERE ...) of each aggregate.
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    pub input_schema: SchemaRef,
    /// Keys, then aggregates.
    pub schema: SchemaRef,
}

impl GroupSpec {
    /// Whether `GroupExec` can compute this.
    pub fn is_supported(&self) -> bool {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(at, (key, _))| (key.data_type(&self.input_schema), self.schema.field(at).data_type()));
        keys.into_iter()
            .all(|(own, out)| own.is_ok_and(|own| own == *out && is_supported(&own)))
            && self.keys.len() < 63
            && self
                .aggregates
                .iter()
                .all(|a| gathers_rows(a) || !a.is_distinct() && a.order_bys().is_empty())
            && self.aggregates.iter().all(|a| a.groups_accumulator_supported())
    }

    /// A table of groups; `small` where it is not to take more than a core's cache.
    pub(super) fn group_keys(&self, small: bool) -> GroupKeys {
        let fields = &self.schema.fields()[..self.keys.len()];
        let types: Vec<DataType> = fields.iter().map(|f| f.data_type().clone()).collect();
        GroupKeys::new(&types, fields.iter().any(|f| f.is_nullable()), small)
    }
}

/// Whether all rows of a group are kept, in an accumulator that is Tenon's own: it sorts and tells rows apart by itself,
/// and counts as its size what its result will take.
pub(super) fn gathers_rows(aggregate: &AggregateFunctionExpr) -> bool {
    matches!(aggregate.fun().name(), "array_agg" | "string_agg")
}
