//! Window functions in pipelines, over frames that end at a distance in rows, at peers or at the partition's ends.
//!
//! ```text
//! rows            -> a table of them, and the words of their partition and order
//! order           -> the places of rows, partition by partition (a radix sort)
//! rows in order   -> which begin a partition or are no peer of the row before; each aggregate's values (inputs)
//! sums            -> numbers of partitions and peers, sums before each row
//! rows in order   -> where partitions and peers begin
//! trees           -> the largest of 16, of 256, ... values, for min and max (tree)
//! rows in order   -> go on, with the functions' values (values)
//! ```
//!
//! What a frame holds is the difference of two sums: exact, since sums are of integers modulo a power of two that the
//! result cannot reach. So a row costs the same whatever its frame.

mod firsts;
mod function;
mod inputs;
mod tree;
mod values;

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;

use super::compile;
use super::flow::Flow;
use super::fragment::{Fragment, Input};
use super::made::Made;
use super::sorted::{fields, put};
use crate::codegen::{Translated, Value};
use arrow::datatypes::{DataType, SchemaRef};
pub use firsts::firsts;
use function::Function;
use inputs::Inputs;

/// Rows in the order of their partitions.
struct Ordered {
    rows: Made,
    schema: SchemaRef,
    /// Their places; None: any order will do.
    order: Option<usize>,
}

/// Arrays of a number for each row, and of where what is numbered begins.
#[derive(Clone, Copy)]
struct Numbered {
    /// How many begin before each row; one more for all rows.
    before: usize,
    starts: usize,
}

/// The rows of a window node as an open pipeline.
pub fn flow(fragment: &mut Fragment, plan: &Arc<dyn ExecutionPlan>, exprs: &[Arc<dyn WindowExpr>]) -> Translated<Flow> {
    let ([input], Some(first)) = (&plan.children()[..], exprs.first()) else {
        return Err("a window of nothing".into());
    };
    let same =
        |expr: &Arc<dyn WindowExpr>| expr.partition_by() == first.partition_by() && expr.order_by() == first.order_by();
    if !exprs.iter().all(same) {
        return Err("windows of several orders at once".into());
    }
    let functions = exprs.iter().map(Function::of).collect::<Translated<Vec<_>>>()?;
    if first.order_by().is_empty() && functions.iter().any(Function::depends_on_row) {
        return Err("a window over rows as they come".into());
    }
    let mut rows = compile::flow(fragment, input)?;
    let partition = first.partition_by().iter().map(|expr| (expr, SortOptions::default()));
    let partition = fields(&mut rows, partition)?;
    let order = fields(&mut rows, first.order_by().iter().map(|own| (&own.expr, own.options)))?;
    let made = Made::of(fragment, &mut rows, |_| true)?.gathered(fragment);
    let [partition, order] = [partition, order].map(|words| {
        // What all rows have in common orders nothing.
        let words = words.into_iter().filter(|(_, bits)| *bits > 0).collect();
        put(fragment, &mut rows, &made, words, "at")
    });
    rows.finish(fragment)?;
    let table = (made.count, made.room);
    let all: Vec<(usize, u32)> = partition.iter().chain(&order).copied().collect();
    let ordered = Ordered {
        order: (!all.is_empty()).then(|| fragment.order(table, all)),
        rows: made,
        schema: input.schema(),
    };
    let peers = functions.iter().any(Function::asks_for_peers) && !order.is_empty();
    let inputs = Inputs::put(fragment, &ordered, &functions, [&partition, &order], peers)?;
    let mut flow = ordered.flow(fragment)?;
    let columns = inputs.columns(fragment, &mut flow, &ordered, &functions, plan)?;
    flow.enter(plan.schema(), columns);
    Ok(flow)
}

impl Ordered {
    /// A pipeline over the rows in their order: `row` is a row's place there.
    fn flow(&self, fragment: &mut Fragment) -> Translated<Flow> {
        let mut flow = Flow::over(&self.rows, self.schema.clone());
        let at = self.at(&mut flow, "row");
        self.enter(fragment, &mut flow, &at, None);
        Ok(flow)
    }

    /// A name for where the row of this place is in the table.
    fn at(&self, flow: &mut Flow, place: &str) -> String {
        match self.order {
            None => place.into(),
            Some(order) => {
                let order = flow.array(Input::Array(order), "const u32");
                name(flow, "u32", format!("{order}[{place}]"))
            }
        }
    }

    /// From here on the row at hand is this one; where that is missing its columns are null.
    fn enter(&self, fragment: &mut Fragment, flow: &mut Flow, at: &str, missing: Option<&str>) {
        let mut columns = self.rows.columns(fragment, flow, &self.schema, at, missing);
        if self.rows.multiplied || missing.is_some() {
            columns.iter_mut().for_each(|column| column.unique = false);
        }
        flow.enter(self.schema.clone(), columns);
    }
}

/// A name for something of a C++ type.
fn name(flow: &mut Flow, c_type: &str, value: String) -> String {
    flow.translator
        .define(c_type, value, None, DataType::UInt32, None)
        .value
}

/// An expression over the row at hand.
fn translated(flow: &mut Flow, expr: &PhysicalExprRef) -> Translated<Value> {
    flow.translator.translate(expr)
}
