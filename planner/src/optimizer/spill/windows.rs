//! Window functions in plans that go through files.
//!
//! The values of `ntile`, `percent_rank` and `cume_dist` depend on how many rows a partition has, so that DataFusion keeps whole
//! partitions. Here they are computed of what rows can be given as they go by, and of the count of the partition's rows, which
//! are read from a file once more. `lag` and `lead` with a default: [`super::shifted`]. Frames that reach to the end of their partition are turned: [`super::turned`]; those of RANGE and
//! GROUPS with offsets come in steps: [`super::prefixes`].

use super::shifted::Shifted;
use super::{prefixes, turned};
use crate::pg::functions::window::Framed;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::rank::rank_udwf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Window, WindowFrame, WindowFunctionDefinition, cast, lit,
    when,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tenon_executor::options::PlanOptions;

#[derive(Debug)]
pub(crate) struct CountedWindows;

impl OptimizerRule for CountedWindows {
    fn name(&self) -> &str {
        "tenon_counted_windows"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !spills(config) {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Window(window) => match prefixes::staged(window, config)? {
                Some(plan) => Ok(Transformed::yes(
                    plan.transform_up(|node| by_rows(node, config)).data()?,
                )),
                None => by_rows(node, config),
            },
            _ => Ok(Transformed::no(node)),
        })
    }
}

/// A node of window functions that are computed as rows go by, where they can be.
fn by_rows(node: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = &node else {
        return Ok(Transformed::no(node));
    };
    match counted(window, config)? {
        Some(plan) => Ok(Transformed::yes(plan)),
        None => Ok(Transformed::no(node)),
    }
}

/// Whether the plan's operators are to be such that go on through files.
pub(crate) fn spills(config: &dyn OptimizerConfig) -> bool {
    let options = config.options();
    options.extensions.get::<PlanOptions>().is_some_and(|plan| plan.spill)
}

/// What is computed in place of a function.
enum Instead {
    Counted(Counted, Box<WindowFunctionParams>),
    Shifted(Box<Shifted>),
    Turned(Box<WindowFunction>),
}

impl Instead {
    fn of(function: &WindowFunction) -> Option<Self> {
        if let Some(shifted) = Shifted::of(function) {
            return Some(Self::Shifted(Box::new(shifted)));
        }
        match Counted::of(function) {
            Some(kind) => Some(Self::Counted(kind, Box::new(function.params.clone()))),
            None => turned::turned(function).map(|function| Self::Turned(Box::new(function))),
        }
    }
}

#[derive(Clone, Copy)]
enum Counted {
    /// Into so many.
    Tiles(i64),
    PercentRank,
    CumulativeDistribution,
}

impl Counted {
    fn of(function: &WindowFunction) -> Option<Self> {
        let WindowFunctionDefinition::WindowUDF(udf) = &function.fun else {
            return None;
        };
        match (udf.name(), function.params.args.as_slice()) {
            ("ntile", [Expr::Literal(ScalarValue::Int32(Some(tiles)), _)]) if *tiles > 0 => {
                Some(Self::Tiles((*tiles).into()))
            }
            ("percent_rank", []) => Some(Self::PercentRank),
            ("cume_dist", []) => Some(Self::CumulativeDistribution),
            _ => None,
        }
    }

    /// What a row is given as it goes by.
    fn of_row(self, params: WindowFunctionParams) -> Expr {
        let fun = match self {
            Self::Tiles(_) => row_number_udwf().into(),
            Self::PercentRank => rank_udwf().into(),
            // The rows up to the last of this one's peers.
            Self::CumulativeDistribution => {
                let mut count = WindowFunction::new(count_udaf(), vec![lit(1i64)]);
                count.params = WindowFunctionParams {
                    args: count.params.args,
                    window_frame: WindowFrame::new((!params.order_by.is_empty()).then_some(false)),
                    ..params
                };
                return count.into();
            }
        };
        let params = WindowFunctionParams {
            args: Vec::new(),
            ..params
        };
        WindowFunction { fun, params }.into()
    }

    /// Its value, of what the row was given and the partition's rows.
    fn value(self, row: Expr, rows: Expr) -> Result<Expr> {
        let real = |value: Expr| cast(value, DataType::Float64);
        match self {
            Self::Tiles(tiles) => {
                let size = || rows.clone() / lit(tiles);
                let larger = || rows.clone() % lit(tiles);
                let before = || row.clone() - lit(1i64);
                let in_larger = larger() * (size() + lit(1i64));
                let mut tile = when(
                    before().lt(in_larger.clone()),
                    before() / (size() + lit(1i64)) + lit(1i64),
                );
                // Where the tiles have no row but those of the larger ones, there is no other row.
                let other = when(
                    size().gt(lit(0i64)),
                    larger() + (before() - in_larger) / size() + lit(1i64),
                )
                .end()?;
                tile.otherwise(other)
            }
            Self::PercentRank => {
                let others = || rows.clone() - lit(1i64);
                when(others().gt(lit(0i64)), real(row - lit(1i64)) / real(others())).otherwise(lit(0.0f64))
            }
            Self::CumulativeDistribution => Ok(real(row) / real(rows)),
        }
    }
}

/// What a name stands for.
pub(super) fn unnamed(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(named) = expr {
        expr = &named.expr;
    }
    expr
}

/// Whether it is a function of frames that move along the partition: [`super::sliding`].
fn moves(expr: &Expr) -> bool {
    let Expr::WindowFunction(function) = unnamed(expr) else {
        return false;
    };
    match &function.fun {
        WindowFunctionDefinition::WindowUDF(udf) => udf.inner().downcast_ref().is_some_and(Framed::moves),
        WindowFunctionDefinition::AggregateUDF(_) => false,
    }
}

fn count_of_rows() -> Expr {
    Expr::from(WindowFunction::new(count_udaf(), vec![lit(1i64)]))
}

/// The node with such functions as what they are computed of; None where there are none.
fn counted(window: &Window, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let found = |expr: &Expr| match unnamed(expr) {
        Expr::WindowFunction(function) => Instead::of(function),
        _ => None,
    };
    let moving = window.window_expr.iter().filter(|expr| moves(expr)).count();
    let is_mixed = moving > 0 && moving < window.window_expr.len();
    if !is_mixed && !window.window_expr.iter().any(|expr| found(expr).is_some()) {
        return Ok(None);
    }
    let mut outputs: Vec<Expr> = window.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut needed = Needed {
        names: outputs.iter().map(|column| column.schema_name().to_string()).collect(),
        calls: Vec::new(),
    };
    let fields = window.schema.iter().skip(outputs.len());
    for expr in window.window_expr.iter().filter(|expr| found(expr).is_none()) {
        needed.names.push(expr.schema_name().to_string());
        needed.calls.push(expr.clone());
    }
    for (expr, (qualifier, field)) in window.window_expr.iter().zip(fields) {
        let value = match found(expr) {
            None => {
                outputs.push(Expr::Column((qualifier, field).into()));
                continue;
            }
            Some(Instead::Shifted(call)) => call.value(|call| needed.column(call, config))?,
            Some(Instead::Turned(function)) => needed.column(Expr::WindowFunction(function), config),
            Some(Instead::Counted(kind, params)) => {
                let of_partition = count_of_rows()
                    .partition_by(params.partition_by.clone())
                    .window_frame(WindowFrame::new(None))
                    .build()?;
                let mut column = |call| cast(needed.column(call, config), DataType::Int64);
                kind.value(column(kind.of_row(*params)), column(of_partition))?
            }
        };
        outputs.push(cast(value, field.data_type().clone()).alias_qualified(qualifier.cloned(), field.name()));
    }
    let (named, plain): (Vec<Expr>, Vec<Expr>) = needed
        .calls
        .into_iter()
        .partition(|call| matches!(call, Expr::Alias(_)));
    // Beside others, frames that move would be computed over whole partitions.
    let (moving, plain): (Vec<Expr>, Vec<Expr>) = plain.into_iter().partition(moves);
    let mut plan = LogicalPlanBuilder::window_plan(Arc::unwrap_or_clone(Arc::clone(&window.input)), plain)?;
    plan = LogicalPlanBuilder::window_plan(plan, moving)?;
    for call in named {
        plan = LogicalPlanBuilder::from(plan).window([call])?.build()?;
    }
    LogicalPlanBuilder::from(plan).project(outputs)?.build().map(Some)
}

/// Window functions, each once: DataFusion would compute one that is there twice where it cannot.
struct Needed {
    /// Of what is there already.
    names: Vec<String>,
    calls: Vec<Expr>,
}

impl Needed {
    fn column(&mut self, call: Expr, config: &dyn OptimizerConfig) -> Expr {
        let own = call.schema_name().to_string();
        let known = |known: &Expr| match known {
            Expr::Alias(named) if *named.expr == call => Some(named.name.clone()),
            known => (*known == call).then(|| own.clone()),
        };
        if let Some(name) = self.calls.iter().find_map(known) {
            return Expr::Column(Column::new_unqualified(name));
        }
        // Names do not tell all functions apart.
        let (name, call) = match self.names.contains(&own) {
            true => {
                let name = config.alias_generator().next("__window");
                (name.clone(), call.alias(name))
            }
            false => (own, call),
        };
        self.names.push(name.clone());
        self.calls.push(call);
        Expr::Column(Column::new_unqualified(name))
    }
}
