//! Functions that return sets. Each is a scalar function by name and types, so that DataFusion plans its calls; before
//! anything is optimized, calls become `nodes::ProjectSet`, which asks the function for its rows piece by piece.

mod arrays;
mod list;
mod misc;
pub(crate) mod names;
mod series;
mod subscripts;
mod texts;

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::{regex, text};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;

pub(crate) use list::UNNEST;
pub(crate) use misc::{ONCE, ORDINALITY};

/// A function that returns a set of rows.
pub(crate) trait SetFunction: Debug + Send + Sync {
    /// Its name, which tells it from all others.
    fn name(&self) -> &str;

    /// What the arguments are converted to; an error where it takes none of these types.
    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>>;

    /// A value of the set: a struct for several columns.
    fn field(&self, args: &[FieldRef]) -> Result<FieldRef>;

    /// Whether a NULL among the arguments means no rows.
    fn is_strict(&self) -> bool {
        true
    }

    /// Numbers the rows that the functions beside it give, and ends with them.
    fn is_ordinality(&self) -> bool {
        false
    }

    /// The set for the arguments in one row of `args`.
    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>>;

    /// The same, of a session whose conventions matter to the set.
    fn rows_by(&self, args: &[ArrayRef], row: usize, _: &Conventions) -> Result<Box<dyn SetRows>> {
        self.rows(args, row)
    }
}

/// A set, given out in pieces.
pub(crate) trait SetRows: Send {
    /// The next `most` values; fewer only at the end.
    fn next(&mut self, most: usize) -> Result<ArrayRef>;
}

/// A set function, equal to those of the same name.
#[derive(Clone, Debug)]
pub(crate) struct SetFunctionRef(pub Arc<dyn SetFunction>);

impl PartialEq for SetFunctionRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for SetFunctionRef {}

impl Hash for SetFunctionRef {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.name().hash(hasher);
    }
}

/// A set function as a scalar function, which none of its calls stays.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SetReturning {
    function: SetFunctionRef,
    signature: Signature,
}

pub(crate) fn udf(function: impl SetFunction + 'static) -> ScalarUDF {
    ScalarUDF::new_from_impl(SetReturning {
        function: SetFunctionRef(Arc::new(function)),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

impl ScalarUDFImpl for SetReturning {
    fn name(&self) -> &str {
        self.function.0.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.0.coerce(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("a set function has a field".into()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.function.0.field(args.arg_fields)?;
        Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(to_datafusion(misplaced()))
    }
}

/// A set where one value is wanted.
fn misplaced() -> SqlError {
    SqlError::new(
        state::FEATURE_NOT_SUPPORTED,
        "set-valued function called in context that cannot accept a set",
    )
}

/// The set function that an expression calls.
pub(crate) fn called(expr: &Expr) -> Option<(&ScalarFunction, &SetFunctionRef)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    function(&call.func).map(|function| (call, function))
}

/// The set function behind a scalar function.
pub(crate) fn function(udf: &ScalarUDF) -> Option<&SetFunctionRef> {
    udf.inner()
        .downcast_ref::<SetReturning>()
        .map(|marker| &marker.function)
}

/// No function of that name takes these types (42883).
fn undefined(name: &str, types: &[DataType]) -> DataFusionError {
    let shown = types.iter().map(|data_type| match data_type {
        DataType::Null => "unknown".to_string(),
        known => SqlType::from_data_type(known).map_or_else(|| known.to_string(), |known| known.to_string()),
    });
    let shown: Vec<String> = shown.collect();
    to_datafusion(
        SqlError::new(
            state::UNDEFINED_FUNCTION,
            format!("function {name}({}) does not exist", shown.join(", ")),
        )
        .hint("No function matches the given name and argument types. You might need to add explicit type casts."),
    )
}

pub(crate) fn functions() -> Vec<ScalarUDF> {
    let mut all = vec![
        udf(series::GenerateSeries),
        udf(subscripts::GenerateSubscripts),
        udf(list::Unnest),
        udf(misc::Once),
        udf(misc::Ordinality),
        udf(texts::OfList(regex::regexp_matches())),
        udf(texts::OfList(regex::regexp_split_to_table())),
        udf(texts::OfList(text::string_to_table())),
    ];
    all.extend(arrays::functions());
    all
}
