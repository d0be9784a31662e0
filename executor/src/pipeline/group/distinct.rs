//! Values that count once in each group: a hash table of groups' numbers with values tells which rows are the first of theirs.

use super::super::flow::{Flow, codes};
use super::super::fragment::{Fragment, Input, ROWS_MAX};
use super::capacity;
use crate::codegen::Translated;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;

/// The values of which only the first of each kind counts.
#[derive(Default)]
pub struct Distincts(Vec<Distinct>);

struct Distinct {
    arg: PhysicalExprRef,
    filter: Option<PhysicalExprRef>,
    /// C++ of when a row has such a value, and of the value as a word.
    when: String,
    word: String,
}

impl Distincts {
    /// A name for whether a row counts, which is known once its group is.
    pub fn first(
        &mut self,
        flow: &mut Flow,
        arg: &PhysicalExprRef,
        filter: Option<&PhysicalExprRef>,
    ) -> Translated<String> {
        let known = self
            .0
            .iter()
            .position(|own| own.arg.eq(arg) && own.filter.as_ref() == filter);
        if let Some(known) = known {
            return Ok(format!("first{known}"));
        }
        let mut when = vec![];
        if let Some(filter) = filter {
            when.push(flow.translator.boolean(filter)?.is_true());
        }
        let (word, null) = self::word(flow, arg)?;
        when.extend(null.map(|null| format!("!{null}")));
        self.0.push(Distinct {
            arg: PhysicalExprRef::clone(arg),
            filter: filter.cloned(),
            when: if when.is_empty() {
                "true".into()
            } else {
                when.join(" && ")
            },
            word,
        });
        Ok(format!("first{}", self.0.len() - 1))
    }

    /// Finds them out, of the row's group of this number.
    pub fn put(&self, fragment: &mut Fragment, flow: &mut Flow, group: &str) {
        let values_max = capacity(flow, None).min(ROWS_MAX);
        for (at, Distinct { when, word, .. }) in self.0.iter().enumerate() {
            let count = fragment.array(1, 4, Some(0));
            let room = fragment.table(count, flow.stage, values_max, ROWS_MAX, None);
            let slots = room.saturating_mul(2).next_power_of_two();
            let (slot_array, keys) = (fragment.array(slots, 4, Some(0)), fragment.array(room, 16, None));
            let arrays = [
                flow.array(Input::Array(slot_array), "u32"),
                flow.array(Input::Array(keys), "u64"),
                flow.array(Input::Array(count), "u32"),
                flow.number(room),
                flow.number(slots - 1),
            ];
            flow.begin += &format!("    const Groups<2> distinct{at}{{{}}};\n", arrays.join(", "));
            flow.line(&format!(
                "const bool first{at} = {when} && is_first(p, distinct{at}, {group}, (u64){word});"
            ));
        }
    }
}

/// C++ of a value as a word, in which equal values and no others are equal, and of whether it is null.
fn word(flow: &mut Flow, arg: &PhysicalExprRef) -> Translated<(String, Option<String>)> {
    if let Some(column) = arg.downcast_ref::<Column>()
        && flow
            .current()
            .get(column.index())
            .is_some_and(|col| codes(&col.given).is_some())
    {
        let code = flow
            .translator
            .code_of(column.index())?
            .ok_or("a code that is not there")?;
        return Ok((code.code, code.null));
    }
    let value = flow.translator.translate(arg)?;
    Ok((flow.narrow_word(&value)?.0, value.null))
}
