//! The first rows in an order: of all rows, those stay that may be among them, with others that are equal to the last.
//!
//! Each row has a word that does not fall in the order (`codegen`'s `ordered`). The word of the last row wanted is found
//! digit by digit, each of which is a pipeline that counts rows by their next digit; then its rows are put together
//! (radix select: Alabi et al. 2012, "Fast k-Selection Algorithms for Graphics Processing Units", section 2.1). Who reads
//! them sorts them.

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};

use super::flow::Flow;
use super::fragment::{Fragment, Input};
use super::made::Made;
use crate::codegen::{Ordered, Translated};

/// Bits of a digit: a thread of a block for each value.
const DIGIT_BITS: u32 = 8;
const BINS: u64 = 1 << DIGIT_BITS;

/// How many rows are wanted, and the first expression of their order.
#[derive(Clone, Debug)]
pub struct Top {
    expr: PhysicalExprRef,
    options: SortOptions,
    rows: usize,
}

impl Top {
    pub fn new(first: &PhysicalSortExpr, rows: usize) -> Self {
        Self {
            expr: PhysicalExprRef::clone(&first.expr),
            options: first.options,
            rows,
        }
    }
}

/// The rows of a flow that may be among the first.
pub fn made(fragment: &mut Fragment, mut flow: Flow, schema: &SchemaRef, top: &Top) -> Translated<Made> {
    let Ordered { word, bits } = flow.translator.ordered(&top.expr, top.options)?;
    flow.to_host = true;
    let all = Made::of(fragment, &mut flow, |_| true)?.gathered(fragment);
    let words = fragment.array(all.room, 8, None);
    let to = flow.array(Input::Array(words), "u64");
    flow.line(&format!("{to}[at] = {word};"));
    flow.finish(fragment)?;
    let digits = bits.max(1).div_ceil(DIGIT_BITS);
    // What each digit's pipeline finds of the digits above, and how many rows have which value in it.
    let found = fragment.array(u64::from(digits), 16, Some(0));
    let bins = fragment.array(u64::from(digits) * BINS, 4, Some(0));
    let begin = |flow: &mut Flow, digit: u32| {
        let (found, bins) = (
            flow.array(Input::Array(found), "Chosen"),
            flow.array(Input::Array(bins), "u32"),
        );
        let count = flow.array(Input::Array(all.count), "const u32");
        let wanted = flow.number(top.rows as u64);
        flow.begin += &match digit.checked_sub(1) {
            None => format!("    const Chosen chosen{{0, min_of<u64>({wanted}, *{count})}};\n"),
            Some(above) => format!(
                "    const Chosen chosen = choose_digit({bins} + {}, {found}[{above}]);\n",
                u64::from(above) * BINS
            ),
        };
        if digit < digits {
            flow.begin += &format!(
                "    TENON_SHARED_ARRAY(u32, own, {BINS});\n    \
                 if (blockIdx.x == 0 && threadIdx.x == 0) {found}[{digit}] = chosen;\n    \
                 own[threadIdx.x] = 0;\n    __syncthreads();\n"
            );
            flow.end += &format!(
                "    __syncthreads();\n    \
                 if (own[threadIdx.x]) atomicAdd({bins} + {} + threadIdx.x, own[threadIdx.x]);\n",
                u64::from(digit) * BINS
            );
        }
    };
    for digit in 0..digits {
        let mut flow = Flow::over(&all, schema.clone());
        begin(&mut flow, digit);
        let word = format!("{}[row]", flow.array(Input::Array(words), "const u64"));
        let shift = (digits - 1 - digit) * DIGIT_BITS;
        if digit > 0 {
            flow.only_if(&format!("{word} >> {} == chosen.prefix", shift + DIGIT_BITS));
        }
        flow.line(&format!("atomicAdd(&own[{word} >> {shift} & {}], 1u);", BINS - 1));
        flow.finish(fragment)?;
    }
    let mut flow = Flow::over(&all, schema.clone());
    begin(&mut flow, digits);
    flow.expected = Some(top.rows as u64);
    let columns = all.columns(fragment, &mut flow, schema, "row", None);
    flow.enter(schema.clone(), columns);
    let word = format!("{}[row]", flow.array(Input::Array(words), "const u64"));
    flow.only_if(&format!("{word} <= chosen.prefix"));
    flow.to_host = true;
    let mut first = Made::of(fragment, &mut flow, |_| true)?;
    first.multiplied = all.multiplied;
    flow.finish(fragment)?;
    Ok(first)
}
