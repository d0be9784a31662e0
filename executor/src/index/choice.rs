//! Which index a scan reads, if any: the one that finds the fewest rows, where that costs less than reading all rows
//! that zone maps leave.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use tenon_storage::{Bound, Index, MemoryBudget, TableVersion};

use super::data::IndexData;
use super::declared::{Declared, Key};
use super::encoding::KeyRange;
use super::predicate::{Constraint, Constraints, Subjects, constraints_on, key_ranges, usable};
use super::reader::IndexReader;
use crate::keys::from_integer_keys;
use crate::runtime_filter::KeySet;

/// Scans of fewer rows than this need no index.
const SCANNED_ROWS_MIN: usize = 4096;
/// What looking up one key of many costs, in rows read one after the other.
const PROBE_COST: usize = 32;
/// What finding and gathering one row by an index costs, in rows read one after the other.
const ROW_COST: usize = 32;
/// The same for looking up one key range of a scan's filter.
const RANGE_COST: usize = 256;
/// The share of a column's values that a range with one end is taken to hold where nothing is known, as in PostgreSQL.
const RANGE_SHARE: f64 = 0.33;
/// The same of one value, and of a range with two ends.
const POINT_SHARE: f64 = 0.005;

/// How many rows found by an index cost as much as reading `scanned_rows` one after the other; none where that is quick.
pub fn rows_worth(scanned_rows: usize) -> usize {
    match scanned_rows < SCANNED_ROWS_MIN {
        true => 0,
        false => scanned_rows / ROW_COST,
    }
}

/// How many rows read one after the other cost as much as finding so many by an index.
pub fn scanned_rows_for(found: usize) -> usize {
    found.saturating_mul(ROW_COST)
}

/// A scan's use of an index.
#[derive(Debug)]
pub struct IndexScan {
    pub name: String,
    pub ranges: Vec<KeyRange>,
    pub reader: Arc<IndexReader>,
    /// Rows that the ranges hold.
    pub rows: usize,
}

/// The indexes that have all rows which pass some filters, and what these say about the parts of their keys.
pub struct Searches<'a> {
    /// Each with the numbers of its parts, by which constraints are found.
    pub indexes: Vec<(Declared<'a>, Vec<usize>)>,
    pub found: Constraints,
}

impl<'a> Searches<'a> {
    pub fn of(table: &'a TableVersion, schema: &Schema, filters: &[Arc<dyn PhysicalExpr>]) -> Self {
        let declared: Vec<Declared<'a>> = Declared::all(table).collect();
        let computed = declared
            .iter()
            .flat_map(Declared::computed_parts)
            .cloned()
            .collect::<Vec<_>>();
        let subjects = Subjects {
            table: schema,
            computed: &computed,
        };
        let found = constraints_on(filters, &subjects);
        let has_all = |index: &Declared| match &index.key {
            Key::Columns(_) => true,
            Key::Computed(keys) => keys.holds(filters, schema),
        };
        let numbered = |index: Declared<'a>| {
            let parts = index.parts(&subjects);
            (index, parts)
        };
        let indexes = declared.into_iter().filter(has_all).map(numbered).collect();
        Self { indexes, found }
    }
}

/// The index to read for rows that pass all `filters`; None: read `scanned_rows` rows one after the other. An index
/// whose use the statistics speak for is built.
pub fn choose(
    table: &TableVersion,
    schema: &SchemaRef,
    filters: &[Arc<dyn PhysicalExpr>],
    scanned_rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<Option<IndexScan>> {
    if scanned_rows < SCANNED_ROWS_MIN || filters.is_empty() {
        return Ok(None);
    }
    let searches = Searches::of(table, schema, filters);
    let mut best: Option<IndexScan> = None;
    for (index, parts) in &searches.indexes {
        let used = usable(parts, &searches.found);
        if used.is_empty() {
            continue;
        }
        let ready = IndexData::ready(table, index);
        if ready.is_none() && estimated_rows(table, &used) * ROW_COST as f64 > scanned_rows as f64 {
            continue;
        }
        // Where memory is short the scan does without.
        let reader = match ready {
            Some(ready) => Ok(Some(ready)),
            None => IndexData::reader_for(table, index, scanned_rows, budget),
        };
        let Ok(Some(reader)) = reader else {
            continue;
        };
        let Some(ranges) = key_ranges(&used, reader.encoding())? else {
            continue;
        };
        if ranges.len().saturating_mul(RANGE_COST) > scanned_rows {
            continue;
        }
        let rows = reader.count(&ranges);
        let cost = rows.saturating_mul(ROW_COST) + ranges.len() * RANGE_COST;
        if cost < scanned_rows && best.as_ref().is_none_or(|best| rows < best.rows) {
            best = Some(IndexScan {
                name: index.name.to_owned(),
                ranges,
                reader,
                rows,
            });
        }
    }
    Ok(best)
}

/// The rows whose key in an index is this one, each column an array of one value; None where the scan is to choose how it
/// reads: there are too many of them, or the index would have to be built and that does not pay for sure.
pub fn rows_of_key(
    table: &TableVersion,
    index: &Index,
    key: &[ArrayRef],
    rows_max: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<Option<Vec<(u32, u32)>>> {
    let scanned_rows = usize::try_from(table.rows()).unwrap_or(usize::MAX);
    if scanned_rows < SCANNED_ROWS_MIN {
        return Ok(None);
    }
    // Where memory is short the scan does without.
    let declared = Declared::from(index);
    let reader = match IndexData::ready(table, &declared) {
        Some(ready) => Ok(Some(ready)),
        None if index.is_unique() => IndexData::reader_for(table, &declared, scanned_rows, budget),
        None => return Ok(None),
    };
    let Ok(Some(reader)) = reader else {
        return Ok(None);
    };
    let range = [reader.encoding().range(key, None, None)?];
    let rows = reader.count(&range);
    if rows > rows_max || rows.saturating_mul(ROW_COST) + RANGE_COST > scanned_rows {
        return Ok(None);
    }
    Ok(Some(reader.rows(&range)))
}

/// An index that finds a join's inner rows.
#[derive(Debug)]
pub struct JoinIndex {
    pub name: String,
    pub reader: Arc<IndexReader>,
    /// The columns of its key that equal something.
    pub equal: Vec<usize>,
    /// The column after those, which lies within bounds.
    pub ranged: Option<usize>,
}

/// Whether a table is worth an index for joins.
pub fn is_worth_lookups(table: &TableVersion) -> bool {
    table.rows() >= SCANNED_ROWS_MIN as u64
}

/// The index with most use for a join that knows what each of the columns `equal` equals and what bounds each of
/// `ranged`. A primary key's that no query has used before is not built for this.
pub fn for_join(
    table: &TableVersion,
    equal: &[usize],
    ranged: &[usize],
    budget: &Arc<MemoryBudget>,
) -> Option<JoinIndex> {
    // Equal floats may differ in their bits, and the lookup has the last word on equality.
    let decides = |column: &&usize| {
        let exact = !table.schema().field(**column).data_type().is_floating();
        exact && equal.contains(column)
    };
    let usable = |index: &Index| {
        let prefix: Vec<usize> = index.columns.iter().take_while(decides).copied().collect();
        let next = index
            .columns
            .get(prefix.len())
            .copied()
            .filter(|column| ranged.contains(column));
        (prefix, next)
    };
    let candidates = table.definition().all_indexes().map(|index| (index, usable(index)));
    let candidates = candidates.filter(|(index, (prefix, next))| {
        let useful = !prefix.is_empty() || next.is_some();
        useful && (!index.is_primary() || IndexData::is_in_use(&Declared::from(*index)))
    });
    let (index, (equal, ranged)) =
        candidates.max_by_key(|(_, (prefix, next))| 2 * prefix.len() + usize::from(next.is_some()))?;
    // Where memory is short the join does without.
    let rows = usize::try_from(table.rows()).unwrap_or(usize::MAX);
    let reader = IndexData::reader_for(table, &Declared::from(index), rows, budget).ok()??;
    Some(JoinIndex {
        name: index.name.clone(),
        reader,
        equal,
        ranged,
    })
}

/// The rows of the table whose value in `column` is one of the keys that a join's build side gave, where an index finds
/// them for less than reading `scanned_rows` rows by so many cores costs. An index of a primary key that no query has used before is not
/// built for this.
pub fn semi_join(
    table: &TableVersion,
    column: usize,
    set: &KeySet,
    scanned_rows: usize,
    cores: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<Option<Vec<(u32, u32)>>> {
    if scanned_rows < SCANNED_ROWS_MIN {
        return Ok(None);
    }
    let worthwhile = |index: &&Index| index.columns.first() == Some(&column);
    let Some(index) = table.definition().all_indexes().find(worthwhile) else {
        return Ok(None);
    };
    // One core looks the keys up, while the others wait that would read a part of the rows each.
    let keys_max = scanned_rows.saturating_sub(1) / (PROBE_COST * cores.max(1));
    let Some(keys) = set.keys(keys_max) else {
        return Ok(None);
    };
    let declared = Declared::from(index);
    let is_new = index.is_primary() && !IndexData::is_in_use(&declared);
    if is_new && !IndexData::pays(table, &declared, scanned_rows) {
        return Ok(None);
    }
    // Where memory is short the scan does without.
    let Ok(Some(reader)) = IndexData::reader_for(table, &declared, scanned_rows, budget) else {
        return Ok(None);
    };
    let probes = from_integer_keys(&keys, None, table.schema().field(column).data_type())?;
    let mut rows = vec![];
    reader.equal_rows(&[probes], |_, segment, row| {
        rows.push((segment, row));
        Ok(())
    })?;
    if rows.len().saturating_mul(ROW_COST) > scanned_rows {
        return Ok(None);
    }
    rows.sort_unstable();
    Ok(Some(rows))
}

/// The share of rows that pass where nothing is known of the values.
fn unknown(constraint: &Constraint) -> f64 {
    match constraint {
        Constraint::Points(values) => (values.len() as f64 * POINT_SHARE).min(1.0),
        Constraint::Range(low, high) => unknown_range(low, high),
        Constraint::Ranges(ranges) => ranges
            .iter()
            .map(|(low, high)| unknown_range(low, high))
            .sum::<f64>()
            .min(1.0),
    }
}

fn unknown_range(low: &Option<ScalarValue>, high: &Option<ScalarValue>) -> f64 {
    match (low, high) {
        (Some(_), Some(_)) => POINT_SHARE,
        _ => RANGE_SHARE,
    }
}

/// Rows that pass the constraints, by the table's statistics alone.
fn estimated_rows(table: &TableVersion, used: &[(usize, &Constraint)]) -> f64 {
    let share = |(column, constraint): &(usize, &Constraint)| {
        let Some(statistics) = table.statistics().columns.get(*column) else {
            return unknown(constraint);
        };
        let distinct = statistics.distinct().max(1) as f64;
        let number = |value: &Option<ScalarValue>| {
            let value = value.as_ref()?.to_array().ok()?;
            bound_number(&tenon_storage::ColumnStatistics::of_array(&value).min)
        };
        let range = |low: &Option<ScalarValue>, high: &Option<ScalarValue>| match (
            bound_number(&statistics.min),
            bound_number(&statistics.max),
        ) {
            (Some(min), Some(max)) if max > min => {
                let (low, high) = (number(low).unwrap_or(min), number(high).unwrap_or(max));
                ((high.min(max) - low.max(min)) / (max - min)).clamp(1.0 / distinct, 1.0)
            }
            _ => unknown_range(low, high),
        };
        match constraint {
            Constraint::Points(values) => (values.len() as f64 / distinct).min(1.0),
            Constraint::Range(low, high) => range(low, high),
            Constraint::Ranges(ranges) => ranges.iter().map(|(low, high)| range(low, high)).sum::<f64>().min(1.0),
        }
    };
    table.rows() as f64 * used.iter().map(share).product::<f64>()
}

fn bound_number(bound: &Option<Bound>) -> Option<f64> {
    match bound.as_ref()? {
        Bound::Int(value) => Some(*value as f64),
        Bound::Decimal(value) => Some(*value as f64),
        Bound::Float(value) => Some(*value),
        Bound::Bool(_) | Bound::Bytes(_) => None,
    }
}
