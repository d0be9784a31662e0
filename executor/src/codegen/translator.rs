//! From expressions to lines of C++, each of which names a value.

use std::collections::HashMap;
use std::fmt::Write;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{JoinSide, ScalarValue};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr,
};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};

use super::evaluate::{Reads, evaluated, is_immutable};
use super::given::Given;
use super::inputs::{Form, Loaded, load, plain};
use super::texts::parts;
use super::types::{Range, Translated, c_type};
use super::value::Value;

/// Magnitude up to which a decimal is held in 64 bits: its opposite is, too.
pub const NARROW_MAX: i128 = 1 << 62;
/// Characters of an expression in a reason.
const SHOWN_CHARS: usize = 60;

/// Where the columns of an expression come from.
pub enum Inputs {
    /// Arrays of the two sides of a join, whose rows are `build_row` and `probe_row`; `build` names the side that the
    /// kernels call the build side. What reads one side alone is evaluated on the host, once a row instead of once a pair:
    /// so the device knows every function there is, as long as it is not of both sides at once.
    Sides {
        arrays: Vec<(ArrayRef, JoinSide)>,
        build: JoinSide,
    },
    /// What the kernel has of its row.
    Row(Vec<Given>),
}

pub struct Translator {
    /// Of the columns that expressions name.
    pub schema: SchemaRef,
    pub inputs: Inputs,
    pub lines: String,
    values: usize,
    pub literals: Vec<u64>,
    pub buffers: Vec<Buffer>,
    /// Columns, and parts evaluated on the host.
    known: HashMap<PhysicalExprRef, Value>,
    /// Names a condition under which what is translated now is evaluated at all: a branch of a CASE.
    pub guard: Option<String>,
    pub fails: bool,
    /// Whether code or literals hold for this execution alone.
    pub once: bool,
    pub made_bytes: usize,
}

impl Translator {
    pub fn new(schema: SchemaRef, inputs: Inputs) -> Self {
        Self {
            schema,
            inputs,
            lines: String::new(),
            values: 0,
            literals: vec![],
            buffers: vec![],
            known: HashMap::new(),
            guard: None,
            fails: false,
            once: false,
            made_bytes: 0,
        }
    }

    pub fn boolean(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let value = self.translate(expr)?;
        match value.data_type {
            DataType::Boolean => Ok(value),
            other => Err(format!("a condition of {other}")),
        }
    }

    pub fn translate(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.literal(literal.value());
        }
        let arrays = match &self.inputs {
            Inputs::Sides { arrays, .. } => arrays,
            Inputs::Row(_) => return self.of_row(expr),
        };
        match Reads::of(expr, arrays) {
            Reads::One(side) => self.column(expr, side),
            Reads::Nothing => self.constant(expr),
            Reads::Both => self.by_parts(expr),
        }
    }

    /// An expression evaluated on the host.
    pub(super) fn evaluated(&mut self, expr: &PhysicalExprRef, inputs: &[ArrayRef]) -> Translated<ArrayRef> {
        self.once |= !is_immutable(expr);
        evaluated(expr, &self.schema, inputs)
    }

    /// What reads no column.
    pub(super) fn constant(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let one = self.evaluated(expr, &[])?;
        let scalar = ScalarValue::try_from_array(&one, 0).map_err(|error| error.to_string())?;
        self.literal(&scalar)
    }

    /// An operation on values.
    pub(super) fn by_parts(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.not(not.arg());
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            return self.null_test(is_null.arg(), true);
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.null_test(is_not_null.arg(), false);
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            if let Some(parts) = parts(like) {
                return self.like_parts(like.expr(), &parts, like.negated());
            }
            let (text, pattern) = (self.translate(like.expr())?, self.translate(like.pattern())?);
            return self.like(&text, &pattern, like.negated(), like.case_insensitive());
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let inner = self.translate(cast.expr())?;
            return self.cast(inner, cast.cast_type());
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let inner = self.translate(negative.arg())?;
            return self.negative(inner);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.call(call);
        }
        let shown: String = expr.to_string().chars().take(SHOWN_CHARS).collect();
        Err(format!("no device form of {shown}"))
    }

    fn call(&mut self, call: &ScalarFunctionExpr) -> Translated<Value> {
        if let Some(value) = self.of_numerics(call)? {
            return Ok(value);
        }
        let (name, result) = (call.name(), call.return_type());
        let arguments = call.args().iter().map(|argument| self.translate(argument));
        let arguments = arguments.collect::<Translated<Vec<_>>>()?;
        if let Some(value) = self.number_function(name, &arguments, result)? {
            return Ok(value);
        }
        if let Some(value) = self.text_function(name, &arguments, result)? {
            return Ok(value);
        }
        Err(format!("no device form of {name}() over both sides"))
    }

    /// A name for a value.
    pub fn define(
        &mut self,
        c_type: &str,
        value: String,
        null: Option<String>,
        data_type: DataType,
        range: Option<Range>,
    ) -> Value {
        let name = format!("v{}", self.values);
        self.values += 1;
        // A decimal of few digits needs no 128 bits.
        let c_type = match range {
            Some(range) if c_type == "i128" && range.0 >= -NARROW_MAX && range.1 <= NARROW_MAX => "i64",
            _ => c_type,
        };
        let _ = write!(self.lines, "{c_type} {name} = {value};\n    ");
        Value {
            data_type,
            value: name,
            null,
            range,
            ascii: false,
            shown: None,
        }
    }

    /// A name for a truth that is never null.
    pub fn define_truth(&mut self, truth: String) -> Value {
        self.define("bool", truth, None, DataType::Boolean, None)
    }

    /// A name for whether something is null.
    pub fn define_null(&mut self, null: String) -> String {
        self.define_truth(null).value
    }

    /// Whether any of these is null.
    pub fn any_null<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>) -> Option<String> {
        let mut nulls: Vec<String> = values.into_iter().filter_map(|value| value.null.clone()).collect();
        nulls.dedup();
        match nulls.len() {
            0 => None,
            1 => nulls.pop(),
            _ => Some(self.define_null(nulls.join(" || "))),
        }
    }

    /// The pair fails where `condition` holds and the value is wanted and not null.
    pub fn fail_if(&mut self, null: Option<&String>, condition: &str) {
        self.fails = true;
        let mut all: Vec<String> = self.guard.iter().cloned().collect();
        all.extend(null.map(|null| format!("!{null}")));
        all.push(format!("({condition})"));
        let _ = write!(self.lines, "if ({}) p.fail();\n    ", all.join(" && "));
    }

    /// A column, or a part of one side as a column.
    fn column(&mut self, expr: &PhysicalExprRef, side: JoinSide) -> Translated<Value> {
        if let Some(value) = self.known.get(expr) {
            return Ok(value.clone());
        }
        let Inputs::Sides { arrays, build } = &self.inputs else {
            return Err("a column of no side".into());
        };
        let row = if side == *build { "build_row" } else { "probe_row" };
        let array = match expr.downcast_ref::<Column>() {
            Some(column) => {
                let (array, _) = arrays.get(column.index()).ok_or("a column that is not there")?;
                ArrayRef::clone(array)
            }
            None => {
                let inputs: Vec<ArrayRef> = arrays.iter().map(|(array, _)| ArrayRef::clone(array)).collect();
                let made = self.evaluated(expr, &inputs)?;
                self.made_bytes += made.get_array_memory_size();
                made
            }
        };
        let value = self.array(&array, row)?;
        self.known.insert(PhysicalExprRef::clone(expr), value.clone());
        Ok(value)
    }

    /// Row `row` of an array.
    pub fn array(&mut self, array: &ArrayRef, row: &str) -> Translated<Value> {
        let array = plain(array)?;
        let loaded = load(&array)?;
        self.made_bytes += loaded.made_bytes;
        let null = array
            .logical_nulls()
            .filter(|nulls| nulls.null_count() > 0)
            .map(|nulls| {
                let at = self.own_buffers(vec![nulls.inner().sliced()]);
                self.define_null(format!("!p.bit({at}, {row})"))
            });
        self.loaded(loaded, row, null, array.data_type())
    }

    /// The value of a row of what was loaded.
    fn loaded(&mut self, loaded: Loaded, row: &str, null: Option<String>, data_type: &DataType) -> Translated<Value> {
        let c_type = c_type(data_type)?;
        let at = self.own_buffers(loaded.buffers);
        let value = match loaded.form {
            Form::Bit => format!("p.bit({at}, {row})"),
            Form::Number(stored) => format!("({c_type})p.value<{stored}>({at}, {row})"),
            Form::Text(offset) => format!("text_at<{offset}>(p, {at}, {row})"),
        };
        let value = self.define(c_type, value, null, data_type.clone(), loaded.range);
        Ok(Value {
            ascii: loaded.ascii,
            ..value
        })
    }

    /// Numbers are parameters of the kernel, texts are columns of one row.
    pub(super) fn literal(&mut self, scalar: &ScalarValue) -> Translated<Value> {
        let one = scalar.to_array().map_err(|error| error.to_string())?;
        let one = plain(&one)?;
        let data_type = one.data_type().clone();
        let c_type = c_type(&data_type)?;
        if scalar.is_null() {
            let nothing = format!("{c_type}()");
            let value = self.define(c_type, nothing, Some("true".into()), data_type, Some((0, 0)));
            return Ok(Value { ascii: true, ..value });
        }
        let loaded = load(&one)?;
        let stored = match loaded.form {
            Form::Text(_) => return self.loaded(loaded, "0", None, &data_type),
            Form::Bit => "bit",
            Form::Number(stored) => stored,
        };
        let mut bytes = [0; 16];
        let held = loaded.buffers[0].as_slice();
        let held = &held[..held.len().min(16)];
        bytes[..held.len()].copy_from_slice(held);
        let words = [0, 8].map(|half: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[half + i])));
        let value = match stored {
            "bit" => format!("(p.literal<u8>({}) & 1) != 0", self.literal_words(&words[..1])),
            "i128" => {
                let at = self.literal_words(&words);
                format!("bits_128(p.literal<u64>({}), p.literal<u64>({at}))", at + 1)
            }
            _ => format!("({c_type})p.literal<{stored}>({})", self.literal_words(&words[..1])),
        };
        Ok(self.define(c_type, value, None, data_type, loaded.range))
    }

    /// Where these words begin among the kernel's literals: equal ones are there once.
    pub(super) fn literal_words(&mut self, words: &[u64]) -> usize {
        let known = self.literals.windows(words.len()).position(|own| own == words);
        known.unwrap_or_else(|| {
            let at = self.literals.len();
            self.literals.extend(words);
            at
        })
    }

    /// Where these buffers begin among the kernel's, likewise.
    fn own_buffers(&mut self, buffers: Vec<Buffer>) -> usize {
        let known = self.buffers.windows(buffers.len()).position(|own| own == buffers);
        known.unwrap_or_else(|| {
            let at = self.buffers.len();
            self.buffers.extend(buffers);
            at
        })
    }
}
