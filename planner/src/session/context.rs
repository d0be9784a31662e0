//! DataFusion's state, built once and shared by all sessions: rules, functions, options. Optimizer rules of Tenon are
//! plugged in here.

use crate::catalog::bind::Binder;
use crate::optimizer;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_datafusion;
use crate::pg::semantics;
use crate::pg::types::planner::PgTypePlanner;
use crate::session::engine::EngineOptions;
use crate::session::spill_files::SpillFiles;
use crate::session::stopped_pool::StoppedPool;
use datafusion::common::config::Dialect;
use datafusion::execution::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, TrackConsumersPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tenon_executor::options::JoinOptions;
use tenon_executor::test_hooks;

pub(crate) fn build(options: &EngineOptions) -> Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.target_partitions.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        // A batch costs each operator a few microseconds; 16 k rows of a few columns still fit the L2 cache.
        .with_batch_size(test_hooks::batch_rows().unwrap_or(16 * 1024))
        .with_extension(Arc::new(JoinOptions {
            gpu_memory_limit_bytes: options.gpu_memory_limit_bytes,
            ..JoinOptions::default()
        }));
    let settings = config.options_mut();
    settings.extensions.insert(JoinOptions::default().plan_options());
    settings.sql_parser.dialect = Dialect::PostgreSQL;
    settings.sql_parser.parse_float_as_decimal = true;
    // Which orders matter is ours to say: see `semantics::unseen_orders`.
    settings.sql_parser.enable_subquery_sort_elimination = false;
    settings.optimizer.prefer_hash_join = !test_hooks::through_files();
    settings.execution.time_zone = Some("UTC".into());
    // Constants of subqueries are nullable in the one plan and not in the other.
    settings.execution.skip_physical_aggregate_schema_check = true;
    let pool: Arc<dyn MemoryPool> = match NonZeroUsize::new(5) {
        Some(told) if options.query_memory_limit_bytes < usize::MAX => Arc::new(TrackConsumersPool::new(
            GreedyMemoryPool::new(options.query_memory_limit_bytes),
            told,
        )),
        _ => Arc::new(UnboundedMemoryPool::default()),
    };
    let pool = Arc::new(StoppedPool(pool));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .with_disk_manager_builder(disk(options)?)
        .build_arc()
        .map_err(|error| from_datafusion(&error))?;
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_type_planner(Arc::new(PgTypePlanner))
        .with_expr_planners(crate::pg::functions::expr_planners())
        .with_relation_planners(vec![Binder::relation_planner()])
        .with_query_planner(Arc::new(optimizer::TenonQueryPlanner))
        .with_optimizer_rules(optimizer::rules::logical())
        .with_physical_optimizer_rules(optimizer::rules::physical());
    let mut state = semantics::install(builder).build();
    crate::pg::functions::register(&mut state).map_err(|error| from_datafusion(&error))?;
    Ok(state)
}

/// Memory for queries for which a merge reads one more file at a time, bytes.
const MERGED_FILE_BYTES: usize = 8 << 20;

fn disk(options: &EngineOptions) -> Result<DiskManagerBuilder> {
    let Some(spill) = &options.spill else {
        return Ok(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled));
    };
    let directory = spill.directory.display();
    let files = SpillFiles::new(&spill.directory, spill.limit_bytes)
        .map_err(|error| SqlError::new(state::IO_ERROR, format!("cannot make files in {directory}: {error}")))?;
    // Each file in a merge takes two batches, also where the other sorts' merges are yet to come.
    let fan_in = (options.query_memory_limit_bytes / MERGED_FILE_BYTES).clamp(8, 64);
    Ok(DiskManagerBuilder::default()
        .with_max_spill_merge_fan_in(fan_in)
        .with_temp_file_factory(Arc::new(files)))
}
