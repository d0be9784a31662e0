//! Generated conditions: every one compiles for every supported GPU, and finds the same pairs on the simulator as the
//! host does.
//!
//! More than 400 lines because it lists every form of condition that the device takes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DFSchema, JoinSide};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::prelude::SessionContext;
use rand::{Rng, SeedableRng, rngs::StdRng};
use rayon::prelude::*;
use tenon_gpu::compile::{Compiler, Nvrtc};
use tenon_gpu::join::Residual;
use tenon_gpu::memory::{DevicePtr, DevicePtrMut};
use tenon_gpu::{join, registry, testing};

use crate::codegen::FUNCTIONS;
use crate::join::condition::CompiledFilter;
use crate::join::materialized::attempt::{Bounds, Wanted};
use crate::join::materialized::chunks::{ChunkLimits, End, Next, PairChunks, PairSender};
use crate::join::materialized::device_join::find;
use crate::join::materialized::task::{Condition, Task};
use crate::join::path::Operator;

/// Conditions that the device takes, over [`columns`] `a.*` and `b.*`; `b.k` is what a CASE picks by.
const TAKEN: &[&str] = &[
    // Texts.
    "a_s = b_s",
    "a_s <> b_s",
    "a_s < b_s",
    "a_s <= b_s OR a_s > b_p",
    "a_s >= b_s",
    "a_s LIKE b_p",
    "a_s NOT LIKE b_p",
    "a_p LIKE b_p OR a_s LIKE '_' || b_s || '%'",
    "a_c ILIKE b_c",
    "a_c NOT ILIKE b_c",
    "lower(a_s) = b_s",
    "upper(a_s) > reverse(b_s)",
    "starts_with(a_s, b_s)",
    "ends_with(a_s, b_s) AND a_i IS DISTINCT FROM b_i",
    "contains(a_s, b_s)",
    "strpos(a_s, b_s) > b_i",
    "character_length(a_s) > b_i",
    "character_length(substr(a_s, b_i)) < a_i",
    "substr(a_s, b_i, 2) = substr(b_s, 1, 2)",
    "substr(a_s, b_i, abs(b_i)) <= b_s",
    "left(a_s, b_i) = right(b_s, a_i)",
    "octet_length(left(b_s, a_i)) >= b_i",
    "coalesce(a_s, b_s) < 'm' OR coalesce(a_s, b_s, 'é') = 'é'",
    "CASE WHEN a_i < b_i THEN a_s ELSE b_s END LIKE '%a%'",
    "CASE WHEN a_i < b_i THEN a_s WHEN a_i = b_i THEN b_p END IN ('a', 'aé', '', b_s)",
    "nullif(a_s, b_s) IS NULL",
    "greatest(a_s, b_s) > least(a_p, b_p)",
    "a_y < b_y AND a_y <> b_y",
    "a_u >= b_u",
    // Numbers.
    "a_i + b_i > 3",
    "a_i - b_l < b_i",
    "a_i * b_i >= a_l",
    "a_l / nullif(b_i, 0) = 2",
    "a_l % nullif(b_i, 0) = 1 OR a_i IS NOT DISTINCT FROM b_i",
    "-(a_i - b_i) BETWEEN -2 AND 2",
    "abs(a_i - b_i) < 3 AND abs(a_d - b_d) < 20",
    "a_i NOT IN (b_i, b_l, 3)",
    "a_d + b_d > 1.5",
    "a_d - b_w < 0",
    "a_d * b_d > b_i",
    "a_d % nullif(b_d, 0) < 0.5",
    "a_d > b_i AND a_w <> b_d",
    "a_f + b_f > b_i",
    "a_f < b_f",
    "a_f = b_g",
    "a_f * b_f <= a_i OR a_g - b_g IS NULL",
    "a_f / 2.0 >= b_f",
    "abs(a_f) > b_f",
    "signum(a_f - b_f) = 1",
    "floor(a_f - b_f) = ceil(b_f - a_f)",
    "trunc(a_f * b_f) <> 0",
    "greatest(a_i, b_i) = least(a_l, b_l)",
    "coalesce(nullif(a_i, b_i), b_l) > 0",
    "CASE WHEN b_i = 0 THEN a_i ELSE a_i / b_i END > 1",
    "CASE a_i WHEN b_i THEN 1 WHEN 2 THEN b_l ELSE a_l END > 0",
    // Points in time, truths.
    "a_t < b_t",
    "a_t = b_t OR a_m >= b_m",
    "arrow_cast(a_t, 'Int32') - arrow_cast(b_t, 'Int32') > 2",
    "a_m BETWEEN b_m AND b_m + INTERVAL '2 days'",
    "date_part('day', a_t) = b_i",
    "a_v > b_v",
    "a_b AND b_b",
    "a_b OR NOT b_b",
    "a_b = b_b",
    "(a_b AND b_b) IS NOT TRUE",
    "(a_i > b_i) IS NULL",
    "(a_s LIKE b_p) IS DISTINCT FROM (a_i < b_i)",
    "NOT (a_i < b_i AND (a_s > b_s OR a_b))",
    "a_i < b_i AND (a_i + 1) * 3 > 2 AND upper(b_s) <> 'A'",
];

/// Conditions that stay on the host, and a part of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("a_s || b_s = 'ab'", "||"),
    ("levenshtein(a_s, b_s) < 2", "levenshtein()"),
    ("a_s ILIKE b_p", "ILIKE beyond ASCII"),
    ("a_f > random() + b_f", "volatile"),
    ("a_l / (a_i % 1) > b_i", "fails on some row"),
    ("power(a_f, b_f) > 1", "power()"),
];

fn columns(rng: &mut StdRng, rows: usize, side: &str) -> (Vec<Field>, Vec<ArrayRef>) {
    fn many<T>(rows: usize, rng: &mut StdRng, draw: impl Fn(&mut StdRng) -> T) -> Vec<Option<T>> {
        (0..rows).map(|_| (!rng.random_bool(0.1)).then(|| draw(rng))).collect()
    }
    let word = |letters: &'static [&'static str]| {
        move |rng: &mut StdRng| -> String {
            let length = rng.random_range(0..6);
            (0..length)
                .map(|_| letters[rng.random_range(0..letters.len())])
                .collect()
        }
    };
    let small = |rng: &mut StdRng| rng.random_range(-4..=4);
    let float = |rng: &mut StdRng| [0.0, -0.0, 1.5, -2.0, 3.25, f64::NAN][rng.random_range(0..6)];
    let letters: &[&str] = &["a", "b", "A", "é", "ß", "𝄞", "a", "b"];
    let patterns: &[&str] = &["a", "b", "é", "%", "_", "\\", "%", "_"];
    let ascii: &[&str] = &["a", "B", "A", "b", "%", "_", "\\"];
    let decimal = |values: Vec<Option<i128>>, precision, scale| -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_data_type(DataType::Decimal128(precision, scale)))
    };
    let stamps = |rng: &mut StdRng| i64::from(small(rng)) * 86_400_000_000 + i64::from(small(rng));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "s",
            Arc::new(StringViewArray::from_iter(many(rows, rng, word(letters)))),
        ),
        ("p", Arc::new(StringArray::from_iter(many(rows, rng, word(patterns))))),
        ("c", Arc::new(StringViewArray::from_iter(many(rows, rng, word(ascii))))),
        (
            "y",
            Arc::new(BinaryViewArray::from_iter(many(rows, rng, word(letters)))),
        ),
        ("u", {
            let values = many(rows, rng, |rng| [small(rng) as u8; 16]);
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16).unwrap())
        }),
        ("i", Arc::new(Int32Array::from(many(rows, rng, small)))),
        (
            "l",
            Arc::new(Int64Array::from(many(rows, rng, |rng| i64::from(small(rng))))),
        ),
        ("d", decimal(many(rows, rng, |rng| i128::from(small(rng)) * 25), 12, 2)),
        (
            "w",
            decimal(many(rows, rng, |rng| i128::from(small(rng)) << 60), 30, 18),
        ),
        ("f", Arc::new(Float64Array::from(many(rows, rng, float)))),
        (
            "g",
            Arc::new(Float32Array::from(many(rows, rng, |rng| float(rng) as f32))),
        ),
        ("t", Arc::new(Date32Array::from(many(rows, rng, small)))),
        ("m", Arc::new(TimestampMicrosecondArray::from(many(rows, rng, stamps)))),
        ("v", {
            let value = |rng: &mut StdRng| {
                let nanoseconds = i64::from(small(rng));
                arrow::datatypes::IntervalMonthDayNano::new(small(rng) / 3, small(rng) / 2, nanoseconds)
            };
            Arc::new(IntervalMonthDayNanoArray::from(many(rows, rng, value)))
        }),
        (
            "b",
            Arc::new(BooleanArray::from(many(rows, rng, |rng| rng.random_bool(0.5)))),
        ),
        (
            "k",
            Arc::new(Int32Array::from_iter_values((0..rows).map(|row| (row % GROUP) as i32))),
        ),
    ];
    let fields = columns
        .iter()
        .map(|(name, column)| Field::new(format!("{side}_{name}"), column.data_type().clone(), true));
    (
        fields.collect(),
        columns.iter().map(|(_, column)| Arc::clone(column)).collect(),
    )
}

/// Conditions that one kernel tests, each on some of the pairs.
const GROUP: usize = 8;
const ROWS: usize = 65;

struct Tables {
    schema: Arc<Schema>,
    sides: [Vec<ArrayRef>; 2],
}

impl Tables {
    fn draw(rng: &mut StdRng) -> Self {
        let (mut fields, a) = columns(rng, ROWS, "a");
        let (others, b) = columns(rng, ROWS, "b");
        fields.extend(others);
        Self {
            schema: Arc::new(Schema::new(fields)),
            sides: [a, b],
        }
    }

    fn filter(&self, sql: &str) -> JoinFilter {
        let context = SessionContext::new();
        let schema = DFSchema::try_from(Schema::clone(&self.schema)).unwrap();
        let parsed = context
            .parse_sql_expr(sql, &schema)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build());
        let expr: PhysicalExprRef = simplifier
            .coerce(parsed, &schema)
            .and_then(|expr| simplifier.simplify(expr))
            .and_then(|expr| context.create_physical_expr(expr, &schema))
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let width = self.sides[0].len();
        let index = |at: usize| ColumnIndex {
            index: at % width,
            side: if at < width { JoinSide::Left } else { JoinSide::Right },
        };
        JoinFilter::new(expr, (0..2 * width).map(index).collect(), Arc::clone(&self.schema))
    }

    fn compiled(&self, filter: &JoinFilter) -> Result<CompiledFilter, String> {
        CompiledFilter::of(filter, JoinSide::Left, |side, index| {
            self.sides[usize::from(side == JoinSide::Right)].get(index)
        })
    }

    /// The pairs that fulfil the filter, as DataFusion sees it.
    fn pairs(&self, filter: &JoinFilter) -> datafusion::common::Result<Vec<(u32, u32)>> {
        let all = |of: fn(u32) -> u32| UInt32Array::from_iter_values((0..(ROWS * ROWS) as u32).map(of));
        let picked = [all(|i| i / ROWS as u32), all(|i| i % ROWS as u32)];
        let mut columns = vec![];
        for (side, rows) in self.sides.iter().zip(&picked) {
            for column in side {
                columns.push(arrow::compute::take(column, rows, None)?);
            }
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let accepted = filter.expression().evaluate(&batch)?.into_array(ROWS * ROWS)?;
        let accepted = as_boolean_array(&accepted)?;
        let yes = (0..ROWS * ROWS).filter(|&i| accepted.is_valid(i) && accepted.value(i));
        Ok(yes.map(|i| ((i / ROWS) as u32, (i % ROWS) as u32)).collect())
    }

    /// The pairs that the device finds.
    fn on_device(&self, filter: &CompiledFilter) -> Result<Vec<(u32, u32)>, String> {
        let task = Task {
            condition: Condition::Any,
            swapped: false,
            verify: None,
            filtered: true,
            rows: (ROWS, ROWS),
        };
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let (chunks, cancelled) = (PairChunks::new(ChunkLimits::default()), AtomicBool::new(false));
        let results = MemoryConsumer::new("pairs").register(&pool);
        let bounds = Bounds {
            cancelled: &cancelled,
            memory_bytes: None,
            results: &results,
            out: &PairSender {
                chunks: &chunks,
                checks: Arc::default(),
                memory: &results,
                cancelled: &cancelled,
            },
        };
        let device = testing::device();
        let found = find(&device, &task, Operator::Ninlj, Some(filter), Wanted::Pairs, bounds);
        found.map_err(|error| error.to_string())?;
        chunks.end(End::Done);
        let mut pairs = vec![];
        while let Next::Pairs(chunk, range) = chunks.next().map_err(|error| error.to_string())? {
            pairs.extend(range.map(|at| (chunk.build[at], chunk.probe[at])));
        }
        pairs.sort_unstable();
        Ok(pairs)
    }
}

/// One filter that tests another of these conditions for each value of `b.k`.
fn one_of(conditions: &[&str]) -> String {
    let branches: Vec<String> = conditions
        .iter()
        .enumerate()
        .map(|(k, condition)| format!("WHEN {k} THEN ({condition})"))
        .collect();
    format!("CASE b_k {} END", branches.join(" "))
}

#[test]
fn the_device_finds_what_the_host_finds() {
    let mut rng = StdRng::seed_from_u64(testing::seed("conditions"));
    let tables = Tables::draw(&mut rng);
    TAKEN.par_chunks(GROUP).for_each(|conditions| {
        for condition in conditions {
            let filter = tables.filter(condition);
            if let Err(why) = tables.compiled(&filter) {
                panic!("{condition} stays on the host: {why}");
            }
        }
        let sql = one_of(conditions);
        let filter = tables.filter(&sql);
        let compiled = tables.compiled(&filter).unwrap_or_else(|why| panic!("{sql}: {why}"));
        let expected = tables.pairs(&filter).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let found = tables.on_device(&compiled).unwrap_or_else(|why| panic!("{sql}: {why}"));
        assert_eq!(found, expected, "{sql}");
    });
}

#[test]
fn what_cannot_be_compiled_says_why() {
    let tables = Tables::draw(&mut StdRng::seed_from_u64(1));
    for (condition, reason) in REFUSED {
        let why = tables.compiled(&tables.filter(condition)).err();
        let why = why.unwrap_or_else(|| panic!("{condition} was compiled"));
        assert!(why.contains(reason), "{condition}: {why}");
    }
}

/// Where an operation has no value on some pair, the device gives nothing at all.
#[test]
fn failures_are_found() {
    let tables = Tables::draw(&mut StdRng::seed_from_u64(testing::seed("failures")));
    for condition in [
        "a_l / b_i > 0",
        "a_i % b_i = 0",
        "substr(a_s, 1, b_i) = b_s",
        "(a_l - 9223372036854775807) * b_i > 0",
        "a_i = 77 OR a_l / b_i > 0",
        "a_f * 1e300 * 1e300 - b_f * 1e300 * 1e300 > 0",
    ] {
        let compiled = tables.compiled(&tables.filter(condition)).unwrap();
        let why = tables.on_device(&compiled).err();
        assert!(why.is_some_and(|why| why.contains("no value")), "{condition}");
    }
    let guarded = tables.filter("CASE WHEN b_i = 0 THEN a_l ELSE a_l / b_i END > 0");
    let pairs = tables.on_device(&tables.compiled(&guarded).unwrap()).unwrap();
    assert_eq!(pairs, tables.pairs(&guarded).unwrap());
}

/// Programs that are compiled for other architectures than the H100's.
const OTHER_ARCHITECTURES: usize = 6;

/// One condition of many parts within every kernel that takes conditions, and every condition within a nested loop: for
/// the H100, and a few of them for the others, whose kernels the gpu crate compiles.
#[test]
fn conditions_compile_for_every_architecture() {
    let Some(library) = testing::nvrtc_library() else {
        println!(
            "NOT RUN: no NVRTC here, so no condition was compiled for a GPU. scripts/install-nvrtc.sh installs it."
        );
        eprintln!(
            "NOT RUN: no NVRTC here, so no condition was compiled for a GPU. scripts/install-nvrtc.sh installs it."
        );
        return;
    };
    let tables = Tables::draw(&mut StdRng::seed_from_u64(testing::seed("compile")));
    let residual = |sql: &str| {
        let compiled = tables
            .compiled(&tables.filter(sql))
            .unwrap_or_else(|why| panic!("{sql}: {why}"));
        let buffers = vec![DevicePtr::null(); compiled.buffers.len()];
        let (body, failed) = (compiled.body.clone(), compiled.fails.then(DevicePtrMut::null));
        // SAFETY: it is compiled, and never launched.
        unsafe { Residual::new(body, FUNCTIONS, buffers, compiled.literals.clone(), failed) }
    };
    let many = "a_s LIKE b_p AND a_s < b_s AND a_i / b_i > 1 AND a_d * b_d > b_i AND a_f < b_f";
    let mut programs: Vec<_> = TAKEN
        .chunks(GROUP)
        .filter_map(|conditions| join::programs_with(&residual(&one_of(conditions))).into_iter().next())
        .collect();
    programs.extend(join::programs_with(&residual(many)));
    for architecture in registry::ARCHITECTURES {
        let programs = match architecture {
            90 => &programs[..],
            _ => &programs[..programs.len().min(OTHER_ARCHITECTURES)],
        };
        let nvrtc = Nvrtc::load_from(&library, architecture, 13000).unwrap();
        programs.par_iter().for_each(|program| {
            let compiled = nvrtc.compile(program);
            let code = compiled.unwrap_or_else(|error| panic!("sm_{architecture}: {error}"));
            assert_eq!(code[..4], *b"\x7fELF", "sm_{architecture}: {}", program.describe());
        });
        println!("sm_{architecture}: {} programs with conditions", programs.len());
    }
}
