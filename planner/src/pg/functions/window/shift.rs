//! `lag` and `lead` whose offset or default are expressions.

use crate::pg::functions::datetime::{STAMP, STAMPTZ};
use crate::pg::numeric::Class;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};
use std::sync::Arc;
use tenon_storage::types::NUMERIC;

/// `lag(value, offset, default)`, or `lead`.
pub(super) fn shift(name: &'static str) -> WindowUDF {
    WindowUDF::new_from_impl(Shift {
        name,
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// Whether the function is one of these; true for `lead`.
pub(crate) fn direction(function: &WindowUDF) -> Option<bool> {
    let shift: &Shift = function.inner().downcast_ref()?;
    Some(shift.name == "lead")
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    name: &'static str,
    signature: Signature,
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, offset, rest @ ..] = types else {
            return plan_err!("{} takes two or three arguments", self.name);
        };
        if !offset.is_integer() && !offset.is_null() {
            return plan_err!("No function matches the given name and argument types '{}'", self.name);
        }
        let mut coerced = vec![value.clone(), DataType::Int64];
        if let [default] = rest {
            if [value, default].contains(&&NUMERIC) && [value, default].into_iter().all(is_number) {
                // `numeric::unify` gives both one type, to which DataFusion has no cast.
                return Ok(vec![value.clone(), DataType::Int64, default.clone()]);
            }
            let Some(common) = common_type(value, default) else {
                return plan_err!("No function matches the given name and argument types '{}'", self.name);
            };
            coerced = vec![common.clone(), DataType::Int64, common];
        }
        Ok(coerced)
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let floats = args
            .get_input_field(2)
            .filter(|default| default.data_type().is_floating());
        match args.get_input_field(0) {
            // Beside a float it becomes one.
            Some(field) if *field.data_type() == NUMERIC && floats.is_some() => {
                Ok(Arc::new(Field::new(args.name(), DataType::Float64, true)))
            }
            Some(field) => Ok(Arc::new(
                field.as_ref().clone().with_name(args.name()).with_nullable(true),
            )),
            None => plan_err!("{} takes two or three arguments", self.name),
        }
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Shifted {
            forward: self.name == "lead",
        }))
    }
}

/// The type that a value and its default have in common.
fn common_type(value: &DataType, default: &DataType) -> Option<DataType> {
    match (value, default) {
        (value, default) if value == default => Some(value.clone()),
        (value, DataType::Null) => Some(value.clone()),
        (DataType::Null, default) => Some(default.clone()),
        // An untyped constant becomes what the value is.
        (value, DataType::Utf8 | DataType::Utf8View) => Some(value.clone()),
        (value, default) if *value == *STAMPTZ && is_local(default) || *default == *STAMPTZ && is_local(value) => {
            Some(STAMPTZ.clone())
        }
        (value, default) => type_union_coercion(value, default),
    }
}

/// Whether it is a time of no zone.
fn is_local(of: &DataType) -> bool {
    *of == DataType::Date32 || *of == STAMP
}

fn is_number(of: &DataType) -> bool {
    Class::of(of).is_exact() || of.is_floating()
}

#[derive(Debug)]
struct Shifted {
    forward: bool,
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let offsets = values[1].as_primitive::<Int64Type>();
        let null = datafusion::arrow::array::new_null_array(values[0].data_type(), 1);
        let mut sources: Vec<&dyn Array> = vec![null.as_ref(), values[0].as_ref()];
        sources.extend(values.get(2).map(|default| default.as_ref()));
        let places: Vec<(usize, usize)> = (0..rows)
            .map(|row| {
                if offsets.is_null(row) {
                    return (0, 0);
                }
                let distance = i128::from(offsets.value(row));
                let source = row as i128 + if self.forward { distance } else { -distance };
                match usize::try_from(source) {
                    Ok(source) if source < rows => (1, source),
                    _ if sources.len() > 2 => (2, row),
                    _ => (0, 0),
                }
            })
            .collect();
        Ok(interleave(&sources, &places)?)
    }
}
