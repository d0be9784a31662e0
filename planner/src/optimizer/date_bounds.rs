//! Dates beside constant points in time, as dates beside dates: zone maps, indexes and statistics know a plain column.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use tenon_storage::datetime::Zone;

use crate::pg::conventions;
use crate::pg::functions::datetime::{compared_date, first_date_from};

/// `day < timestamp '1995-01-01 12:00'` as `day < date '1995-01-02'`, in conditions of filters and joins.
#[derive(Debug, Default)]
pub struct DateBounds;

impl OptimizerRule for DateBounds {
    fn name(&self) -> &str {
        "date_bounds"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_) => {
                let options = config.options();
                plan.map_expressions(|expr| {
                    expr.transform_up(|expr| {
                        Ok(match rewritten(&expr, || conventions::of(&options).zone.clone()) {
                            Some(bound) => Transformed::yes(bound),
                            None => Transformed::no(expr),
                        })
                    })
                })
            }
            plan => Ok(Transformed::no(plan)),
        }
    }
}

fn rewritten(expr: &Expr, zone: impl FnOnce() -> Zone) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return None;
    };
    let (compared, op, constant) = match (left.as_ref(), right.as_ref()) {
        (compared, Expr::Literal(constant, _)) => (compared, *op, constant),
        (Expr::Literal(constant, _), compared) => (compared, op.swap()?, constant),
        _ => return None,
    };
    let ScalarValue::TimestampMicrosecond(Some(instant_us), _) = *constant else {
        return None;
    };
    let (date, zoned) = compared_date(compared)?;
    let zone = zoned.then(zone);
    let first_from = |instant_us| first_date_from(instant_us, zone.as_ref());
    let (op, days) = match op {
        Operator::Lt | Operator::GtEq => (op, first_from(instant_us)?.0),
        Operator::LtEq | Operator::Gt => (op, first_from(instant_us.checked_add(1)?)?.0 - 1),
        // Where a date begins at that instant, and no other does.
        Operator::Eq | Operator::NotEq => {
            let (days, begins) = first_from(instant_us)?;
            let (next, _) = first_from(instant_us.checked_add(1)?)?;
            (begins == instant_us && next == days + 1).then_some((op, days))?
        }
        _ => return None,
    };
    let bound = Expr::Literal(ScalarValue::Date32(Some(days)), None);
    let date = Box::new(date.clone());
    Some(Expr::BinaryExpr(BinaryExpr::new(date, op, Box::new(bound))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::functions::datetime::{STAMP, STAMPTZ, comparable};
    use datafusion::arrow::array::Date32Array;
    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::col;
    use datafusion::prelude::SessionContext;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    /// Both forms hold for the same dates.
    #[test]
    fn bounds_are_the_comparisons() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let schema = Schema::new(vec![Field::new("day", DataType::Date32, true)]);
        let context = SessionContext::new();
        let mut made = 0;
        for round in 0..400 {
            let zoned = round % 2 == 1;
            let around: i32 = random.random_range(-800_000..800_000);
            let days = (-4..5).map(|offset| Some(around + offset));
            let days: Vec<Option<i32>> = days.chain([None, Some(i32::MAX), Some(i32::MIN)]).collect();
            let batch =
                RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(Date32Array::from(days))]).unwrap();
            let within = if random.random() {
                0
            } else {
                random.random_range(-90_000_000_000..90_000_000_000)
            };
            let instant = i64::from(around) * 86_400_000_000 + within;
            let ops = [
                Operator::Lt,
                Operator::LtEq,
                Operator::Gt,
                Operator::GtEq,
                Operator::Eq,
                Operator::NotEq,
            ];
            let op = ops[random.random_range(0..ops.len())];
            let stamp = if zoned { STAMPTZ.clone() } else { STAMP };
            let zone = match &stamp {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            };
            let left = comparable(col("day"), stamp);
            let right = Expr::Literal(ScalarValue::TimestampMicrosecond(Some(instant), zone), None);
            let plain = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
            let Some(bound) = rewritten(&plain, || conventions::of(&Default::default()).zone.clone()) else {
                continue;
            };
            made += 1;
            let schema = schema.clone().try_into().unwrap();
            let value = |expr: Expr| {
                let expr = context.create_physical_expr(expr, &schema).unwrap();
                expr.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap()
            };
            assert_eq!(&value(plain.clone()), &value(bound.clone()), "{plain} became {bound}");
        }
        assert!(made > 200, "{made} comparisons became bounds");
    }
}
