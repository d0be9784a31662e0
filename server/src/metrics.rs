//! What the server counts and measures, in the text that Prometheus reads (OpenMetrics 1.0).

use crate::serve::Server;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenon_executor::counts::{COUNTS, Fallback, OPERATORS};
use tenon_executor::pipeline::cached_bytes;
use tenon_planner::error::SqlState;
use tenon_storage::heap;

/// Commands that are told apart; all others are the last.
const COMMANDS: [&str; 14] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "FETCH", "BEGIN", "COMMIT", "ROLLBACK", "SET", "SHOW",
    "EXPLAIN", "other",
];

/// The buckets of durations: from 0.1 ms to 52 s.
const SHORTEST_S: f64 = 1e-4;
const BUCKETS: u16 = 20;

type Label = [(&'static str, &'static str); 1];
type Labels = [(&'static str, &'static str); 2];

/// What is counted as it happens, and places for what is looked up when somebody asks.
pub struct Metrics {
    registry: Registry,
    /// Beside `COMMANDS`.
    statements: Vec<Counter>,
    errors: Family<Label, Counter>,
    requests: Histogram,
    pub connections_opened: Counter,
    pub connections_refused: Counter,
    connections: Gauge,
    connections_max: Gauge,
    memory: Family<Label, Gauge>,
    memory_limit: Family<Label, Gauge>,
    long_queries: Gauge,
    long_queries_max: Gauge,
    fragments: Family<Label, Counter>,
    device_joins: Family<Label, Counter>,
    fallbacks: Family<Label, Counter>,
    joins: Family<Labels, Counter>,
    turn_waits: Histogram,
    bus_bytes: Family<Label, Counter>,
    column_bytes: Counter,
    column_seconds: Counter<f64, AtomicU64>,
    log_bytes: Gauge,
    log_number: Gauge,
    log_syncs: Counter,
    store_failed: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tenon");
        let own = &mut registry;
        let statements: Family<Label, Counter> = registered(own, "statements", "Statements that ended well", None);
        let requests = Histogram::new(exponential_buckets(SHORTEST_S, 2.0, BUCKETS));
        let of_requests = "From a client's message to the answer that the server is ready for the next";
        own.register_with_unit("request", of_requests, Unit::Seconds, requests.clone());
        let turn_waits = Histogram::new(exponential_buckets(SHORTEST_S, 2.0, BUCKETS));
        let of_waits = "How long queries waited for a turn to run, those that did not wait too";
        own.register_with_unit("turn_wait", of_waits, Unit::Seconds, turn_waits.clone());
        let of_fallbacks = "Single joins that began on the GPU and that the CPU had to do, by why";
        let of_errors = "Errors that clients were told, by SQLSTATE";
        let of_refused = "Clients refused because there were too many";
        let of_fragments = "Parts of queries for which there was a GPU, by where they ran";
        let of_joins = "Single joins that began on the GPU, by what came of them";
        let of_bus = "Copies between memory and the GPU";
        let of_columns = "Columns of tables that were copied to the GPU, to stay there";
        let of_column_time = "The time that these copies took";
        let of_log_number = "The newest log's number: a checkpoint begins a new one";
        let of_failure = "1: a write to disk failed, and nothing more is committed";
        let bytes = || Some(Unit::Bytes);
        Metrics {
            statements: COMMANDS
                .map(|command| statements.get_or_create(&[("command", command)]).clone())
                .into(),
            requests,
            errors: registered(own, "errors", of_errors, None),
            connections_opened: registered(own, "connections_opened", "Clients let in", None),
            connections_refused: registered(own, "connections_refused", of_refused, None),
            connections: registered(own, "connections", "Clients connected", None),
            connections_max: registered(own, "connections_max", "Clients that may be", None),
            memory: registered(own, "memory", "Memory in use", bytes()),
            memory_limit: registered(own, "memory_limit", "Memory that may be in use", bytes()),
            long_queries: registered(own, "long_queries", "Long queries that run", None),
            long_queries_max: registered(own, "long_queries_max", "Long queries that may", None),
            fragments: registered(own, "fragments", of_fragments, None),
            device_joins: registered(own, "device_joins", of_joins, None),
            fallbacks: registered(own, "device_join_fallbacks", of_fallbacks, None),
            joins: registered(own, "joins", "Joins by operator, and where they ran", None),
            turn_waits,
            bus_bytes: registered(own, "device_bus", of_bus, bytes()),
            column_bytes: registered(own, "device_columns_copied", of_columns, bytes()),
            column_seconds: registered(own, "device_columns_copied", of_column_time, Some(Unit::Seconds)),
            log_bytes: registered(own, "store_log", "The newest log", bytes()),
            log_number: registered(own, "store_log_number", of_log_number, None),
            log_syncs: registered(own, "store_syncs", "Syncs of the log", None),
            store_failed: registered(own, "store_failed", of_failure, None),
            registry,
        }
    }
}

/// A metric that the registry shows under a name.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> M {
    let metric = M::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric.clone()),
        None => registry.register(name, help, metric.clone()),
    }
    metric
}

impl Metrics {
    /// A statement ended, with a command tag such as `INSERT 0 3`.
    pub fn completed(&self, tag: &str) {
        let command = tag.split(' ').next().unwrap_or_default();
        let known = COMMANDS.iter().position(|own| *own == command);
        self.statements[known.unwrap_or(COMMANDS.len() - 1)].inc();
    }

    /// A client was told an error.
    pub fn failed(&self, state: SqlState) {
        self.errors.get_or_create(&[("sqlstate", state.0)]).inc();
    }

    /// A query has waited for its turn.
    pub fn turned(&self, waited: Duration) {
        self.turn_waits.observe(waited.as_secs_f64());
    }

    /// A request was answered.
    pub fn answered(&self, took: Duration) {
        self.requests.observe(took.as_secs_f64());
    }

    /// All of them, as they are now.
    pub fn text(&self, server: &Server) -> String {
        let gauge = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let labelled = |family: &Family<Label, Gauge>, name, value| {
            gauge(&family.get_or_create(&[("purpose", name)]), value);
        };
        let count = |family: &Family<Label, Counter>, label, value| {
            family.get_or_create(&[label]).inner().store(value, Ordering::Relaxed);
        };
        let free = server.connections.available_permits();
        gauge(&self.connections, server.connections_max.saturating_sub(free));
        gauge(&self.connections_max, server.connections_max);

        let budget = server.engine.database().budget();
        labelled(&self.memory, "tables", budget.in_use_bytes());
        labelled(&self.memory, "queries", heap::held_bytes());
        labelled(&self.memory, "pinned", server.engine.pinned_bytes());
        labelled(&self.memory, "device_columns", cached_bytes() as usize);
        labelled(&self.memory_limit, "tables", budget.limit_bytes());
        labelled(
            &self.memory_limit,
            "queries",
            server.engine.options().query_memory_limit_bytes,
        );

        let (long, long_max) = server.engine.long_queries();
        gauge(&self.long_queries, long);
        gauge(&self.long_queries_max, long_max);

        count(&self.fragments, ("ran", "device"), COUNTS.fragments_on_device.get());
        count(&self.fragments, ("ran", "cpu"), COUNTS.fragments_on_cpu.get());
        count(&self.device_joins, ("ran", "device"), COUNTS.joins_on_device.get());
        count(&self.device_joins, ("ran", "fell_back"), COUNTS.joins_fallen_back.get());
        for why in Fallback::ALL {
            count(&self.fallbacks, ("why", why.name()), COUNTS.fallbacks(why).get());
        }
        for (operator, name) in OPERATORS.into_iter().enumerate() {
            for (on_gpu, device) in [(false, "cpu"), (true, "gpu")] {
                let labels = [("operator", name), ("device", device)];
                let counted = COUNTS.joins(operator, on_gpu).get();
                let counter = self.joins.get_or_create(&labels);
                counter.inner().store(counted, Ordering::Relaxed);
            }
        }
        count(&self.bus_bytes, ("to", "device"), COUNTS.bytes_to_device.get());
        count(&self.bus_bytes, ("to", "host"), COUNTS.bytes_from_device.get());
        self.column_bytes
            .inner()
            .store(COUNTS.column_bytes.get(), Ordering::Relaxed);
        let seconds = COUNTS.column_ns.get() as f64 / 1e9;
        self.column_seconds.inner().store(seconds.to_bits(), Ordering::Relaxed);

        if let Some(store) = server.engine.database().store() {
            let (number, bytes) = store.log();
            gauge(&self.log_bytes, bytes as usize);
            gauge(&self.log_number, number as usize);
            self.log_syncs.inner().store(store.syncs(), Ordering::Relaxed);
            gauge(&self.store_failed, usize::from(store.has_failed()));
        }
        let mut text = String::new();
        // A String takes all that is written.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
