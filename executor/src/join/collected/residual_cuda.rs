//! A join's filter as C++ for the kernels that find pairs.
//!
//! Translated: columns and literals of integers, dates, times, decimals, floats and booleans; comparisons, AND, OR, NOT,
//! IS NULL, IN lists with SQL's three values of truth; + - * and widening casts where the ranges of the columns at hand
//! prove that nothing overflows, so that an error of the filter is never lost. Floats compare in Arrow's total order
//! with both zeros equal, as they do on the host. Anything else stays on the host, with the reason.

use std::collections::HashMap;
use std::fmt::Write;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{JoinSide, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;
use tenon_gpu::join::{RESIDUAL_BUFFERS_MAX, RESIDUAL_LITERALS_MAX, Residual};
use tenon_gpu::memory::{DeviceBuffer, DevicePtr};
use tenon_gpu::{Result as GpuResult, Stream};

use super::residual_types::{Range, Translated, c_type, combined, scales_agree, type_range, values};

/// A filter that the device can test.
pub struct CompiledFilter {
    body: String,
    literals: Vec<u64>,
    buffers: Vec<Buffer>,
}

/// Floats as integers in Arrow's total order, with both zeros equal.
const FUNCTIONS: &str = "
TENON_DEVICE i64 total_order(f64 v) { i64 b = bit_cast<i64>(v == 0 ? (f64)0 : v); return b ^ (i64)((u64)(b >> 63) >> 1); }
TENON_DEVICE i32 total_order(f32 v) { i32 b = bit_cast<i32>(v == 0 ? (f32)0 : v); return b ^ (i32)((u32)(b >> 31) >> 1); }
";

impl CompiledFilter {
    /// Translates a filter over these columns. `own` is the side that the kernels call the build side.
    pub fn of<'a>(
        filter: &JoinFilter,
        own: JoinSide,
        columns: impl Fn(JoinSide, usize) -> Option<&'a ArrayRef>,
    ) -> Translated<Self> {
        let mut inputs = vec![];
        for index in filter.column_indices() {
            let column = columns(index.side, index.index).ok_or("a column that is not there")?;
            let row = if index.side == own { "build_row" } else { "probe_row" };
            inputs.push((column, row));
        }
        let mut translator = Translator {
            inputs,
            schema: filter.schema(),
            lines: String::new(),
            values: 0,
            literals: vec![],
            buffers: vec![],
            columns: HashMap::new(),
        };
        let result = translator.boolean(filter.expression())?;
        let body = format!("{}return {};", translator.lines, result.is_true());
        if translator.buffers.len() > RESIDUAL_BUFFERS_MAX || translator.literals.len() > RESIDUAL_LITERALS_MAX {
            return Err("a filter of too many columns and literals".into());
        }
        Ok(Self {
            body,
            literals: translator.literals,
            buffers: translator.buffers,
        })
    }

    /// Bytes that go to the device.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.len() as u64).sum()
    }

    pub fn upload(&self, stream: &Stream, bytes: &mut u64) -> GpuResult<Vec<DeviceBuffer<u8>>> {
        *bytes += self.bytes();
        self.buffers
            .iter()
            .map(|buffer| stream.upload(buffer.as_slice()))
            .collect()
    }

    /// `inputs` are what `upload` gave.
    pub fn residual(&self, inputs: &[DeviceBuffer<u8>]) -> Residual {
        Residual {
            body: self.body.clone(),
            functions: FUNCTIONS.into(),
            buffers: inputs.iter().map(|input| DevicePtr::new(input.ptr().0)).collect(),
            literals: self.literals.clone(),
        }
    }
}

/// A value in the kernel: C++ expressions for it and for whether it is null.
#[derive(Clone)]
struct Value {
    data_type: DataType,
    value: String,
    /// None: never null.
    null: Option<String>,
    /// Of whole numbers and decimals: what the unscaled value can be.
    range: Option<Range>,
}

impl Value {
    fn is_true(&self) -> String {
        match &self.null {
            Some(null) => format!("(!{null} && {})", self.value),
            None => self.value.clone(),
        }
    }

    fn is_false(&self) -> String {
        match &self.null {
            Some(null) => format!("(!{null} && !{})", self.value),
            None => format!("!{}", self.value),
        }
    }
}

struct Translator<'a> {
    /// By column of the filter: the values, and the kernel's name for the row.
    inputs: Vec<(&'a ArrayRef, &'static str)>,
    schema: &'a SchemaRef,
    lines: String,
    values: usize,
    literals: Vec<u64>,
    buffers: Vec<Buffer>,
    columns: HashMap<usize, Value>,
}

impl Translator<'_> {
    fn boolean(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let value = self.translate(expr)?;
        match value.data_type {
            DataType::Boolean => Ok(value),
            other => Err(format!("a condition of {other}")),
        }
    }

    fn translate(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.column(column.index());
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.literal(literal.value());
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let inner = self.boolean(not.arg())?;
            let value = format!("!{}", inner.value);
            return Ok(self.define("bool", value, inner.null, DataType::Boolean, None));
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            let inner = self.translate(is_null.arg())?;
            let value = inner.null.unwrap_or_else(|| "false".into());
            return Ok(self.define("bool", value, None, DataType::Boolean, None));
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            let inner = self.translate(is_not_null.arg())?;
            let value = inner.null.map_or_else(|| "true".into(), |null| format!("!{null}"));
            return Ok(self.define("bool", value, None, DataType::Boolean, None));
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let inner = self.translate(cast.expr())?;
            return self.cast(inner, cast.cast_type());
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
            && let [left, right] = call.args()
        {
            let op = match call.name() {
                "checked_add" => Operator::Plus,
                "checked_subtract" => Operator::Minus,
                "checked_multiply" => Operator::Multiply,
                name => return Err(format!("the filter calls {name}")),
            };
            let (left, right) = (self.translate(left)?, self.translate(right)?);
            return self.arithmetic(left, op, right, call.return_type());
        }
        Err(format!("the filter has {expr}"))
    }

    /// A name for a value.
    fn define(
        &mut self,
        c_type: &str,
        value: String,
        null: Option<String>,
        data_type: DataType,
        range: Option<Range>,
    ) -> Value {
        let name = format!("v{}", self.values);
        self.values += 1;
        let _ = write!(self.lines, "{c_type} {name} = {value};\n    ");
        Value {
            data_type,
            value: name,
            null,
            range,
        }
    }

    /// A name for whether something is null.
    fn define_null(&mut self, null: String) -> String {
        let name = format!("n{}", self.values);
        self.values += 1;
        let _ = write!(self.lines, "bool {name} = {null};\n    ");
        name
    }

    fn either_null(&mut self, left: &Value, right: &Value) -> Option<String> {
        match (&left.null, &right.null) {
            (None, None) => None,
            (Some(null), None) | (None, Some(null)) => Some(null.clone()),
            (Some(left), Some(right)) => {
                let null = format!("{left} || {right}");
                Some(self.define_null(null))
            }
        }
    }

    fn column(&mut self, index: usize) -> Translated<Value> {
        if let Some(value) = self.columns.get(&index) {
            return Ok(value.clone());
        }
        let (array, row) = *self.inputs.get(index).ok_or("a column that is not there")?;
        let c_type = c_type(array.data_type())?;
        let (buffer, stored, range) = values(array)?;
        let at = self.buffers.len();
        self.buffers.push(buffer);
        let value = match stored {
            "bit" => format!("p.bit({at}, {row})"),
            _ => format!("({c_type})p.value<{stored}>({at}, {row})"),
        };
        let null = array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| {
            self.buffers.push(nulls.inner().sliced());
            format!("!p.bit({}, {row})", at + 1)
        });
        let null = null.map(|null| self.define_null(null));
        let value = self.define(c_type, value, null, array.data_type().clone(), range);
        self.columns.insert(index, value.clone());
        Ok(value)
    }

    fn literal(&mut self, scalar: &ScalarValue) -> Translated<Value> {
        let data_type = scalar.data_type();
        let c_type = c_type(&data_type)?;
        if scalar.is_null() {
            let zero = format!("({c_type})0");
            return Ok(self.define(c_type, zero, Some("true".into()), data_type, None));
        }
        let at = self.literals.len();
        let array = scalar.to_array().map_err(|error| error.to_string())?;
        let (buffer, stored, range) = values(&array)?;
        let mut bytes = [0; 16];
        bytes[..buffer.len().min(16)].copy_from_slice(&buffer.as_slice()[..buffer.len().min(16)]);
        let word = |half: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[half * 8 + i]));
        self.literals.push(word(0));
        let value = match stored {
            "bit" => format!("(p.literal<u8>({at}) & 1) != 0"),
            "i128" => {
                self.literals.push(word(1));
                format!(
                    "(i128)(((u128)p.literal<u64>({}) << 64) | p.literal<u64>({at}))",
                    at + 1
                )
            }
            _ => format!("({c_type})p.literal<{stored}>({at})"),
        };
        Ok(self.define(c_type, value, None, data_type, range))
    }

    fn binary(&mut self, binary: &BinaryExpr) -> Translated<Value> {
        match binary.op() {
            op @ (Operator::And | Operator::Or) => {
                let (left, right) = (self.boolean(binary.left())?, self.boolean(binary.right())?);
                Ok(self.connect(*op, &left, &right))
            }
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                let data_type = binary.data_type(self.schema).map_err(|error| error.to_string())?;
                let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
                self.arithmetic(left, *binary.op(), right, &data_type)
            }
            op => {
                let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
                self.compare(&left, *op, &right)
            }
        }
    }

    /// AND and OR of three values: one operand that decides outweighs a null.
    fn connect(&mut self, op: Operator, left: &Value, right: &Value) -> Value {
        let and = op == Operator::And;
        let value = match and {
            true => format!("{} && {}", left.is_true(), right.is_true()),
            false => format!("{} || {}", left.is_true(), right.is_true()),
        };
        let decided = match and {
            true => format!("({} || {})", left.is_false(), right.is_false()),
            false => format!("({} || {})", left.is_true(), right.is_true()),
        };
        let null = self
            .either_null(left, right)
            .map(|null| self.define_null(format!("{null} && !{decided}")));
        self.define("bool", value, null, DataType::Boolean, None)
    }

    fn compare(&mut self, left: &Value, op: Operator, right: &Value) -> Translated<Value> {
        let sign = match op {
            Operator::Eq | Operator::IsNotDistinctFrom => "==",
            Operator::NotEq | Operator::IsDistinctFrom => "!=",
            Operator::Lt => "<",
            Operator::LtEq => "<=",
            Operator::Gt => ">",
            Operator::GtEq => ">=",
            other => return Err(format!("the filter has {other}")),
        };
        if left.data_type != right.data_type {
            return Err(format!(
                "the filter compares {} and {}",
                left.data_type, right.data_type
            ));
        }
        let ordered = |value: &Value| match value.data_type {
            DataType::Float32 | DataType::Float64 => format!("total_order({})", value.value),
            _ => value.value.clone(),
        };
        let compared = format!("{} {sign} {}", ordered(left), ordered(right));
        let (left_null, right_null) = (left.null.clone(), right.null.clone());
        let (Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) = op else {
            let null = self.either_null(left, right);
            return Ok(self.define("bool", compared, null, DataType::Boolean, None));
        };
        let or_false = |null: Option<String>| null.unwrap_or_else(|| "false".into());
        let (left_null, right_null) = (or_false(left_null), or_false(right_null));
        // Nulls are equal to each other, and to nothing else.
        let value = match op {
            Operator::IsDistinctFrom => {
                format!("{left_null} != {right_null} || (!{left_null} && ({compared}))")
            }
            _ => format!("{left_null} == {right_null} && ({left_null} || ({compared}))"),
        };
        Ok(self.define("bool", value, None, DataType::Boolean, None))
    }

    fn arithmetic(&mut self, left: Value, op: Operator, right: Value, data_type: &DataType) -> Translated<Value> {
        let sign = match op {
            Operator::Plus => "+",
            Operator::Minus => "-",
            _ => "*",
        };
        let c_type = c_type(data_type)?;
        let range = match (left.range, right.range, type_range(data_type)) {
            (Some(l), Some(r), Some(allowed)) => {
                if !scales_agree(&left.data_type, &right.data_type, op, data_type) {
                    return Err(format!("the filter computes {data_type} of other scales"));
                }
                let range = combined(l, op, r).filter(|range| allowed.0 <= range.0 && range.1 <= allowed.1);
                Some(range.ok_or("the filter's arithmetic could overflow")?)
            }
            _ if data_type.is_floating() && left.data_type == right.data_type => None,
            _ => return Err(format!("the filter computes {data_type}")),
        };
        let null = self.either_null(&left, &right);
        let value = format!("{} {sign} {}", left.value, right.value);
        Ok(self.define(c_type, value, null, data_type.clone(), range))
    }

    fn cast(&mut self, inner: Value, to: &DataType) -> Translated<Value> {
        let refuse = || Err(format!("the filter casts {} to {to}", inner.data_type));
        let from = inner.data_type.clone();
        let name = c_type(to)?;
        let whole = |data_type: &DataType| data_type.is_signed_integer();
        let (value, range) = match (&from, to, inner.range) {
            _ if from == *to => return Ok(inner),
            (_, _, Some(range)) if whole(&from) && whole(to) => {
                match type_range(to).filter(|allowed| allowed.0 <= range.0 && range.1 <= allowed.1) {
                    Some(_) => (inner.value.clone(), Some(range)),
                    None => return refuse(),
                }
            }
            (DataType::Float32, DataType::Float64, _) => (format!("(f64){}", inner.value), None),
            (_, DataType::Float64, _) if whole(&from) => (format!("(f64){}", inner.value), None),
            (_, DataType::Decimal128(_, scale), Some(range)) => {
                let own = match from {
                    DataType::Decimal128(_, own) => own,
                    _ if whole(&from) => 0,
                    _ => return refuse(),
                };
                let Some(factor) = u32::try_from(scale - own).ok().and_then(|by| 10i128.checked_pow(by)) else {
                    return refuse();
                };
                let scaled = combined(range, Operator::Multiply, (factor, factor));
                let allowed = type_range(to);
                match (scaled, allowed) {
                    (Some(scaled), Some(allowed)) if allowed.0 <= scaled.0 && scaled.1 <= allowed.1 => {
                        let (high, low) = ((factor >> 64) as u64, factor as u64);
                        let factor = format!("(((i128){high}ull << 64) | {low}ull)");
                        (format!("(i128){} * {factor}", inner.value), Some(scaled))
                    }
                    _ => return refuse(),
                }
            }
            _ => return refuse(),
        };
        Ok(self.define(name, value, inner.null, to.clone(), range))
    }

    fn in_list(&mut self, list: &InListExpr) -> Translated<Value> {
        let value = self.translate(list.expr())?;
        let mut found = Value {
            data_type: DataType::Boolean,
            value: "false".into(),
            null: None,
            range: None,
        };
        for item in list.list() {
            let item = self.translate(item)?;
            let equal = self.compare(&value, Operator::Eq, &item)?;
            found = self.connect(Operator::Or, &found, &equal);
        }
        if list.negated() {
            let turned = format!("!{}", found.value);
            return Ok(self.define("bool", turned, found.null, DataType::Boolean, None));
        }
        Ok(found)
    }
}
