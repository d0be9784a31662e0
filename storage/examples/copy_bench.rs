//! Measures COPY FROM of CSV: `copy_bench [MEGABYTES] [FILE]`. Without a file, rows like TPC-H's lineitem are made.

use std::time::Instant;
use tenon_storage::load::{CopyLoader, CopyOptions};
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

fn main() {
    let mut arguments = std::env::args().skip(1);
    let megabytes = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(256);
    let text = match arguments.next() {
        Some(path) => std::fs::read(path).expect("the file can be read"),
        None => lineitem(megabytes),
    };
    let database = Database::new(MemoryBudget::unlimited());
    for _ in 0..3 {
        let mut transaction = database.begin();
        let columns = COLUMNS
            .iter()
            .map(|(name, sql_type)| ColumnDef::new(*name, *sql_type).not_null())
            .collect();
        let table = transaction.create_table(
            "public",
            "lineitem",
            TableDef {
                columns,
                ..TableDef::default()
            },
        );
        let table = table.expect("the name is free");
        let columns: Vec<usize> = (0..COLUMNS.len()).collect();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let defaults = vec![None; columns.len()];
        let mut loader = CopyLoader::new(
            table.definition(),
            &columns,
            defaults,
            CopyOptions::csv(),
            database.budget(),
        )
        .expect("options");
        for piece in text.chunks(64 << 10) {
            loader.push(piece).expect("rows are sound");
        }
        let loaded = loader.finish().expect("rows are sound");
        let rows = transaction
            .append(table.oid(), loaded.segments)
            .expect("rows are sound");
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let table = transaction.state().table("public", "lineitem").expect("it was created");
        println!(
            "{rows} rows, {} MB in {seconds:.3} s: {:.0} MB/s; {cpu:.3} CPU s: {:.0} MB/s a core; {} MB in memory",
            text.len() / 1_000_000,
            text.len() as f64 / 1e6 / seconds,
            text.len() as f64 / 1e6 / cpu,
            table.bytes() / 1_000_000
        );
    }
}
