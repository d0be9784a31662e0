//! The table of a build side, and how its rows are found.
//!
//! More than 400 lines because building, testing and probing agree on one index.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use tenon_storage::TableVersion;

use super::super::col::Col;
use super::super::compile;
use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input};
use super::super::made::Made;
use super::super::passes::{ScanColumn, Stage};
use super::Sides;
use super::ascending::{AscendingKeys, Ascends};
use super::keys::{Form, Word, Words, build_words, probe_words};
use super::sorted::SortedKeys;
use crate::codegen::{Range, Translated, c_number};
use crate::join::Operator;

/// Entries of an array over a key's range: always allowed, and for each row of the table.
const RANGE_ALWAYS: u64 = 1 << 20;
const RANGE_PER_ROW: u64 = 16;

/// Pairs of a join without keys: nobody can stop a pipeline that is under way.
const ALL_PAIRS_MAX: u64 = 1 << 26;

/// Bits of a test of hashes for each bucket: as many as a cache holds beside what else is read, and at least so many.
const TEST_BITS: u64 = 16;
const TEST_BITS_CACHED: u64 = 1 << 25;
const TEST_BITS_LEAST: u64 = 4;
/// Where a hash's second bit is from: above what says which word.
const TEST_SECOND: u32 = 50;

/// Where a probe is among the rows that it may meet.
pub struct Head {
    /// A name for the place, counted from 1; 0: there are no more.
    pub name: String,
    /// C++ of the number of the row at hand.
    pub row: String,
    /// C++ of the next place.
    pub next: String,
}

/// How the rows of a build side are found.
pub struct Table {
    pub made: Made,
    heads: usize,
    /// None: no two rows have one key.
    pub next: Option<usize>,
    /// Whether two have, which their pipeline finds out; None: it does not.
    chained: Option<usize>,
    index: Index,
    /// Of the keys' words.
    pub types: Vec<DataType>,
    /// By what the keys are known.
    pub forms: Vec<Form>,
    /// Of keys that are hashes: which word, and the array of where the texts are.
    places: Vec<(usize, usize)>,
    /// What it tells scans of the other side, where there are such.
    pub test: Option<Test>,
    /// Of a NOT IN, where there may be nulls: the array of which rows' keys are.
    pub null_keys: Option<usize>,
    /// The scans' columns that have the keys' values.
    pub equals: Vec<Option<ScanColumn>>,
}

#[derive(Clone)]
enum Index {
    Range(Range),
    /// Of the values of a pass.
    Pass,
    /// Buckets less one, and the keys by row.
    Hash(u64, Vec<usize>),
    /// There is no key: all rows are one chain, from the last to the first.
    All,
    /// There is an order: rows that the condition may hold for lie side by side.
    Sorted(Arc<SortedKeys>),
    /// Rows are searched in the order of their key.
    Ascending(AscendingKeys),
}

/// What a table tells of rows elsewhere: those whose keys have no bit set have no partner.
pub struct Test {
    bits: usize,
    index: Index,
    types: Vec<DataType>,
    forms: Vec<Form>,
    stage: Stage,
}

impl Test {
    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.forms.len()
    }

    /// When it is known.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Rows of the flow with such keys go on if they may have a partner.
    pub fn apply(&self, flow: &mut Flow, keys: Vec<Col>) -> Translated<()> {
        let words = flow.beside(keys, |flow, first| {
            let keys = (0..self.forms.len()).map(|at| Arc::new(Column::new("key", first + at)) as PhysicalExprRef);
            probe_words(flow, &keys.collect::<Vec<_>>(), &self.forms, false)
        })?;
        if words.words.iter().map(|word| &word.data_type).eq(&self.types) {
            let absent = words.absent();
            let (word, bits, tests) = test_bits(flow, &self.index, &words.words, absent.as_deref());
            let array = flow.array(Input::Array(self.bits), "const u32");
            let are_set = format!("({array}[{word}] & {bits}) == {bits}");
            flow.only_if(&tests.into_iter().chain([are_set]).collect::<Vec<_>>().join(" && "));
        }
        Ok(())
    }
}

impl Table {
    /// Ends the build side in a table.
    pub fn build(fragment: &mut Fragment, sides: &Sides<'_>) -> Translated<Table> {
        let mut flow = compile::flow(fragment, sides.build)?;
        let (first, stage) = (fragment.arrays.len(), flow.stage);
        let equals = equals(&flow, sides.build_keys);
        let whole = flow.is_whole();
        let unique = has_unique_key(&flow, sides.build_keys);
        let spec = sides.join.spec();
        let (Words { words: keys, null, .. }, forms) = build_words(&mut flow, sides.build_keys, spec.null_equal)?;
        let present = null.as_ref().map(|null| format!("!{null}"));
        // Rows without a key have no partner; these joins put them out.
        let keeps_all = matches!(sides.join_type, JoinType::LeftAnti | JoinType::Full);
        if let Some(present) = present.as_ref().filter(|_| !keeps_all) {
            flow.only_if(present);
        }
        let length = |(low, high): Range| u64::try_from(high - low).unwrap_or(u64::MAX).saturating_add(1);
        let allowed = |rows: u64| RANGE_ALWAYS.max(rows.saturating_mul(RANGE_PER_ROW));
        let order = match &keys[..] {
            _ if !whole => None,
            [key] if length(key.range) > allowed(flow.rows_max) => {
                AscendingKeys::fit(fragment, &flow, &equals, key.range)
            }
            [] => SortedKeys::by_index(fragment, &mut flow, sides)?.map(Ascends::ByIndex),
            _ => None,
        };
        let reads = |index| sides.reads_build(index);
        let made = match order {
            Some(Ascends::ByIndex(_)) => Made::in_place(fragment, &mut flow, reads)?,
            _ => Made::of(fragment, &mut flow, reads)?,
        };
        let order = order.filter(|_| made.in_order);
        let mut null_keys = None;
        if let Some(null) = null.filter(|_| spec.null_aware) {
            let id = fragment.array(made.room, 1, None);
            let array = flow.array(Input::Array(id), "u8");
            flow.line(&format!("{array}[at] = {null};"));
            null_keys = Some(id);
        }
        if let Some(present) = present.as_ref().filter(|_| keeps_all) {
            flow.only_if(present);
        }
        if keys.is_empty() {
            let order = order.and_then(Ascends::index);
            let index = match SortedKeys::put(fragment, flow, sides, &made, order)? {
                Some(sorted) => Index::Sorted(Arc::new(sorted)),
                None => Index::All,
            };
            fragment.arrays_of(stage, first);
            return Ok(Table {
                equals,
                heads: made.count,
                next: Some(made.count),
                chained: None,
                made,
                index,
                types: vec![],
                forms,
                places: vec![],
                test: None,
                null_keys,
            });
        }
        // Where rows are not known to be few, so that the code is the same whatever was seen.
        let rows = if fragment.is_sparing() {
            made.room
        } else {
            made.rows_max
        };
        let allowed = allowed(rows);
        if let ([key], Some(order)) = (&keys[..], order) {
            let own = AscendingKeys::put(fragment, flow, key, &made, (order, unique))?;
            fragment.arrays_of(stage, first);
            return Ok(Table {
                equals,
                heads: made.count,
                next: (!unique).then_some(own.words),
                chained: None,
                made,
                index: Index::Ascending(own),
                types: vec![key.data_type.clone()],
                forms,
                places: vec![],
                test: None,
                null_keys,
            });
        }
        let passes = fragment.passes().cloned();
        let passes = passes.filter(|passes| stage == Stage::Pass && passes.length <= allowed);
        let mut places = vec![];
        let (index, buckets, bucket) = match &keys[..] {
            [Word { word, .. }]
                if let Some(passes) = &passes
                    && passes.has(equals[0]) =>
            {
                let (low, _) = flow.pass_bounds();
                (Index::Pass, passes.length, format!("(u64)({word} - {low})"))
            }
            [Word { word, range, .. }] if length(*range) <= allowed => (
                Index::Range(*range),
                length(*range),
                format!("(u64)({word} - ({}))", c_number(range.0)),
            ),
            _ => {
                let buckets = made.room.saturating_mul(2).next_power_of_two().max(2);
                let mut arrays = vec![];
                for Word { word: key, .. } in &keys {
                    let id = fragment.array(made.room, 8, None);
                    let array = flow.array(Input::Array(id), "i64");
                    flow.line(&format!("{array}[at] = {key};"));
                    arrays.push(id);
                }
                for (at, text) in keys
                    .iter()
                    .enumerate()
                    .filter_map(|(at, key)| Some((at, key.text.as_ref()?)))
                {
                    let id = fragment.array(made.room, 8, None);
                    let array = flow.array(Input::Array(id), "u64");
                    flow.line(&format!("{array}[at] = text_place(p, {text});"));
                    flow.keeps_texts = true;
                    places.push((at, id));
                }
                let mask = flow.number(buckets - 1);
                (
                    Index::Hash(buckets - 1, arrays),
                    buckets,
                    format!("{} & {mask}", hash(&keys)),
                )
            }
        };
        let heads = fragment.array(buckets, 4, Some(0));
        let heads_at = flow.array(Input::Array(heads), "u32");
        let by_value = matches!(index, Index::Range(_) | Index::Pass);
        let single = unique && by_value;
        let next = (!single).then(|| fragment.array(made.room, 4, None));
        // In a range of keys, rows of one place have one key.
        let chained = (next.is_some() && by_value).then(|| fragment.array(1, 4, Some(0)));
        match next {
            None => flow.line(&format!("{heads_at}[{bucket}] = at + 1;")),
            Some(next) => {
                let next = flow.array(Input::Array(next), "u32");
                let chained = match chained {
                    Some(chained) => flow.array(Input::Array(chained), "u32"),
                    None => "nullptr".into(),
                };
                flow.line(&format!("chain({heads_at}, {next}, {chained}, {bucket}, at);"));
            }
        }
        let types: Vec<DataType> = keys.iter().map(|key| key.data_type.clone()).collect();
        let mut test = None;
        // All rows of a table that has most values of a range would rule nothing out.
        let rules_out = !(whole && by_value && made.rows_max * 2 >= buckets);
        if rules_out && sides.build_side == JoinSide::Left && !sides.join.filters().is_empty() {
            // Of hashes there are more bits than buckets, so that few are set by others.
            let (index, length) = match &index {
                Index::Hash(mask, arrays) => {
                    let buckets = mask + 1;
                    let length = buckets.saturating_mul(TEST_BITS).min(TEST_BITS_CACHED);
                    let length = length.max(buckets.saturating_mul(TEST_BITS_LEAST));
                    (Index::Hash(length - 1, arrays.clone()), length)
                }
                other => (other.clone(), buckets),
            };
            let array = fragment.array(length.div_ceil(32), 4, Some(0));
            let (word, bits, _) = test_bits(&mut flow, &index, &keys, None);
            let words = flow.array(Input::Array(array), "u32");
            flow.line(&format!("atomicOr(&{words}[{word}], {bits});"));
            test = Some(Test {
                bits: array,
                index,
                types: types.clone(),
                forms: forms.clone(),
                stage,
            });
        }
        flow.finish(fragment)?;
        fragment.arrays_of(stage, first);
        Ok(Table {
            equals,
            made,
            heads,
            next,
            chained,
            index,
            types,
            forms,
            places,
            test,
            null_keys,
        })
    }

    /// By which operator its rows are found, whether an index says where, and how in words; `probes`: the scan's column that the
    /// other side's key is.
    pub fn operator(&self, fragment: &Fragment, probes: Option<ScanColumn>) -> (Operator, bool, &'static str) {
        let ascends = |(scan, column): ScanColumn| {
            let table: &TableVersion = &fragment.scans[scan].table;
            table.statistics().columns[column].ascending
        };
        match &self.index {
            Index::Range(_) => (Operator::Hj, false, "an array of the keys' range"),
            Index::Pass => (
                Operator::Hj,
                false,
                "an array of the keys of each pass, as the state exceeds the memory",
            ),
            Index::Hash(..) => (Operator::Hj, false, "a table of hashes"),
            Index::All => (Operator::Ninlj, false, "each row with each"),
            Index::Sorted(own) if own.by_index => {
                (Operator::Inlj, true, "bounds are searched in the order of an index")
            }
            Index::Sorted(_) => (Operator::Smj, false, "sorted by the bounded key, searched"),
            Index::Ascending(own) if own.is_by_index() => {
                (Operator::Inlj, true, "keys are searched in the order of an index")
            }
            Index::Ascending(_) if probes.is_some_and(ascends) => {
                (Operator::Smj, false, "both sides lie in the order of the key")
            }
            Index::Ascending(_) => (
                Operator::Inlj,
                false,
                "keys are searched where the table lies in their order",
            ),
        }
    }

    /// Refuses rows of a probe side that would take too long.
    pub fn allows(&self, probe_rows: u64) -> Translated<()> {
        match self.index {
            Index::All if self.made.rows_max.saturating_mul(probe_rows) > ALL_PAIRS_MAX => {
                Err("a join by other than equality with many rows".into())
            }
            _ => Ok(()),
        }
    }

    /// A name for the first row of a key's chain, counted from 1; 0: there is none.
    pub fn head(&self, flow: &mut Flow, keys: &[Word], null: Option<&str>) -> Translated<Head> {
        if let Index::Sorted(sorted) = &self.index {
            return sorted.head(flow, &self.made);
        }
        if let Index::Ascending(own) = &self.index {
            return Ok(own.head(flow, &self.made, &keys[0].word, null));
        }
        let name = self.first(flow, keys, null);
        Ok(Head {
            row: format!("({name} - 1)"),
            next: self.next_of(flow, &name),
            name,
        })
    }

    fn first(&self, flow: &mut Flow, keys: &[Word], null: Option<&str>) -> String {
        if matches!(self.index, Index::All) {
            let heads = flow.array(Input::Array(self.heads), "const u32");
            let room = flow.number(self.made.room);
            let load = format!("(u32)min_of<u64>({heads}[0], {room})");
            return flow.translator.define("u32", load, None, DataType::UInt32, None).value;
        }
        flow.far = true;
        let heads = flow.array(Input::Array(self.heads), "const u32");
        let (bucket, tests) = bucket(flow, &self.index, keys, null);
        let load = match tests.is_empty() {
            true => format!("{heads}[{bucket}]"),
            false => format!("{} ? {heads}[{bucket}] : 0u", tests.join(" && ")),
        };
        flow.translator.define("u32", load, None, DataType::UInt32, None).value
    }

    /// C++ of the row behind the one at hand.
    fn next_of(&self, flow: &mut Flow, head: &str) -> String {
        match self.next {
            Some(_) if matches!(self.index, Index::All) => format!("{head} - 1"),
            Some(next) => {
                let row = format!("{}[{head} - 1]", flow.array(Input::Array(next), "const u32"));
                let Some(chained) = self.chained else { return row };
                // Mostly no two rows have one key, and what is never read needs not come from the memory.
                let name = format!("chained{chained}");
                let array = flow.array(Input::Array(chained), "const u32");
                flow.begin += &format!("    const bool {name} = {array}[0] != 0;\n");
                format!("({name} ? {row} : 0u)")
            }
            None => "0".into(),
        }
    }

    /// C++ of whether the row at hand has these keys.
    pub fn equal(&self, flow: &mut Flow, keys: &[Word], row: &str) -> String {
        let Index::Hash(_, arrays) = &self.index else {
            return "true".into();
        };
        let tests = arrays.iter().zip(keys).map(|(id, key)| {
            let array = flow.array(Input::Array(*id), "const i64");
            format!("{array}[{row}] == {}", key.word)
        });
        let mut tests: Vec<String> = tests.collect();
        for (at, id) in &self.places {
            let (array, text) = (flow.array(Input::Array(*id), "const u64"), keys[*at].text.as_deref());
            let text = text.unwrap_or("Text()");
            tests.push(format!("text_equal(text_placed({array}[{row}]), {text})"));
        }
        format!("({})", tests.join(" && "))
    }
}

/// C++ of which of a test's words has a key's bits, of these bits, and of when there are such: one for a key of a range; two
/// within the word for a hash, as a blocked Bloom filter has them (Putze, Sanders and Singler, "Cache-, hash- and space-efficient
/// Bloom filters", 2007).
fn test_bits(flow: &mut Flow, index: &Index, keys: &[Word], null: Option<&str>) -> (String, String, Vec<String>) {
    let (bit, tests) = bucket(flow, index, keys, null);
    let mut number = |value: String| flow.translator.define("u64", value, None, DataType::UInt64, None).value;
    match index {
        Index::Hash(mask, _) => {
            let hash = number(hash(keys));
            let mask = flow.number(*mask);
            let bits = format!("(1u << ({hash} & 31) | 1u << ({hash} >> {TEST_SECOND} & 31))");
            (format!("({hash} & {mask}) >> 5"), bits, tests)
        }
        _ => {
            let bit = number(bit);
            (format!("{bit} >> 5"), format!("(1u << ({bit} & 31))"), tests)
        }
    }
}

/// C++ of the number of a key's bucket, and of when there is one.
fn bucket(flow: &mut Flow, index: &Index, keys: &[Word], null: Option<&str>) -> (String, Vec<String>) {
    let (bucket, within) = match index {
        Index::Range((low, high)) => {
            let key = &keys[0].word;
            let (low, high) = (c_number(*low), c_number(*high));
            (
                format!("(u64)({key} - ({low}))"),
                Some(format!("{key} >= {low} && {key} <= {high}")),
            )
        }
        Index::Pass => {
            let key = &keys[0].word;
            let (low, high) = flow.pass_bounds();
            (
                format!("(u64)({key} - {low})"),
                Some(format!("{key} >= {low} && {key} <= {high}")),
            )
        }
        Index::All | Index::Sorted(_) | Index::Ascending(_) => ("0".into(), None),
        Index::Hash(mask, _) => {
            let mask = flow.number(*mask);
            (format!("({} & {mask})", hash(keys)), None)
        }
    };
    let tests = null.map(|null| format!("!{null}")).into_iter().chain(within);
    (bucket, tests.collect())
}

fn hash(keys: &[Word]) -> String {
    let words = keys.iter();
    let hash = words.fold("0ull".to_string(), |hash, key| {
        format!("mixed({hash}, (u64){})", key.word)
    });
    format!("({hash} >> 3)")
}

/// The scans' columns that have all values of these keys.
pub fn equals(flow: &Flow, keys: &[PhysicalExprRef]) -> Vec<Option<ScanColumn>> {
    let equals = |key: &PhysicalExprRef| flow.columns.get(key.downcast_ref::<Column>()?.index())?.equals;
    keys.iter().map(equals).collect()
}

/// Whether no two rows of the build side have one key, as statistics prove it.
fn has_unique_key(flow: &Flow, keys: &[PhysicalExprRef]) -> bool {
    let [key] = keys else {
        return false;
    };
    let column = key.downcast_ref::<Column>();
    let column = column.and_then(|column| flow.columns.get(column.index()));
    !flow.multiplied && column.is_some_and(|column| column.unique)
}
