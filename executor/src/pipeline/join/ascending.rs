//! The rows of a build side in the order of their key, as they lie where their table ascends by it, or by an order that is kept
//! where an index has it: nothing else is built but the keys as words, one after the other, and probes search them (He 2008,
//! section 4.2's indexed nested-loop join, over a sorted array). Probes that come in the key's order, too, read what their
//! neighbours have just read, as a sort-merge join's do (section 4.3).
//!
//! On an H100 a table of hashes was slower (`bench/results/tpch-h100-gpu.txt`), but for probes in no order that are a hundred
//! million and more of as many keys: there it took a tenth less, and more than twice the memory.

use arrow::datatypes::DataType;

use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input, Source};
use super::super::made::Made;
use super::super::orders::{OrderOf, has_words};
use super::super::passes::ScanColumn;
use super::keys::Word;
use super::table::Head;
use crate::codegen::{Range, Translated, c_number};

#[derive(Clone)]
pub struct AscendingKeys {
    /// Words count from the lowest.
    range: Range,
    /// The array of the words, ascending.
    pub words: usize,
    /// The array of the rows that they are of; None: one after the other.
    rows: Option<usize>,
    /// Whether no two rows have one key.
    single: bool,
}

/// How the rows of a whole table come in the order of the one key that they have.
pub enum Ascends {
    AsTheyLie,
    ByIndex(OrderOf),
}

impl Ascends {
    pub fn index(self) -> Option<OrderOf> {
        match self {
            Self::AsTheyLie => None,
            Self::ByIndex(order) => Some(order),
        }
    }
}

impl AscendingKeys {
    /// None: in none.
    pub fn fit(fragment: &Fragment, flow: &Flow, keys: &[Option<ScanColumn>], range: Range) -> Option<Ascends> {
        let (&[Some((scan, column))], &Source::Scan(own)) = (keys, &flow.source) else {
            return None;
        };
        if scan != own {
            return None;
        }
        let table = &fragment.scans[scan].table;
        if table.statistics().columns[column].ascending && has_words(table, column) {
            return Some(Ascends::AsTheyLie);
        }
        OrderOf::fit(fragment, (scan, column), range).map(Ascends::ByIndex)
    }

    /// Ends the build side's rows, which are put into `made` as `at`, with the words of their key.
    pub fn put(
        fragment: &mut Fragment,
        mut flow: Flow,
        key: &Word,
        made: &Made,
        (ascends, single): (Ascends, bool),
    ) -> Translated<Self> {
        let words = fragment.array(made.room, 8, None);
        let to = flow.array(Input::Array(words), "u64");
        flow.line(&format!(
            "{to}[at] = (u64){} - (u64)({});",
            key.word,
            c_number(key.range.0)
        ));
        // Nothing else is made of rows whose columns are read in place.
        let alone = matches!(ascends, Ascends::ByIndex(_)) && made.is_in_place();
        flow.end_in(fragment, alone.then_some(words))?;
        let (rows, words) = match ascends {
            Ascends::AsTheyLie => (None, words),
            Ascends::ByIndex(of) => {
                let bits = (u64::BITS - ((key.range.1 - key.range.0) as u64).leading_zeros()).max(1);
                let (rows, words) = fragment.kept_order((made.count, made.room), (words, bits), of);
                (Some(rows), words)
            }
        };
        Ok(Self {
            range: key.range,
            words,
            rows,
            single,
        })
    }

    pub fn is_by_index(&self) -> bool {
        self.rows.is_some()
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
        let row = format!("({place} - 1)");
        Head {
            row: match self.rows {
                Some(rows) => format!("{}[{row}]", flow.array(Input::Array(rows), "const u32")),
                None => row,
            },
            next: match self.single {
                true => "0u".into(),
                false => format!("({is_own} ? {place} + 1 : 0u)"),
            },
            name: place,
        }
    }
}
