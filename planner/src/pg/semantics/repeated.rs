//! The one row of a query without groups, several times: `GROUPING SETS ((), ())`. A condition of HAVING says how often.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Filter, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;

/// The condition. No name that a client could write without quotes.
pub(crate) const TIMES: &str = "\u{1}times";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Times {
    signature: Signature,
}

pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Times {
        signature: Signature::any(1, Volatility::Stable),
    })
}

impl ScalarUDFImpl for Times {
    fn name(&self) -> &str {
        TIMES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("rows were to be repeated")
    }
}

#[derive(Debug)]
pub(super) struct RowsAgain;

impl AnalyzerRule for RowsAgain {
    fn name(&self) -> &str {
        "rows_again"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) => repeated(filter),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

fn repeated(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let times = |condition: &Expr| match condition {
        Expr::ScalarFunction(call) if call.name() == TIMES => match call.args.as_slice() {
            [Expr::Literal(ScalarValue::Int64(times), _)] => *times,
            _ => None,
        },
        _ => None,
    };
    let conditions = split_conjunction(&filter.predicate);
    let Some(wanted) = conditions.iter().find_map(|condition| times(condition)) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let others = conditions.into_iter().filter(|condition| times(condition).is_none());
    let columns = filter.input.schema().columns().into_iter().map(Expr::Column);
    let mut rows = LogicalPlanBuilder::from(filter.input.as_ref().clone());
    if let Some(others) = conjunction(others.cloned()) {
        rows = rows.filter(others)?;
    }
    let numbers = LogicalPlanBuilder::values((0..wanted).map(|number| vec![lit(number)]).collect())?;
    rows.cross_join(numbers.alias(TIMES)?.build()?)?
        .project(columns.collect::<Vec<_>>())?
        .build()
        .map(Transformed::yes)
}
