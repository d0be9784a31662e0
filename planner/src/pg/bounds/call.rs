//! A function whose calls are bounded.

use super::arguments::at_most;
use super::check;
use super::sizes::{Growth, Sizes};
use crate::pg::functions::{sequence, sets};
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ExprSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, StructFieldMapping,
};
use std::ops::Range;
use std::sync::Arc;

/// Calls of less are not looked at any further; others go on in pieces of this size, bytes.
const PIECE_BYTES: u64 = 4 << 20;
/// A result longer than this is not made while planning: each step of planning would copy it.
const CONSTANT_BYTES_MAX: u64 = 1 << 20;

/// Functions that are not wrapped: their arguments are looked at lazily, or they are found by their type.
const NEVER: [&str; 12] = [
    "coalesce",
    "get_field",
    "named_struct",
    "struct",
    "row",
    "nvl",
    "nvl2",
    "nullif",
    "checked_add",
    "checked_subtract",
    "checked_multiply",
    "checked_divide",
];

/// The function with its calls bounded; None where that is not for it.
pub(crate) fn wrapped(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    let nothing_given = function.signature().type_signature.supports_zero_argument();
    // A function that returns a set is asked for it piece by piece.
    let never = NEVER.contains(&function.name()) || sets::function(function).is_some() || sequence::is_one(function);
    if nothing_given || never || function.inner().is::<Bounded>() {
        return None;
    }
    let growth = Growth::of(function.name());
    let bounded = Bounded {
        inner: function.clone(),
        growth,
    };
    Some(Arc::new(ScalarUDF::new_from_impl(bounded)))
}

/// A call with its function wrapped.
fn all_wrapped(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(call) => bounded(call),
        other => Transformed::no(other),
    })
}

/// The same of one call.
pub(crate) fn bounded(mut call: ScalarFunction) -> Transformed<Expr> {
    match wrapped(&call.func) {
        Some(wrapped) => {
            call.func = wrapped;
            Transformed::yes(Expr::ScalarFunction(call))
        }
        None => Transformed::no(Expr::ScalarFunction(call)),
    }
}

/// Refuses a call of one row that makes more than there is room for.
pub(crate) fn ask(function: &str, arguments: &[ColumnarValue], result: &DataType) -> Result<()> {
    let growth = Growth::of(function);
    let bytes = Sizes::new(growth, arguments).row(0)?;
    check(growth.asked(bytes, result))
}

/// A function that looks before it leaps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl std::hash::Hash for Bounded {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Bounded {
    /// Bytes that a call with constants makes, if it can be told and is much.
    pub fn width(&self, arguments: &[ScalarValue]) -> u64 {
        let arguments: Vec<ColumnarValue> = arguments.iter().cloned().map(ColumnarValue::Scalar).collect();
        Sizes::new(self.growth, &arguments).row(0).unwrap_or(0)
    }

    fn call(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.growth == Growth::Pad
            && let Some(length) = args.args.get_mut(1)
        {
            *length = not_negative(length);
        }
        self.inner.invoke_with_args(args)
    }

    /// A call with constants only, whose result serves all rows.
    fn once(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = Sizes::new(self.growth, &args.args).row(0)?;
        if bytes > CONSTANT_BYTES_MAX && is_planning() {
            return exec_err!("a constant of {bytes} bytes is made when the query runs");
        }
        check(self.growth.asked(bytes, args.return_field.data_type()))?;
        self.call(args)
    }

    /// A call by pieces, each of a few rows.
    fn by_pieces(&self, args: &ScalarFunctionArgs, sizes: &Sizes<'_>) -> Result<ColumnarValue> {
        let mut made: Vec<ArrayRef> = Vec::new();
        let mut start = 0;
        while start < args.number_rows {
            let (mut end, mut bytes) = (start, 0u64);
            while end < args.number_rows {
                let more = sizes.row(end)?;
                if end > start && bytes.saturating_add(more) > PIECE_BYTES {
                    break;
                }
                bytes = bytes.saturating_add(more);
                end += 1;
            }
            check(self.growth.asked(bytes, args.return_field.data_type()))?;
            made.push(self.call(piece(args, start..end))?.into_array(end - start)?);
            start = end;
        }
        let made = match made.as_slice() {
            [one] => one.clone(),
            several => {
                check(several.iter().map(|array| array.get_array_memory_size() as u64).sum())?;
                let several: Vec<_> = several.iter().map(|array| array.as_ref()).collect();
                concat(&several)?
            }
        };
        Ok(ColumnarValue::Array(made))
    }
}

/// Texts of no length where less is asked for.
fn not_negative(length: &ColumnarValue) -> ColumnarValue {
    match length {
        ColumnarValue::Array(array) => match array.as_primitive_opt::<Int64Type>() {
            Some(lengths) => ColumnarValue::Array(Arc::new(lengths.unary::<_, Int64Type>(|length| length.max(0)))),
            None => length.clone(),
        },
        ColumnarValue::Scalar(ScalarValue::Int64(Some(length))) => {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(*length.max(&0))))
        }
        other => other.clone(),
    }
}

fn piece(args: &ScalarFunctionArgs, rows: Range<usize>) -> ScalarFunctionArgs {
    let cut = |value: &ColumnarValue| match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(rows.start, rows.len())),
        scalar => scalar.clone(),
    };
    ScalarFunctionArgs {
        args: args.args.iter().map(cut).collect(),
        arg_fields: args.arg_fields.clone(),
        number_rows: rows.len(),
        return_field: args.return_field.clone(),
        config_options: args.config_options.clone(),
    }
}

thread_local! {
    static PLANNING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn is_planning() -> bool {
    PLANNING.get()
}

/// Runs a step of planning, in which constants are evaluated.
pub(crate) fn planning<T>(work: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            PLANNING.set(self.0);
        }
    }
    let _back = Back(PLANNING.replace(true));
    work()
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let grows = self.growth != Growth::Plain;
        let given = || {
            let all = args.args.iter().map(|value| at_most(value, args.number_rows));
            all.fold(0u64, u64::saturating_add)
        };
        if !grows && given() <= PIECE_BYTES {
            return self.call(args);
        }
        if args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_))) {
            return self.once(args);
        }
        let sizes = Sizes::new(self.growth, &args.args);
        let mut total = 0u64;
        for row in 0..args.number_rows {
            total = total.saturating_add(sizes.row(row)?);
        }
        if total <= PIECE_BYTES {
            return self.call(args);
        }
        self.by_pieces(&args, &sizes)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        #[expect(deprecated, reason = "a wrapper answers all that its function does")]
        self.inner.inner().display_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[expect(deprecated, reason = "a wrapper answers all that its function does")]
        self.inner.inner().is_nullable(args, schema)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self {
            inner,
            growth: self.growth,
        }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => {
                ExprSimplifyResult::Simplified(expr.transform_up(all_wrapped)?.data)
            }
            original => original,
        })
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn propagate_constraints(&self, interval: &Interval, inputs: &[&Interval]) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.inner().struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }
}
