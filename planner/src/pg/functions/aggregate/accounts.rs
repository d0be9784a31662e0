//! What aggregates say that they hold, against what they have allocated.
//!
//! The tests of this crate run on an allocator that counts, thread by thread, the bytes in use and their peak.

use super::functions;
use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::{AggregateUDF, EmitTo};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{col, lit};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

struct Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: all memory is the system allocator's; the counters are plain cells of the thread, which allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.set(IN_USE.get() + layout.size() as isize);
        PEAK.set(PEAK.get().max(IN_USE.get()));
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.set(IN_USE.get() - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that `run` leaves allocated, and the most that were while it ran.
fn measured<T>(run: impl FnOnce() -> T) -> (isize, isize, T) {
    let before = IN_USE.get();
    PEAK.set(before);
    let result = run();
    (IN_USE.get() - before, PEAK.get() - before, result)
}

const BATCHES: usize = 40;
const ROWS: usize = 4096;
/// Buffers of one batch, and what of it is under way.
const SLACK: isize = 2 << 20;

struct Case {
    name: &'static str,
    text: bool,
    distinct: bool,
    ordered: bool,
    /// Whether the account covers what the result takes, because that is as large as the state.
    with_result: bool,
}

fn case(name: &'static str, text: bool) -> Case {
    Case {
        name,
        text,
        distinct: false,
        ordered: false,
        with_result: matches!(name, "array_agg" | "string_agg"),
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for name in ["array_agg", "string_agg"] {
        for (distinct, ordered) in [(false, false), (true, false), (false, true)] {
            cases.push(Case {
                distinct,
                ordered,
                ..case(name, true)
            });
        }
    }
    cases.push(case("array_agg", false));
    cases.push(Case {
        ordered: true,
        ..case("array_agg", false)
    });
    for text in [false, true] {
        cases.push(Case {
            distinct: true,
            ..case("count", text)
        });
        for name in ["min", "max", "count", "first_value", "last_value"] {
            cases.push(case(name, text));
        }
    }
    for (name, distinct) in [
        ("sum", false),
        ("avg", false),
        ("avg", true),
        ("median", false),
        ("median", true),
    ] {
        cases.push(Case {
            distinct,
            ..case(name, false)
        });
    }
    cases
}

fn function(name: &str) -> Arc<AggregateUDF> {
    let own = functions().into_iter().map(Arc::new).find(|own| own.name() == name);
    let base = || {
        all_default_aggregate_functions()
            .into_iter()
            .find(|base| base.name() == name)
    };
    own.or_else(base).unwrap()
}

fn expression(case: &Case) -> AggregateFunctionExpr {
    let schema = Arc::new(Schema::new(vec![
        Field::new("text", DataType::Utf8View, true),
        Field::new("number", DataType::Int64, true),
    ]));
    let mut args: Vec<Arc<dyn PhysicalExpr>> = vec![col(if case.text { "text" } else { "number" }, &schema).unwrap()];
    if case.name == "string_agg" {
        args.push(lit(","));
    }
    let order = PhysicalSortExpr::new(col("number", &schema).unwrap(), SortOptions::new(true, true));
    let builder = AggregateExprBuilder::new(function(case.name), args);
    let order = if case.ordered { vec![order] } else { vec![] };
    let built = builder
        .schema(schema)
        .alias("a")
        .order_by(order)
        .with_distinct(case.distinct);
    built.build().unwrap()
}

/// The arguments of one batch: strings of 120 bytes, all different.
fn arguments(case: &Case, batch: usize) -> Vec<ArrayRef> {
    let rows = batch * ROWS..(batch + 1) * ROWS;
    let scattered = |row: usize| row as i64 * 7919 % 1_000_003;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(scattered)));
    let texts = || -> ArrayRef { Arc::new(StringViewArray::from_iter_values(rows.map(|row| format!("{row:0120}")))) };
    let mut arguments = vec![if case.text { texts() } else { numbers.clone() }];
    if case.name == "string_agg" {
        arguments.push(Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|_| ","))));
    }
    if case.ordered {
        arguments.push(numbers);
    }
    arguments
}

fn check(case: &Case, what: &str, said: usize, held: isize) {
    let told = format!(
        "{}({}{}{}) {what}: says {said}, holds {held}",
        case.name,
        if case.distinct { "DISTINCT " } else { "" },
        if case.text { "text" } else { "number" },
        if case.ordered { " ORDER BY number" } else { "" },
    );
    println!("{told}");
    assert!(held < said as isize * 9 / 8 + SLACK, "{told}");
    assert!((said as isize) < 4 * held + SLACK, "{told}");
}

#[test]
fn accumulators_of_groups() {
    for case in cases() {
        let expression = expression(&case);
        if !expression.groups_accumulator_supported() {
            continue;
        }
        // Few large groups, and one group a row or two.
        for groups in [10, BATCHES * ROWS / 2] {
            let mut accumulator = expression.create_groups_accumulator().unwrap();
            let (held, _, ()) = measured(|| {
                for batch in 0..BATCHES {
                    let numbers: Vec<usize> = (0..ROWS).map(|row| (batch * ROWS + row) % groups).collect();
                    accumulator
                        .update_batch(&arguments(&case, batch), &numbers, None, groups)
                        .unwrap();
                }
            });
            let said = accumulator.size();
            let (_, peak, result) = measured(|| accumulator.evaluate(EmitTo::All).unwrap());
            assert_eq!(result.len(), groups);
            match case.with_result {
                true => check(&case, &format!("in {groups} groups, and its result"), said, held + peak),
                false => check(&case, &format!("in {groups} groups"), said, held),
            }
        }
    }
}

#[test]
fn accumulators_of_one_group() {
    for case in cases() {
        let mut accumulator = expression(&case).create_accumulator().unwrap();
        let (held, _, ()) = measured(|| {
            for batch in 0..BATCHES {
                accumulator.update_batch(&arguments(&case, batch)).unwrap();
            }
        });
        let said = accumulator.size();
        let (_, peak, result) = measured(|| accumulator.evaluate().unwrap());
        assert!(!result.is_null());
        match case.with_result {
            true => check(&case, "and its result", said, held + peak),
            false => check(&case, "in one group", said, held),
        }
    }
}

#[test]
fn merged_states() {
    for case in cases().iter().filter(|case| case.with_result) {
        let expression = expression(case);
        let mut last = expression.create_groups_accumulator().unwrap();
        let (held, _, ()) = measured(|| {
            for batch in 0..BATCHES {
                let mut first = expression.create_groups_accumulator().unwrap();
                let numbers: Vec<usize> = (0..ROWS).map(|row| row % 10).collect();
                first.update_batch(&arguments(case, batch), &numbers, None, 10).unwrap();
                let numbers: Vec<usize> = (0..10).collect();
                last.merge_batch(&first.state(EmitTo::All).unwrap(), &numbers, 10)
                    .unwrap();
            }
        });
        let said = last.size();
        let (_, peak, _) = measured(|| last.evaluate(EmitTo::All).unwrap());
        check(case, "merged, and its result", said, held + peak);
    }
}
