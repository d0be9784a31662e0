//! Measures loading. `copy_bench MEGABYTES [FILE]`: CSV from memory, rows like TPC-H's lineitem, which it writes to FILE
//! too. `copy_bench FILE`: a CSV, Parquet or Arrow file.

use std::path::Path;
use std::time::Instant;
use tenon_storage::load::{CopyLoader, CopyOptions, FileFormat, Loaded, Target, file_columns, load_file};
use tenon_storage::{ColumnDef, Database, MemoryBudget, SqlType, TableDef};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CPU seconds of all threads so far: what counts where other work shares the machine.
fn cpu_seconds() -> f64 {
    // SAFETY: getrusage fills the zeroed structure that it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

const COLUMNS: [(&str, SqlType); 16] = [
    ("l_orderkey", SqlType::Int8),
    ("l_partkey", SqlType::Int8),
    ("l_suppkey", SqlType::Int8),
    ("l_linenumber", SqlType::Int4),
    ("l_quantity", SqlType::NumericOf(15, 2)),
    ("l_extendedprice", SqlType::NumericOf(15, 2)),
    ("l_discount", SqlType::NumericOf(15, 2)),
    ("l_tax", SqlType::NumericOf(15, 2)),
    ("l_returnflag", SqlType::CharOf(1)),
    ("l_linestatus", SqlType::CharOf(1)),
    ("l_shipdate", SqlType::Date),
    ("l_commitdate", SqlType::Date),
    ("l_receiptdate", SqlType::Date),
    ("l_shipinstruct", SqlType::CharOf(25)),
    ("l_shipmode", SqlType::CharOf(10)),
    ("l_comment", SqlType::VarcharOf(44)),
];

fn lineitem(megabytes: usize) -> Vec<u8> {
    use std::io::Write;
    const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
    const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    const WORDS: [&str; 8] = [
        "furiously ",
        "sleep ",
        "quickly ",
        "ironic ",
        "deposits ",
        "final ",
        "above ",
        "the ",
    ];
    let mut text = Vec::with_capacity(megabytes << 20);
    let (mut state, mut row) = (42_u64, 0_u64);
    while text.len() < (megabytes << 20) - 400 {
        let mut next = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let (order, line) = (row / 4 + 1, row % 4 + 1);
        let date = |day: u64| format!("{}-{:02}-{:02}", 1992 + day / 366, day % 12 + 1, day % 28 + 1);
        let comment: String = (0..3 + next(2)).map(|_| WORDS[next(8) as usize]).collect();
        let _ = writeln!(
            text,
            "{order},{},{},{line},{},{}.{:02},0.0{},0.0{},{},{},{},{},{},{},{},{}{}",
            next(200_000),
            next(10_000),
            next(50) + 1,
            next(100_000) + 900,
            next(100),
            next(10),
            next(9),
            ["A", "N", "R"][next(3) as usize],
            ["O", "F"][next(2) as usize],
            date(next(2500)),
            date(next(2500)),
            date(next(2500)),
            INSTRUCTIONS[next(4) as usize],
            MODES[next(7) as usize],
            comment.trim(),
            next(1000),
        );
        row += 1;
    }
    text
}

/// Runs a load three times and prints what it took.
fn measure(columns: &[ColumnDef], bytes: usize, load: impl Fn(Target<'_>) -> Loaded) {
    let database = Database::new(MemoryBudget::unlimited());
    for _ in 0..3 {
        let mut transaction = database.begin();
        let def = TableDef {
            columns: columns.to_vec(),
            ..TableDef::default()
        };
        let table = transaction.create_table("public", "t", def).expect("the name is free");
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let positions: Vec<usize> = (0..columns.len()).collect();
        let loaded = load(Target {
            definition: table.definition(),
            columns: &positions,
            defaults: vec![None; columns.len()],
            budget: database.budget(),
        });
        let rows = transaction
            .append(table.oid(), loaded.segments)
            .expect("rows are sound");
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let table = transaction.state().table("public", "t").expect("it was created");
        let megabytes = bytes as f64 / 1e6;
        println!(
            "{rows} rows, {megabytes:.0} MB in {seconds:.3} s: {:.0} MB/s; {cpu:.3} CPU s: {:.0} MB/s a core; {} MB in memory",
            megabytes / seconds,
            megabytes / cpu,
            table.bytes() / 1_000_000
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "256".into());
    if let Ok(megabytes) = first.parse() {
        let text = lineitem(megabytes);
        if let Some(path) = arguments.next() {
            std::fs::write(path, &text).expect("the file can be written");
        }
        let columns = COLUMNS.map(|(name, sql_type)| ColumnDef::new(name, sql_type).not_null());
        return measure(&columns, text.len(), |target| {
            let Target {
                definition,
                columns,
                defaults,
                budget,
            } = target;
            let mut loader =
                CopyLoader::new(definition, columns, defaults, CopyOptions::csv(), budget).expect("options");
            text.chunks(64 << 10)
                .for_each(|piece| loader.push(piece).expect("rows are sound"));
            loader.finish().expect("rows are sound")
        });
    }
    let path = Path::new(&first);
    let format = FileFormat::of_path(path).expect("a known ending");
    let (columns, options) = file_columns(path, format, None).expect("the file is sound");
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    measure(&columns, bytes as usize, |target| {
        load_file(path, format, options.clone(), target, &|_, _| ()).expect("the file is sound")
    });
}
