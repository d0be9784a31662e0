//! Groups of a hash table.

use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input};
use super::Update;
use super::keys::{Coded, Late, Whole};
use super::{Distincts, Grouping, Groups, Key, KeyLocation};
use crate::codegen::Translated;

/// The array that groups are counted in, how many there may be, and how many have room.
pub struct Table {
    pub count: usize,
    pub groups_max: u64,
    pub capacity: u64,
}

/// Ends a flow in groups of a hash table: `late` are kept beside the group that they are decided by.
pub fn listed(
    fragment: &mut Fragment,
    mut flow: Flow,
    mut result: Grouping,
    (keys, late): (Vec<Coded>, Vec<Late>),
    (updates, global, distincts): (&[Update], &[Vec<String>], &Distincts),
    Table {
        count,
        groups_max,
        capacity,
    }: Table,
) -> Translated<Grouping> {
    let nullable: Vec<usize> = (0..keys.len()).filter(|&key| keys[key].null.is_some()).collect();
    let numbers = keys.len() + keys.iter().filter(|key| key.above.is_some()).count();
    let words = numbers + usize::from(!nullable.is_empty());
    let slots = capacity.saturating_mul(2).next_power_of_two().max(2);
    let whole: Vec<&Whole> = keys.iter().filter_map(|key| key.text.as_ref()).collect();
    let stored = words + whole.len();
    flow.keeps_texts |= !whole.is_empty();
    let key_array = fragment.array(capacity.saturating_mul(stored as u64), 8, None);
    let slot_array = fragment.array(slots, 4, Some(0));
    let arrays = [
        flow.array(Input::Array(slot_array), "u32"),
        flow.array(Input::Array(key_array), "u64"),
        flow.array(Input::Array(count), "u32"),
        flow.number(capacity),
        flow.number(slots - 1),
    ];
    flow.begin += &format!("    const Groups<{words}, {stored}> groups{{{}}};\n", arrays.join(", "));
    let mut parts: Vec<String> = vec![];
    let mut word_at = vec![];
    for key in &keys {
        word_at.push(parts.len());
        for word in [&key.word].into_iter().chain(&key.above) {
            parts.push(match &key.null {
                Some(null) => format!("({null} ? 0ull : (u64){word})"),
                None => format!("(u64){word}"),
            });
        }
    }
    if !nullable.is_empty() {
        let bits = nullable.iter().enumerate();
        let bits = bits.map(|(bit, key)| format!("(u64){} << {bit}", keys[*key].null.as_deref().unwrap_or("false")));
        parts.push(bits.collect::<Vec<_>>().join(" | "));
    }
    // Texts of one hash may differ: where each is, is kept behind the words.
    parts.extend(whole.iter().map(|text| format!("text_place(p, {})", text.value)));
    let same = whole.iter().enumerate().map(|(at, text)| {
        let value = &text.value;
        format!("text_equal(text_placed(groups.word(group, {})), {value})", words + at)
    });
    let same = same
        .reduce(|all, one| format!("{all} && {one}"))
        .unwrap_or("true".into());
    flow.line(&format!("const u64 key[{stored}] = {{{}}};", parts.join(", ")));
    flow.line(&format!(
        "bool is_new; u32 group = groups.find(p, key, is_new, [&](u32 group) {{ return {same}; }});"
    ));
    flow.only_if("group != NO_ROW");
    let mut places: Vec<(usize, Key)> = vec![];
    let late_at: Vec<usize> = late.iter().map(|late| late.at).collect();
    let key_at = (0..keys.len() + late.len()).filter(|at| !late_at.contains(at));
    let mut late = late;
    for ((own, key), at) in keys.into_iter().enumerate().zip(key_at) {
        if let Some(text) = key.text {
            late.push(Late {
                at,
                position: text.position,
                scan: text.scan,
                column: text.column,
                data_type: key.data_type,
                null: key.null,
            });
            continue;
        }
        let place = KeyLocation::Word {
            word: word_at[own],
            high: key.above.map(|_| word_at[own] + 1),
            null_bit: nullable.iter().position(|&key| key == own),
        };
        places.push((
            at,
            Key {
                data_type: key.data_type,
                texts: key.texts,
                equals: key.equals,
                of_numeric: key.of_numeric,
                range: (key.low, key.high),
                place,
            },
        ));
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
        flow.line(&format!(
            "if (is_new) {{ {to}[group] = {};{null_line} }}",
            late.position
        ));
        let place = KeyLocation::Late {
            array,
            scan: late.scan,
            column: late.column,
            null,
        };
        places.push((
            late.at,
            Key {
                data_type: late.data_type,
                texts: None,
                equals: None,
                of_numeric: false,
                range: (0, 0),
                place,
            },
        ));
    }
    places.sort_by_key(|(at, _)| *at);
    result.keys = places.into_iter().map(|(_, key)| key).collect();
    distincts.put(fragment, &mut flow, "group");
    for (update, words) in updates.iter().zip(global) {
        let words: Vec<String> = words.iter().map(|array| format!("{array}[group]")).collect();
        flow.line(&update.line(&words, false));
    }
    result.groups = Groups::Listed {
        count,
        keys: key_array,
        words,
        groups_max,
        capacity,
    };
    flow.finish(fragment)?;
    Ok(result)
}
