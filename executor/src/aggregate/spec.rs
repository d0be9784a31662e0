//! What is grouped and aggregated, apart from the input.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::GroupsAccumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::PhysicalExpr;

use super::distinct::{Distinct, is_supported_distinct};
use super::keys::{GroupKeys, is_supported};
use crate::keys::is_integer_key;

/// What is grouped and aggregated, apart from the input.
#[derive(Debug, Clone)]
pub struct GroupSpec {
    pub keys: Vec<(Arc<dyn PhysicalExpr>, String)>,
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// FILTER (WHERE ...) of each aggregate.
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    /// GROUPING SETS, ROLLUP and CUBE: the sets of keys, one of which has them all. None: all keys are the one set.
    pub sets: Vec<GroupingSet>,
    pub input_schema: SchemaRef,
    /// Keys, the set's number where there are sets, then aggregates.
    pub schema: SchemaRef,
}

/// Some of the keys, by which rows are grouped; the others are NULL in its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupingSet {
    /// Whether the set has each key.
    pub has: Vec<bool>,
    /// What tells its groups from those of other sets.
    pub number: u64,
}

impl GroupingSet {
    pub fn has_all(&self) -> bool {
        !self.has.contains(&false)
    }

    /// Whether groups of `other` can be put together to groups of this.
    pub fn is_coarser(&self, other: &GroupingSet) -> bool {
        self.has.iter().zip(&other.has).all(|(own, other)| *other || !*own)
    }
}

impl GroupSpec {
    /// Whether `GroupExec` can compute this.
    pub fn is_supported(&self) -> bool {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(at, (key, _))| (key.data_type(&self.input_schema), self.schema.field(at).data_type()));
        keys.into_iter()
            .all(|(own, out)| own.is_ok_and(|own| own == *out && is_supported(&own)))
            && self.keys.len() < 62
            && self.has_supported_sets()
            && self
                .aggregates
                .iter()
                .all(|aggregate| self.is_supported_aggregate(aggregate))
    }

    fn is_supported_aggregate(&self, aggregate: &AggregateFunctionExpr) -> bool {
        let in_order = gathers_rows(aggregate);
        match aggregate.is_distinct() && !in_order {
            true => is_supported_distinct(aggregate, &self.input_schema),
            false => (in_order || aggregate.order_bys().is_empty()) && aggregate.groups_accumulator_supported(),
        }
    }

    /// What gathers the values of one of the aggregates by group.
    pub(super) fn accumulator(&self, aggregate: &AggregateFunctionExpr) -> Result<Box<dyn GroupsAccumulator>> {
        match aggregate.is_distinct() && !gathers_rows(aggregate) {
            true => Ok(Box::new(Distinct::new(aggregate, &self.input_schema)?)),
            false => aggregate.create_groups_accumulator(),
        }
    }

    /// Groups of the set of all keys are gathered first, and the others' made of them: without that set, they might be many
    /// more than those that are asked for. What gathers rows has no states that are put together in two ways.
    fn has_supported_sets(&self) -> bool {
        self.sets.is_empty()
            || is_supported(self.schema.field(self.keys.len()).data_type())
                && self.sets.iter().any(GroupingSet::has_all)
                && !self.aggregates.iter().any(|aggregate| gathers_rows(aggregate))
    }

    /// Whether groups are shared out by ranges of the only key's values; others are by a hash of their keys.
    pub(super) fn is_shared_by_value(&self) -> bool {
        self.keys.len() == 1 && self.sets.is_empty() && is_integer_key(self.schema.field(0).data_type())
    }

    /// A table of the groups by all keys; `small` where it is not to take more than a core's cache.
    pub(super) fn group_keys(&self, small: bool) -> GroupKeys {
        self.table(self.keys.len(), small)
    }

    /// A table of the groups of all sets.
    pub(super) fn merged_keys(&self) -> GroupKeys {
        self.table(self.keys.len() + usize::from(!self.sets.is_empty()), false)
    }

    fn table(&self, columns: usize, small: bool) -> GroupKeys {
        let fields = &self.schema.fields()[..columns];
        let types: Vec<DataType> = fields.iter().map(|f| f.data_type().clone()).collect();
        GroupKeys::new(&types, fields.iter().any(|f| f.is_nullable()), small)
    }
}

/// Whether all rows of a group are kept, in an accumulator that is Tenon's own: it sorts and tells rows apart by itself,
/// and counts as its size what its result will take.
pub(super) fn gathers_rows(aggregate: &AggregateFunctionExpr) -> bool {
    matches!(aggregate.fun().name(), "array_agg" | "string_agg")
}
