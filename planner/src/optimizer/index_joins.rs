//! Which joins look their inner rows up in an index (`IndexJoinExec`): those of a table by equality of an index's first
//! columns, or by bounds of one, where looking the other side's rows up is the cheapest way to join them.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, StatisticsArgs};
use tenon_executor::index::{for_join, is_worth_lookups, scanned_rows_for};
use tenon_executor::join::choice::Choice;
use tenon_executor::join::cost::{IndexInputs, Predicate};
use tenon_executor::join::expected::choose_index;
use tenon_executor::join::{IndexJoinExec, IndexJoinSpec, Lookup};
use tenon_executor::options::{JoinOperator, JoinOptions};
use tenon_executor::scan::ScanExec;

use super::parameters::parameter;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// A join of DataFusion's as far as it matters here.
struct Join<'a> {
    left: &'a Plan,
    right: &'a Plan,
    /// Pairs of keys that must be equal, the left side's first.
    on: &'a [(Expr, Expr)],
    filter: Option<&'a JoinFilter>,
    join_type: JoinType,
    projection: Option<&'a [usize]>,
}

/// What the choice of a join by an index goes by, beside the join.
pub struct Setting {
    pub options: JoinOptions,
    pub cores: usize,
    /// Rows that the planner expects of the join.
    pub expected: Option<usize>,
}

/// `plan` as an `IndexJoinExec`, if it is a join for one; else `plan`.
pub fn replace(plan: Plan, setting: &Setting) -> Result<Plan> {
    let join = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        if join.null_equality() != NullEquality::NullEqualsNothing || join.null_aware {
            return Ok(plan);
        }
        Join {
            left: join.left(),
            right: join.right(),
            on: join.on(),
            filter: join.filter(),
            join_type: *join.join_type(),
            projection: join.projection.as_deref(),
        }
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        Join {
            left: join.left(),
            right: join.right(),
            on: &[],
            filter: join.filter(),
            join_type: *join.join_type(),
            projection: join.projection().as_deref(),
        }
    } else {
        return Ok(plan);
    };
    for outer_side in [JoinSide::Left, JoinSide::Right] {
        if let Some(replaced) = join.indexed(outer_side, setting)? {
            return Ok(replaced);
        }
    }
    Ok(plan)
}

impl Join<'_> {
    fn indexed(&self, outer_side: JoinSide, setting: &Setting) -> Result<Option<Plan>> {
        let (outer, inner) = match outer_side {
            JoinSide::Left => (self.left, self.right),
            _ => (self.right, self.left),
        };
        let Some(scan) = inner.downcast_ref::<ScanExec>() else {
            return Ok(None);
        };
        let Some(budget) = scan.lookup_budget() else {
            return Ok(None);
        };
        if !IndexJoinSpec::is_supported(self.join_type, outer_side) {
            return Ok(None);
        }
        if !is_worth_lookups(scan.table()) {
            return Ok(None);
        }
        let Some(equal) = self.equal(outer_side, (outer, inner))? else {
            return Ok(None);
        };
        let bounds = match self.filter {
            Some(filter) => bounds(filter, outer_side, scan)?,
            None => vec![],
        };
        let Some(choice) = self.choice(outer_side, scan, setting, (&equal, &bounds)) else {
            return Ok(None);
        };
        let column = |inner: &Expr| {
            inner
                .downcast_ref::<Column>()
                .map(|column| scan.columns()[column.index()])
        };
        let columns: Vec<Option<usize>> = equal.iter().map(|(_, inner)| column(inner)).collect();
        let ranged: Vec<usize> = bounds.iter().map(|bound| bound.column).collect();
        let mut known: Vec<usize> = columns.iter().flatten().copied().collect();
        let constants = constants(scan, outer)?;
        known.extend(constants.iter().map(|(column, _)| *column));
        let Some(index) = for_join(scan.table(), &known, &ranged, budget) else {
            return Ok(None);
        };
        let mut lookup = Lookup::default();
        let mut looked_up = vec![];
        for own in &index.equal {
            if let Some(at) = columns.iter().position(|column| column.as_ref() == Some(own)) {
                lookup.equal.push(Arc::clone(&equal[at].0));
                looked_up.push(at);
            } else if let Some((_, value)) = constants.iter().find(|(column, _)| column == own) {
                lookup.equal.push(Arc::clone(value));
            }
        }
        // Every outer row would find the same.
        if looked_up.is_empty() && index.ranged.is_none() {
            return Ok(None);
        }
        let is_forced = setting.options.operator != JoinOperator::Auto;
        if !is_forced && index.ranged.is_none() && finds_more_than_are_read(outer, scan, &index.equal)? {
            return Ok(None);
        }
        let of_next = |low: bool| {
            let mut fitting = bounds
                .iter()
                .filter(|bound| Some(bound.column) == index.ranged && bound.low == low);
            fitting.next().map(|bound| Arc::clone(&bound.expr))
        };
        (lookup.low, lookup.high) = (of_next(true), of_next(false));
        let mut also_equal = vec![];
        for (at, (expr, inner)) in equal.iter().enumerate().filter(|(at, _)| !looked_up.contains(at)) {
            match inner.downcast_ref::<Column>() {
                Some(column) if columns[at].is_some() => also_equal.push((Arc::clone(expr), column.index())),
                _ => return Ok(None),
            }
        }
        let (schema, indices) = build_join_schema(&self.left.schema(), &self.right.schema(), &self.join_type);
        let (schema, output): (Schema, Vec<ColumnIndex>) = match self.projection {
            None => (schema, indices),
            Some(projection) => {
                let output = projection.iter().map(|at| indices[*at].clone()).collect();
                (schema.project(projection)?, output)
            }
        };
        let spec = IndexJoinSpec {
            index: index.name,
            lookup,
            also_equal,
            outer_side,
            join_type: self.join_type,
            filter: self.filter.cloned(),
            output,
        };
        let inner = Arc::new(scan.clone());
        let join = IndexJoinExec::new(
            Arc::clone(outer),
            inner,
            Some(index.reader),
            Arc::new(spec),
            Arc::new(schema),
        );
        Ok(Some(Arc::new(join.with_choice(choice))))
    }

    /// The choice, if it is an index that answers these conditions.
    fn choice(
        &self,
        outer_side: JoinSide,
        inner: &ScanExec,
        setting: &Setting,
        (equal, bounds): (&[(Expr, Expr)], &[Bound]),
    ) -> Option<Choice> {
        let predicate = match (equal, bounds) {
            ([], []) => return None,
            ([], _) => Predicate::Range {
                sorted: opposite(outer_side),
                both_ends: bounds.iter().any(|bound| bound.low) && bounds.iter().any(|bound| !bound.low),
            },
            _ => Predicate::Equality,
        };
        let index = IndexInputs {
            outer: outer_side,
            table_rows: inner.table().rows() as usize,
        };
        let (outer, inner): (Vec<Expr>, Vec<Expr>) = equal.iter().cloned().unzip();
        let keys = match outer_side {
            JoinSide::Left => [&outer[..], &inner[..]],
            _ => [&inner[..], &outer[..]],
        };
        let asked = (&setting.options, setting.cores);
        choose_index([self.left, self.right], keys, predicate, index, setting.expected, asked)
    }

    /// The pairs of equal keys, the outer side's first; None where some have different types.
    fn equal(&self, outer_side: JoinSide, (outer, inner): (&Plan, &Plan)) -> Result<Option<Vec<(Expr, Expr)>>> {
        let mut pairs = vec![];
        for (left, right) in self.on {
            let (own, other) = match outer_side {
                JoinSide::Left => (left, right),
                _ => (right, left),
            };
            if own.data_type(&outer.schema())? != other.data_type(&inner.schema())? {
                return Ok(None);
            }
            pairs.push((Arc::clone(own), Arc::clone(other)));
        }
        Ok(Some(pairs))
    }
}

/// Whether looking up the outer rows by these columns finds so many rows, most of which the inner filters take out again, that
/// reading the whole table costs less.
fn finds_more_than_are_read(outer: &Plan, scan: &ScanExec, columns: &[usize]) -> Result<bool> {
    let outer = StatisticsContext::new().compute(outer.as_ref(), &StatisticsArgs::new())?;
    let (Some(outer), false) = (outer.num_rows.get_value(), scan.given().is_empty()) else {
        return Ok(false);
    };
    let table = scan.table();
    let distinct: f64 = columns
        .iter()
        .map(|column| table.distinct(*column).max(1) as f64)
        .product();
    let found = *outer as f64 * (table.rows() as f64 / distinct).max(1.0);
    Ok(scanned_rows_for(found as usize) as u64 > table.rows())
}

/// The table's columns that a scan's filters say are equal to values, which each outer row is looked up by, too.
fn constants(scan: &ScanExec, outer: &Plan) -> Result<Vec<(usize, Expr)>> {
    let mut found = vec![];
    for conjunct in scan.given().iter().flat_map(split_conjunction) {
        let Some(binary) = conjunct
            .downcast_ref::<BinaryExpr>()
            .filter(|own| *own.op() == Operator::Eq)
        else {
            continue;
        };
        for (column, value) in [(binary.left(), binary.right()), (binary.right(), binary.left())] {
            let Some(own) = column.downcast_ref::<Column>() else {
                continue;
            };
            let changes = |part: &Expr| part.is_volatile_node() && parameter(part).is_none();
            let is_value = collect_columns(value).is_empty() && !value.exists(|part| Ok(changes(part)))?;
            if is_value && value.data_type(&outer.schema())? == column.data_type(scan.full_schema())? {
                found.push((own.index(), Arc::clone(value)));
            }
        }
    }
    Ok(found)
}

fn opposite(side: JoinSide) -> JoinSide {
    if side == JoinSide::Left {
        JoinSide::Right
    } else {
        JoinSide::Left
    }
}

/// A conjunct that bounds a column of the inner table by an expression over the outer side.
struct Bound {
    column: usize,
    low: bool,
    expr: Expr,
}

fn bounds(filter: &JoinFilter, outer_side: JoinSide, scan: &ScanExec) -> Result<Vec<Bound>> {
    let mut found = vec![];
    for conjunct in split_conjunction(filter.expression()) {
        let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else {
            continue;
        };
        let Some(turned) = binary.op().swap() else { continue };
        let views = [
            (binary.left(), *binary.op(), binary.right()),
            (binary.right(), turned, binary.left()),
        ];
        for (inner, op, outer) in views {
            let (low, high) = match op {
                Operator::Gt | Operator::GtEq => (true, false),
                Operator::Lt | Operator::LtEq => (false, true),
                Operator::Eq => (true, true),
                _ => continue,
            };
            let Some(column) = inner.downcast_ref::<Column>() else {
                continue;
            };
            let source = &filter.column_indices()[column.index()];
            let own_side = |column: &Column| filter.column_indices()[column.index()].side == outer_side;
            let same_type = inner.data_type(filter.schema())? == outer.data_type(filter.schema())?;
            if source.side == outer_side || !same_type || !collect_columns(outer).iter().all(own_side) {
                continue;
            }
            let expr = over_outer(outer, filter)?;
            let column = scan.columns()[source.index];
            for low in [low.then_some(true), high.then_some(false)].into_iter().flatten() {
                found.push(Bound {
                    column,
                    low,
                    expr: Arc::clone(&expr),
                });
            }
        }
    }
    Ok(found)
}

/// An expression over the filter's columns as one over the outer side's.
fn over_outer(expr: &Expr, filter: &JoinFilter) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let moved = Arc::clone(expr).transform(|node| {
        let found = node.downcast_ref::<Column>().map(|column| {
            let source = &filter.column_indices()[column.index()];
            Arc::new(Column::new(column.name(), source.index)) as Expr
        });
        Ok(found.map_or(Transformed::no(node), Transformed::yes))
    })?;
    Ok(moved.data)
}
