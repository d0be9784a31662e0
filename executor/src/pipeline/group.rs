//! Grouping in pipelines: where a group's sums are depends on what is known of the keys.
//!
//! | groups | sums |
//! | --- | --- |
//! | one | a thread's registers, reduced at the end |
//! | few, by keys of small ranges | a thread's own in shared memory, reduced at the end |
//! | more, by keys of small ranges | a block's in shared memory, added up at the end |
//! | by keys of ranges that an array can be over | an array, by atomic operations |
//! | any | a hash table |
//!
//! Sums are exact: of 64 bits where the bounds of the argument prove that it holds them, else of two words.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use tenon_gpu::tuning::PIPELINE_THREADS;

use super::flow::{Flow, codes, is_unique};
use super::fragment::{Fragment, Input, Source};
use crate::aggregate::{Cell, GroupSpec, Recipe};
use crate::codegen::{Translated, Value, c_number, c_type};

/// Shared memory that a block's groups may take.
const SHARED_BYTES: u64 = 96 << 10;
/// Entries of an array of groups that the host reads as they are.
const SLOTS_READ_MAX: u64 = 1 << 14;
/// Entries of an array of groups.
const DIRECT_MAX: u64 = 1 << 27;

/// What of a fragment's result is where.
pub struct Grouping {
    pub keys: Vec<Key>,
    /// The arrays of each cell's words.
    pub words: Vec<Vec<usize>>,
    pub cells: Vec<Cell>,
    pub recipes: Vec<Recipe>,
    pub groups: Groups,
}

/// A key of the result.
pub struct Key {
    pub data_type: DataType,
    pub texts: Option<ArrayRef>,
    pub place: Place,
}

/// Where a key's values are.
pub enum Place {
    /// A digit of the group's number: `number / stride % span`, from `low` on; the last is null, where there are nulls.
    Digit {
        stride: u64,
        span: u64,
        low: i64,
        nullable: bool,
    },
    /// A word of the group's key; the last word says which keys are null.
    Word { word: usize, null_bit: Option<usize> },
    /// Kept beside the group: a position in a scan's table of the column's row.
    Late { array: usize, scan: usize, column: usize, null: Option<usize> },
}

/// The groups of the result.
#[derive(Clone, Copy)]
pub enum Groups {
    /// There is one.
    One,
    /// Of so many numbers those that the cell has counted rows of; where these were put together, the arrays of how many
    /// there are and of their numbers.
    Numbered {
        slots: u64,
        counted: usize,
        listed: Option<(usize, usize)>,
    },
    /// As many as the first array says, with keys of so many words in the second.
    Listed { count: usize, keys: usize, words: usize, capacity: u64 },
}

/// How a cell's value comes about.
enum Update {
    /// 1 where this holds.
    Count(Option<String>),
    /// A number where it is not null; `wide`: of two words.
    Sum { value: Value, wide: bool },
}

impl Update {
    fn words(&self) -> usize {
        match self {
            Update::Sum { wide: true, .. } => 2,
            _ => 1,
        }
    }

    /// C++ that adds to the words at these places.
    fn line(&self, words: &[String], add: Add) -> String {
        match self {
            Update::Count(None) => add.word(&words[0], "1"),
            Update::Count(Some(null)) => format!("if (!{null}) {}", add.word(&words[0], "1")),
            Update::Sum { value, wide } => {
                let line = match wide {
                    true => add.wide(words, &value.value),
                    false => add.word(&words[0], &value.value),
                };
                match &value.null {
                    Some(null) => format!("if (!{null}) {{ {line} }}"),
                    None => line,
                }
            }
        }
    }
}

/// Whether words are a thread's own.
#[derive(Clone, Copy, PartialEq)]
enum Add {
    Own,
    Atomic,
}

impl Add {
    fn word(self, word: &str, value: &str) -> String {
        match self {
            Add::Own => format!("{word} += (u64){value};"),
            Add::Atomic => format!("add_word(&{word}, (u64){value});"),
        }
    }

    fn wide(self, words: &[String], value: &str) -> String {
        let [low, high] = [&words[0], &words[1]];
        match self {
            Add::Own => format!(
                "{{ i128 sum = bits_128({high}, {low}) + (i128){value}; {low} = (u64)sum; {high} = (u64)((u128)sum >> 64); }}"
            ),
            Add::Atomic => format!("add_wide(&{low}, &{high}, (i128){value});"),
        }
    }
}

/// A key as code.
struct Coded {
    /// C++ of a 64-bit word, from `low` to `high`.
    word: String,
    low: i128,
    high: i128,
    null: Option<String>,
    data_type: DataType,
    texts: Option<ArrayRef>,
}

/// Ends a flow in groups.
pub fn group(fragment: &mut Fragment, mut flow: Flow, spec: &GroupSpec, estimate: Option<usize>) -> Translated<()> {
    if spec.filters.iter().any(Option::is_some) {
        return Err("aggregates with FILTER".into());
    }
    let mut cells = vec![];
    let mut recipes = vec![];
    for aggregate in &spec.aggregates {
        let recipe = Recipe::of(aggregate, &spec.input_schema, &mut cells).map_err(|error| error.to_string())?;
        recipes.push(recipe.ok_or_else(|| format!("no device form of {}", aggregate.name()))?);
    }
    let (keys, late) = keys(fragment, &mut flow, spec)?;
    let mut updates = vec![];
    for cell in &cells {
        updates.push(update(&mut flow, cell)?);
    }
    // Which groups there are is seen from how many rows they have.
    let counted = cells.iter().position(|cell| matches!(cell, Cell::Count { arg: None, .. }));
    let counted = counted.unwrap_or_else(|| {
        cells.push(Cell::Count { arg: None, counts: vec![] });
        updates.push(Update::Count(None));
        cells.len() - 1
    });
    let width: usize = updates.iter().map(Update::words).sum();
    let spans: Vec<u64> = keys.iter().map(Coded::span).collect();
    let slots = spans.iter().try_fold(1u64, |slots, span| slots.checked_mul(*span)).unwrap_or(u64::MAX);
    let threads = u64::from(PIPELINE_THREADS);
    let own_bytes = slots.saturating_mul(8 * width as u64);
    let numbered = late.is_empty() && slots <= DIRECT_MAX && slots <= flow.rows_max.saturating_mul(4).max(1 << 12);
    let capacity = match numbered {
        true => slots,
        false => capacity(&flow, estimate),
    };
    // The words of all cells, one array each.
    let mut words = vec![];
    let mut global = vec![];
    for update in &updates {
        let own: Vec<usize> = (0..update.words()).map(|_| fragment.array(capacity, 8, Some(0))).collect();
        global.push(own.iter().map(|id| flow.array(Input::Array(*id), "u64")).collect::<Vec<_>>());
        words.push(own);
    }
    let mut result = Grouping {
        keys: vec![],
        words,
        cells,
        recipes,
        groups: Groups::One,
    };
    if !numbered {
        return listed(fragment, flow, result, (keys, late), (&updates, &global), capacity);
    }
    let number = number(&keys, &spans);
    let mut stride = 1;
    let mut places = vec![];
    for (key, span) in keys.iter().zip(&spans).rev() {
        places.push(Key {
            data_type: key.data_type.clone(),
            texts: key.texts.clone(),
            place: Place::Digit {
                stride,
                span: *span,
                low: key.low as i64,
                nullable: key.null.is_some(),
            },
        });
        stride *= span;
    }
    places.reverse();
    result.keys = places;
    if keys.is_empty() {
        in_registers(&mut flow, &updates, &global);
    } else {
        result.groups = Groups::Numbered { slots, counted, listed: None };
        let slot = flow.translator.define("u32", number, None, DataType::UInt32, None).value;
        if own_bytes.saturating_mul(threads) <= SHARED_BYTES {
            in_own(&mut flow, &updates, &global, (&slot, slots, width));
        } else if own_bytes <= SHARED_BYTES / 2 {
            in_shared(&mut flow, &updates, &global, (&slot, slots, width));
        } else {
            for (update, words) in updates.iter().zip(&global) {
                let words: Vec<String> = words.iter().map(|array| format!("{array}[{slot}]")).collect();
                flow.line(&update.line(&words, Add::Atomic));
            }
        }
    }
    flow.finish(fragment)?;
    if let Groups::Numbered { slots, counted, listed } = &mut result.groups
        && *slots > SLOTS_READ_MAX
    {
        *listed = Some(put_together(fragment, *slots, result.words[*counted][0], &mut result.words)?);
    }
    fragment.grouping = Some(result);
    Ok(())
}

/// A pipeline that puts the words of those numbers that have rows together; gives the arrays of their number and of these.
fn put_together(
    fragment: &mut Fragment,
    slots: u64,
    counted: usize,
    words: &mut [Vec<usize>],
) -> Translated<(usize, usize)> {
    let mut flow = Flow::new(Source::Numbers(slots), Arc::new(Schema::empty()), slots);
    let (count, numbers) = (fragment.array(1, 4, Some(0)), fragment.array(slots, 4, None));
    let counted = flow.array(Input::Array(counted), "const u64");
    flow.only_if(&format!("{counted}[row] != 0"));
    let (count_at, room) = (flow.array(Input::Array(count), "u32"), flow.number(slots));
    flow.line(&format!("u32 at = new_row(p, {count_at}, {room});"));
    flow.only_if("at != NO_ROW");
    let to = flow.array(Input::Array(numbers), "u32");
    flow.line(&format!("{to}[at] = row;"));
    for word in words.iter_mut().flatten() {
        let from = flow.array(Input::Array(*word), "const u64");
        *word = fragment.array(slots, 8, None);
        let to = flow.array(Input::Array(*word), "u64");
        flow.line(&format!("{to}[at] = {from}[row];"));
    }
    flow.finish(fragment)?;
    Ok((count, numbers))
}

/// Groups that a hash table shall have room for.
fn capacity(flow: &Flow, estimate: Option<usize>) -> u64 {
    let rows = match flow.multiplied {
        true => flow.rows_max.saturating_mul(4),
        false => flow.rows_max,
    };
    let expected = estimate.map_or(rows, |groups| (groups as u64).saturating_mul(4).saturating_add(1 << 16));
    expected.min(rows).max(1)
}

impl Coded {
    /// How many values it can have, null included.
    fn span(&self) -> u64 {
        let values = u64::try_from(self.high - self.low).unwrap_or(u64::MAX).saturating_add(1);
        values.saturating_add(u64::from(self.null.is_some()))
    }
}

/// A key that another one of the same table decides.
struct Late {
    at: usize,
    position: String,
    scan: usize,
    column: usize,
    data_type: DataType,
    null: Option<String>,
}

fn keys(fragment: &Fragment, flow: &mut Flow, spec: &GroupSpec) -> Translated<(Vec<Coded>, Vec<Late>)> {
    let column = |flow: &Flow, expr: &PhysicalExprRef| {
        let at = expr.downcast_ref::<Column>()?.index();
        Some((at, flow.columns.get(at)?.clone()))
    };
    // Scans of which a key names the row.
    let mut named = vec![];
    for (expr, _) in &spec.keys {
        if let Some((scan, own)) = column(flow, expr).and_then(|(_, col)| col.origin)
            && is_unique(&fragment.scans[scan].table, own)
        {
            named.push((scan, own));
        }
    }
    let (mut keys, mut late) = (vec![], vec![]);
    for (at, (expr, _)) in spec.keys.iter().enumerate() {
        let known = column(flow, expr);
        if let Some((index, col)) = &known {
            let given = flow.current()[*index].given.clone();
            if codes(&given).is_some() {
                let code = flow.translator.code_of(*index)?.ok_or("a code that is not there")?;
                let count = codes(&given).unwrap_or_default();
                keys.push(Coded {
                    word: format!("(i64){}", code.code),
                    low: 0,
                    high: count as i128 - 1,
                    null: code.null,
                    data_type: given.data_type.clone(),
                    texts: given.texts.clone(),
                });
                continue;
            }
            if c_type(&given.data_type)? == "Text"
                && let (Some((scan, own)), Some(position)) = (col.origin, &col.position)
                && named.iter().any(|(named, key)| *named == scan && *key != own)
            {
                late.push(Late {
                    at,
                    position: position.clone(),
                    scan,
                    column: own,
                    data_type: given.data_type.clone(),
                    null: given.null.clone(),
                });
                continue;
            }
        }
        let value = flow.translator.translate(expr)?;
        let (word, (low, high)) = flow.word(&value)?;
        keys.push(Coded {
            word,
            low,
            high,
            null: value.null,
            data_type: value.data_type,
            texts: None,
        });
    }
    Ok((keys, late))
}

fn update(flow: &mut Flow, cell: &Cell) -> Translated<Update> {
    Ok(match cell {
        Cell::Count { arg: None, .. } => Update::Count(None),
        Cell::Count { arg: Some(arg), .. } => {
            let null = match arg.downcast_ref::<Column>() {
                // Of a text only whether there is one.
                Some(column) if flow.current()[column.index()].given.null.is_none() => None,
                _ => flow.translator.translate(arg)?.null,
            };
            Update::Count(null)
        }
        Cell::Sum { arg, .. } => {
            let value = flow.translator.translate(arg)?;
            let (low, high) = value.range.ok_or_else(|| format!("sums of {}", value.data_type))?;
            let magnitude = low.unsigned_abs().max(high.unsigned_abs());
            let rows = match flow.multiplied {
                true => u128::MAX,
                false => u128::from(flow.rows_max),
            };
            let fits = magnitude.checked_mul(rows).is_some_and(|sum| sum < 1 << 63);
            Update::Sum { value, wide: !fits }
        }
    })
}

/// C++ of the number of the keys' group.
fn number(keys: &[Coded], spans: &[u64]) -> String {
    let mut number = String::from("0ull");
    for (key, span) in keys.iter().zip(spans) {
        let digit = format!("(u64)({} - ({}))", key.word, c_number(key.low));
        let digit = match &key.null {
            Some(null) => format!("({null} ? {}ull : {digit})", span - 1),
            None => digit,
        };
        number = format!("({number} * {span}ull + {digit})");
    }
    format!("(u32){number}")
}

/// One group: in registers.
fn in_registers(flow: &mut Flow, updates: &[Update], global: &[Vec<String>]) {
    for (cell, (update, words)) in updates.iter().zip(global).enumerate() {
        let own: Vec<String> = (0..words.len()).map(|word| format!("c{cell}_{word}")).collect();
        for name in &own {
            flow.begin += &format!("    u64 {name} = 0;\n");
        }
        flow.line(&update.line(&own, Add::Own));
        flow.end += &reduced(&own, &words.iter().map(|array| format!("{array}[0]")).collect::<Vec<_>>());
    }
}

/// Code that adds a warp's sums to the words at these places, once.
fn reduced(own: &[String], words: &[String]) -> String {
    match (own, words) {
        ([low, high], [to_low, to_high]) => format!(
            "    {{ i128 sum = warp_reduce(bits_128({high}, {low}), Sum()); \
             if (lane_id() == 0 && sum != 0) add_wide(&{to_low}, &{to_high}, sum); }}\n"
        ),
        _ => format!(
            "    {{ u64 sum = warp_reduce({}, Sum()); if (lane_id() == 0 && sum) add_word(&{}, sum); }}\n",
            own[0], words[0]
        ),
    }
}

/// Few groups: each thread's own, in shared memory, so that no two threads meet.
fn in_own(flow: &mut Flow, updates: &[Update], global: &[Vec<String>], (slot, slots, width): (&str, u64, usize)) {
    let threads = PIPELINE_THREADS;
    flow.shared_bytes = (slots * width as u64 * 8) as u32 * threads;
    flow.begin += &format!(
        "    TENON_DYNAMIC_SHARED(u64, own);\n    \
         for (u32 i = 0; i < {}u; i++) own[i * {threads}u + threadIdx.x] = 0;\n",
        slots * width as u64
    );
    flow.end += &format!("    for (u32 slot = 0; slot < {slots}u; slot++) {{\n");
    let mut first = 0;
    for (update, words) in updates.iter().zip(global) {
        let at = |slot: &str| -> Vec<String> {
            let word = |word: usize| format!("own[({slot} * {width}u + {}u) * {threads}u + threadIdx.x]", first + word);
            (0..words.len()).map(word).collect()
        };
        flow.line(&update.line(&at(slot), Add::Own));
        flow.end += &reduced(&at("slot"), &words.iter().map(|array| format!("{array}[slot]")).collect::<Vec<_>>());
        first += words.len();
    }
    flow.end += "    }\n";
}

/// More groups: a block's, in shared memory.
fn in_shared(flow: &mut Flow, updates: &[Update], global: &[Vec<String>], (slot, slots, width): (&str, u64, usize)) {
    let all = slots * width as u64;
    flow.shared_bytes = (all * 8) as u32;
    flow.begin += &format!(
        "    TENON_DYNAMIC_SHARED(u64, own);\n    \
         for (u32 i = threadIdx.x; i < {all}u; i += blockDim.x) own[i] = 0;\n    __syncthreads();\n"
    );
    flow.end += &format!(
        "    __syncthreads();\n    for (u32 slot = threadIdx.x; slot < {slots}u; slot += blockDim.x) {{\n"
    );
    let mut first = 0;
    for (update, words) in updates.iter().zip(global) {
        let at = |slot: &str| -> Vec<String> {
            (0..words.len()).map(|word| format!("own[{}u * {slots}u + {slot}]", first + word)).collect()
        };
        flow.line(&update.line(&at(slot), Add::Atomic));
        let (own, to) = (at("slot"), words);
        flow.end += &match &own[..] {
            [low, high] => format!(
                "        if ({low} | {high}) add_wide(&{}[slot], &{}[slot], bits_128({high}, {low}));\n",
                to[0], to[1]
            ),
            _ => format!("        if ({}) add_word(&{}[slot], {});\n", own[0], to[0], own[0]),
        };
        first += words.len();
    }
    flow.end += "    }\n";
}

/// Groups of a hash table.
fn listed(
    fragment: &mut Fragment,
    mut flow: Flow,
    mut result: Grouping,
    (keys, late): (Vec<Coded>, Vec<Late>),
    (updates, global): (&[Update], &[Vec<String>]),
    capacity: u64,
) -> Translated<()> {
    let nullable: Vec<usize> = (0..keys.len()).filter(|&key| keys[key].null.is_some()).collect();
    let words = keys.len() + usize::from(!nullable.is_empty());
    let slots = capacity.saturating_mul(2).next_power_of_two().max(2);
    let key_array = fragment.array(capacity.saturating_mul(words as u64), 8, None);
    let count = fragment.array(1, 4, Some(0));
    let slot_array = fragment.array(slots, 4, Some(0));
    let arrays = [
        flow.array(Input::Array(slot_array), "u32"),
        flow.array(Input::Array(key_array), "u64"),
        flow.array(Input::Array(count), "u32"),
        flow.number(capacity),
        flow.number(slots - 1),
    ];
    flow.begin += &format!("    const Groups<{words}> groups{{{}}};\n", arrays.join(", "));
    let mut parts: Vec<String> = keys
        .iter()
        .map(|key| match &key.null {
            Some(null) => format!("({null} ? 0ull : (u64){})", key.word),
            None => format!("(u64){}", key.word),
        })
        .collect();
    if !nullable.is_empty() {
        let bits = nullable.iter().enumerate();
        let bits = bits.map(|(bit, key)| format!("(u64){} << {bit}", keys[*key].null.as_deref().unwrap_or("false")));
        parts.push(bits.collect::<Vec<_>>().join(" | "));
    }
    flow.line(&format!("const u64 key[{words}] = {{{}}};", parts.join(", ")));
    flow.line("bool is_new; u32 group = groups.find(p, key, is_new);");
    flow.only_if("group != NO_ROW");
    let mut places: Vec<(usize, Key)> = vec![];
    let late_at: Vec<usize> = late.iter().map(|late| late.at).collect();
    let key_at = (0..keys.len() + late.len()).filter(|at| !late_at.contains(at));
    for ((word, key), at) in keys.into_iter().enumerate().zip(key_at) {
        let place = Place::Word {
            word,
            null_bit: nullable.iter().position(|&own| own == word),
        };
        let (data_type, texts) = (key.data_type, key.texts);
        places.push((at, Key { data_type, texts, place }));
    }
    for late in late {
        let array = fragment.array(capacity, 4, None);
        let to = flow.array(Input::Array(array), "u32");
        let null = late.null.as_ref().map(|_| fragment.array(capacity, 1, None));
        let null_to = null.map(|id| flow.array(Input::Array(id), "u8"));
        let null_line = match (&late.null, null_to) {
            (Some(null), Some(to)) => format!(" {to}[group] = {null};"),
            _ => String::new(),
        };
        flow.line(&format!("if (is_new) {{ {to}[group] = {};{null_line} }}", late.position));
        let place = Place::Late {
            array,
            scan: late.scan,
            column: late.column,
            null,
        };
        let (data_type, texts) = (late.data_type, None);
        places.push((late.at, Key { data_type, texts, place }));
    }
    places.sort_by_key(|(at, _)| *at);
    result.keys = places.into_iter().map(|(_, key)| key).collect();
    for (update, words) in updates.iter().zip(global) {
        let words: Vec<String> = words.iter().map(|array| format!("{array}[group]")).collect();
        flow.line(&update.line(&words, Add::Atomic));
    }
    result.groups = Groups::Listed {
        count,
        keys: key_array,
        words,
        capacity,
    };
    fragment.grouping = Some(result);
    flow.finish(fragment)
}
