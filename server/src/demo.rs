//! The TPC-H tables, generated in process straight into storage.

use crate::progress::Progress;
use anyhow::Context;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tenon_storage::{ColumnDef, Database, Segment, TableDef, TableWriter};
use tpchgen::generators::*;
use tpchgen_arrow::*;

/// Rows of a part at most: one segment's.
const PART_ROWS_MAX: f64 = 1_048_576.0;
/// Smaller tables are not split for the threads' sake.
const PART_ROWS_MIN: f64 = 50_000.0;
const BATCH_ROWS: usize = 32_768;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

struct Table {
    name: &'static str,
    /// Rows at scale factor 1; below 100 the table does not grow.
    rows: f64,
    /// `name type` with commas between them, all NOT NULL.
    columns: &'static str,
    key: &'static [&'static str],
    /// Scale factor, part (from 1) and parts to the part's rows.
    generate: fn(f64, i32, i32) -> Batches,
}

macro_rules! generate {
    ($generator:ident, $arrow:ident) => {
        |factor, part, parts| {
            Box::new($arrow::new($generator::new(factor, part, parts)).with_batch_size(BATCH_ROWS)) as Batches
        }
    };
}

/// The largest first, so that no thread ends with it.
const TABLES: &[Table] = &[
    Table {
        name: "lineitem",
        rows: 6_001_215.0,
        columns: "l_orderkey bigint,l_partkey integer,l_suppkey integer,l_linenumber integer,\
                  l_quantity numeric(15;2),l_extendedprice numeric(15;2),l_discount numeric(15;2),l_tax numeric(15;2),\
                  l_returnflag char(1),l_linestatus char(1),l_shipdate date,l_commitdate date,l_receiptdate date,\
                  l_shipinstruct char(25),l_shipmode char(10),l_comment varchar(44)",
        key: &["l_orderkey", "l_linenumber"],
        generate: generate!(LineItemGenerator, LineItemArrow),
    },
    Table {
        name: "orders",
        rows: 1_500_000.0,
        columns: "o_orderkey bigint,o_custkey integer,o_orderstatus char(1),o_totalprice numeric(15;2),\
                  o_orderdate date,o_orderpriority char(15),o_clerk char(15),o_shippriority integer,\
                  o_comment varchar(79)",
        key: &["o_orderkey"],
        generate: generate!(OrderGenerator, OrderArrow),
    },
    Table {
        name: "partsupp",
        rows: 800_000.0,
        columns: "ps_partkey integer,ps_suppkey integer,ps_availqty integer,ps_supplycost numeric(15;2),\
                  ps_comment varchar(199)",
        key: &["ps_partkey", "ps_suppkey"],
        generate: generate!(PartSuppGenerator, PartSuppArrow),
    },
    Table {
        name: "part",
        rows: 200_000.0,
        columns: "p_partkey integer,p_name varchar(55),p_mfgr char(25),p_brand char(10),p_type varchar(25),\
                  p_size integer,p_container char(10),p_retailprice numeric(15;2),p_comment varchar(23)",
        key: &["p_partkey"],
        generate: generate!(PartGenerator, PartArrow),
    },
    Table {
        name: "customer",
        rows: 150_000.0,
        columns: "c_custkey integer,c_name varchar(25),c_address varchar(40),c_nationkey integer,c_phone char(15),\
                  c_acctbal numeric(15;2),c_mktsegment char(10),c_comment varchar(117)",
        key: &["c_custkey"],
        generate: generate!(CustomerGenerator, CustomerArrow),
    },
    Table {
        name: "supplier",
        rows: 10_000.0,
        columns: "s_suppkey integer,s_name char(25),s_address varchar(40),s_nationkey integer,s_phone char(15),\
                  s_acctbal numeric(15;2),s_comment varchar(101)",
        key: &["s_suppkey"],
        generate: generate!(SupplierGenerator, SupplierArrow),
    },
    Table {
        name: "nation",
        rows: 25.0,
        columns: "n_nationkey integer,n_name char(25),n_regionkey integer,n_comment varchar(152)",
        key: &["n_nationkey"],
        generate: generate!(NationGenerator, NationArrow),
    },
    Table {
        name: "region",
        rows: 5.0,
        columns: "r_regionkey integer,r_name char(25),r_comment varchar(152)",
        key: &["r_regionkey"],
        generate: generate!(RegionGenerator, RegionArrow),
    },
];

impl Table {
    fn rows_at(&self, factor: f64) -> f64 {
        if self.rows < 100.0 {
            self.rows
        } else {
            self.rows * factor
        }
    }

    fn parts(&self, factor: f64, threads: usize) -> i32 {
        let rows = self.rows_at(factor);
        (rows / PART_ROWS_MAX)
            .ceil()
            .max((rows / PART_ROWS_MIN).floor().min(threads as f64))
            .max(1.0) as i32
    }

    fn definition(&self) -> anyhow::Result<TableDef> {
        let column = |text: &str| {
            let (name, sql_type) = text
                .trim()
                .split_once(' ')
                .with_context(|| format!("no type in {text:?}"))?;
            Ok(ColumnDef::new(name, sql_type.replace(';', ",").parse()?).not_null())
        };
        Ok(TableDef {
            columns: self.columns.split(',').map(column).collect::<anyhow::Result<_>>()?,
            primary_key: self.key.iter().map(|name| name.to_string()).collect(),
            ..TableDef::default()
        })
    }
}

/// One part of one table to generate, and its segments once that is done.
struct Job {
    table: &'static Table,
    oid: u32,
    part: i32,
    parts: i32,
    writer: Option<TableWriter>,
    segments: Vec<Arc<Segment>>,
}

/// Creates the eight tables in `public` and fills them. Gives the rows and the time.
pub fn load(database: &Arc<Database>, factor: f64, threads: usize) -> anyhow::Result<(u64, Duration)> {
    let mut transaction = database.begin();
    let mut jobs = Vec::new();
    for table in TABLES {
        let created = transaction.create_table("public", table.name, table.definition()?)?;
        let parts = table.parts(factor, threads);
        jobs.extend((1..=parts).map(|part| Job {
            table,
            oid: created.oid(),
            part,
            parts,
            writer: Some(transaction.writer(&created)),
            segments: Vec::new(),
        }));
    }
    let total: f64 = TABLES.iter().map(|table| table.rows_at(factor)).sum();
    let progress = Progress::new(&format!("TPC-H scale factor {factor}"), total as u64, false);

    let queue: Vec<_> = jobs.into_iter().map(std::sync::Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(job) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Ok(mut job) = job.lock() else {
                anyhow::bail!("a generator thread failed")
            };
            let Some(mut writer) = job.writer.take() else { continue };
            for batch in (job.table.generate)(factor, job.part, job.parts) {
                let batch = batch?;
                writer.append(&batch)?;
                progress.add(batch.num_rows() as u64);
            }
            job.segments = writer.finish()?;
        }
        Ok(())
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a generator thread failed"))??;
        }
        Ok(())
    })?;

    let mut rows = 0;
    let mut jobs = queue.into_iter().filter_map(|job| job.into_inner().ok()).peekable();
    while let Some(mut job) = jobs.next() {
        let mut segments = std::mem::take(&mut job.segments);
        while let Some(more) = jobs.next_if(|next| next.oid == job.oid) {
            segments.extend(more.segments);
        }
        rows += transaction.append(job.oid, segments)?;
    }
    transaction.commit()?;
    Ok((rows, progress.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_storage::MemoryBudget;

    #[test]
    fn all_tables_have_their_rows_and_types() {
        let database = Database::new(MemoryBudget::unlimited());
        let (rows, _) = load(&database, 0.01, 2).unwrap();
        let state = database.snapshot();
        let count = |name| state.table("public", name).unwrap().rows();
        assert_eq!(count("lineitem"), 60_175);
        assert_eq!(count("orders"), 15_000);
        assert_eq!(count("partsupp"), 8_000);
        assert_eq!(
            (count("part"), count("customer"), count("supplier")),
            (2_000, 1_500, 100)
        );
        assert_eq!((count("nation"), count("region")), (25, 5));
        assert_eq!(rows, TABLES.iter().map(|table| count(table.name)).sum::<u64>());
        let lineitem = state.table("public", "lineitem").unwrap();
        assert!(lineitem.schema().fields().iter().all(|field| !field.is_nullable()));
        assert_eq!(lineitem.definition().primary_key.as_ref().unwrap().columns, [0, 3]);
    }
}
