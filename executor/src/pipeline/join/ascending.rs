//! The rows of a build side as they lie, where their table ascends by the key: nothing is built but the keys as words, one
//! after the other, and probes search them (He 2008, section 4.2's indexed nested-loop join, over a sorted array). Probes that
//! come in the key's order, too, read what their neighbours have just read, as a sort-merge join's do (section 4.3).
//!
//! On an H100 a table of hashes was slower (`bench/results/tpch-h100-gpu.txt`), but for probes in no order that are a hundred
//! million and more of as many keys: there it took a tenth less, and more than twice the memory.

use arrow::datatypes::DataType;

use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input, Source};
use super::super::made::Made;
use super::super::passes::ScanColumn;
use super::table::{Head, Word};
use crate::codegen::{Range, c_number};

#[derive(Clone)]
pub struct AscendingKeys {
    /// Words count from the lowest.
    range: Range,
    /// The array of the words, in the order of the rows.
    pub words: usize,
    /// Whether no two rows have one key.
    single: bool,
}

impl AscendingKeys {
    /// Whether the rows of a whole table ascend by the one key that they have: a scan's column.
    pub fn fit(fragment: &Fragment, flow: &Flow, keys: &[Option<ScanColumn>]) -> bool {
        let (&[Some((scan, column))], &Source::Scan(own)) = (keys, &flow.source) else {
            return false;
        };
        let table = &fragment.scans[scan].table;
        let statistics = &table.statistics().columns[column];
        // Texts have codes, which are in no order.
        let is_text = *table.schema().field(column).data_type() == DataType::Utf8View;
        scan == own && !is_text && statistics.ascending && statistics.null_count == 0
    }

    /// Writes the key of the row at hand, in order, which is `at`.
    pub fn put(fragment: &mut Fragment, flow: &mut Flow, key: &Word, made: &Made, single: bool) -> Self {
        let words = fragment.array(made.room, 8, None);
        let to = flow.array(Input::Array(words), "u64");
        flow.line(&format!(
            "{to}[at] = (u64){} - (u64)({});",
            key.word,
            c_number(key.range.0)
        ));
        Self {
            range: key.range,
            words,
            single,
        }
    }

    /// The rows of a key.
    pub fn head(&self, flow: &mut Flow, made: &Made, key: &str, null: Option<&str>) -> Head {
        flow.far = true;
        let count = flow.array(Input::Array(made.count), "const u32");
        let words = flow.array(Input::Array(self.words), "const u64");
        let (low, high) = (c_number(self.range.0), c_number(self.range.1));
        let mut name = |c_type: &str, data_type| {
            let defined = flow.translator.define(c_type, "0".into(), None, data_type, None);
            defined.value
        };
        let (place, word) = (name("u32", DataType::UInt32), name("u64", DataType::UInt64));
        let own = null.map(|null| format!("!{null} && ")).unwrap_or_default();
        let is_own = format!("{place} < {count}[0] && {words}[{place}] == {word}");
        flow.line(&format!(
            "if ({own}{key} >= {low} && {key} <= {high}) {{ \
             {word} = (u64){key} - (u64)({low}); \
             {place} = first_from({words}, 0, {count}[0], {word}); \
             {place} = {is_own} ? {place} + 1 : 0u; }}"
        ));
        Head {
            row: format!("({place} - 1)"),
            next: match self.single {
                true => "0u".into(),
                false => format!("({is_own} ? {place} + 1 : 0u)"),
            },
            name: place,
        }
    }
}
