//! The first row of each group in an order: DISTINCT ON.

use arrow::compute::SortOptions;
use datafusion::physical_expr::PhysicalExprRef;

use super::super::compile;
use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input};
use super::super::group::Steps;
use super::super::made::Made;
use super::super::sorted::{fields, put};
use super::Ordered;
use crate::codegen::Translated;

/// The groups' keys and the values of their first rows.
pub fn firsts(fragment: &mut Fragment, steps: &Steps<'_>) -> Translated<Flow> {
    let spec = &steps.spec;
    let mut rows = compile::flow(fragment, steps.input)?;
    let keys = spec.keys.iter().map(|(key, _)| (key, SortOptions::default()));
    let keys = fields(&mut rows, keys)?;
    let order = spec.aggregates.first().map_or(&[][..], |first| first.order_bys());
    let order = fields(&mut rows, order.iter().map(|own| (&own.expr, own.options)))?;
    let made = Made::of(fragment, &mut rows, |_| true)?.gathered(fragment);
    let [keys, order] = [keys, order].map(|words| {
        let words = words.into_iter().filter(|(_, bits)| *bits > 0).collect();
        put(fragment, &mut rows, &made, words, "at")
    });
    rows.finish(fragment)?;
    let table = (made.count, made.room);
    let all: Vec<(usize, u32)> = keys.iter().chain(&order).copied().collect();
    let ordered = Ordered {
        order: (!all.is_empty()).then(|| fragment.order(table, all)),
        rows: made,
        schema: spec.input_schema.clone(),
    };
    let mut flow = ordered.flow(fragment)?;
    let at = ordered.at(&mut flow, "row");
    let before = ordered.at(&mut flow, "(row == 0 ? row : row - 1)");
    let mut first = "row == 0".to_string();
    for (word, _) in keys {
        let word = flow.array(Input::Array(word), "const u64");
        first = format!("{first} || {word}[{at}] != {word}[{before}]");
    }
    flow.only_if(&first);
    let values = spec.aggregates.iter().flat_map(|own| own.expressions());
    let exprs: Vec<PhysicalExprRef> = spec.keys.iter().map(|(key, _)| key.clone()).chain(values).collect();
    let mut columns = flow.projected(exprs.iter())?;
    if spec.keys.len() == 1 {
        columns[0].unique = true;
    }
    flow.enter(spec.schema.clone(), columns);
    Ok(flow)
}
