//! What a kernel has of its row: values, and codes of texts or of few numbers, of which the host computes functions once a
//! code instead of once a row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};

use super::translator::{Inputs, Translator};
use super::types::{Range, Translated, c_type};
use super::value::Value;
use crate::expr::original;
use crate::keys::{from_integer_keys, is_integer_key};

/// Different numbers of a column of which a function is computed on the host where it has no device form.
const NUMBERS_MAX: i128 = 1 << 16;

/// A column of a row in a kernel. Nothing is loaded before something reads it.
#[derive(Clone)]
pub struct Given {
    pub data_type: DataType,
    /// C++ of the value; with `texts`, of its code.
    pub load: String,
    /// C++ of whether it is null; None: never.
    pub null: Option<String>,
    /// Of whole numbers: what they can be, where rows are null too.
    pub range: Option<Range>,
    /// The text of each code.
    pub texts: Option<ArrayRef>,
    /// As a value's.
    pub shown: Option<String>,
    /// Why it is not read.
    why: Option<String>,
    value: Option<Value>,
    code: Option<CodeNames>,
}

/// Names of a code and of whether the row is null.
#[derive(Clone)]
pub struct CodeNames {
    pub code: String,
    pub null: Option<String>,
}

impl Given {
    pub fn new(data_type: DataType, load: String, null: Option<String>, range: Option<Range>) -> Self {
        Self {
            data_type,
            load,
            null,
            range,
            texts: None,
            shown: None,
            why: None,
            value: None,
            code: None,
        }
    }

    /// A code for each of `texts`.
    pub fn coded(texts: ArrayRef, load: String, null: Option<String>) -> Self {
        let data_type = texts.data_type().clone();
        Self {
            texts: Some(texts),
            ..Self::new(data_type, load, null, None)
        }
    }

    /// A value that no kernel reads: of a type that has no form there, or of a column that was not put in. `null` says where it
    /// is, besides where the table has a null, which only the host sees.
    pub fn unread(data_type: DataType, null: Option<String>) -> Self {
        Self::new(data_type, String::new(), null, None)
    }

    /// The same of a numeric that shows so many digits after the point.
    pub fn with_shown(self, shown: Option<String>) -> Self {
        Self { shown, ..self }
    }

    /// The same of a value that code could read, but for this.
    pub fn refused(data_type: DataType, why: String) -> Self {
        Self {
            why: Some(why),
            ..Self::unread(data_type, None)
        }
    }

    pub fn is_unread(&self) -> bool {
        self.load.is_empty() && self.value.is_none()
    }

    /// The same, null where this says so.
    pub fn with_null(self, null: Option<String>) -> Self {
        Self { null, ..self }
    }

    /// A value that has a name already.
    pub fn of(value: Value) -> Self {
        Self {
            value: Some(value.clone()),
            shown: value.shown.clone(),
            ..Self::new(value.data_type, value.value, value.null, value.range)
        }
    }
}

impl Translator {
    fn row(&mut self) -> &mut [Given] {
        match &mut self.inputs {
            Inputs::Row(given) => given,
            Inputs::Sides { .. } => &mut [],
        }
    }

    fn given(&mut self, index: usize) -> Translated<Given> {
        Ok(self.row().get(index).ok_or("a column that is not there")?.clone())
    }

    /// An expression over what is given.
    pub(super) fn of_row(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        if let Some(plain) = original(expr) {
            return self.translate(&Arc::clone(plain));
        }
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.value_of(column.index());
        }
        // What it is compared with may be a constant: both are decimals, or none is.
        if expr
            .downcast_ref::<ScalarFunctionExpr>()
            .is_some_and(|call| call.name() == "numeric_key")
        {
            return self.by_parts(expr);
        }
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.dedup();
        match columns[..] {
            [] => self.constant(expr),
            [index] if self.given(index)?.texts.is_some() => self.by_code(expr, index),
            [index] => {
                let mark = self.mark();
                let by_parts = self.by_parts(expr);
                by_parts.or_else(|why| {
                    self.back_to(mark);
                    self.by_number(expr, index).ok_or(why)?
                })
            }
            _ => self.by_parts(expr),
        }
    }

    /// The text of each code of a column that has codes.
    pub fn texts_of(&mut self, index: usize) -> Option<ArrayRef> {
        self.given(index).ok()?.texts
    }

    /// A column's value.
    pub fn value_of(&mut self, index: usize) -> Translated<Value> {
        let given = self.given(index)?;
        if given.is_unread() {
            return Err(given.why.unwrap_or_else(|| format!("a column of {}", given.data_type)));
        }
        if let Some(value) = given.value {
            return Ok(value);
        }
        let value = match &given.texts {
            // Every row is null.
            Some(texts) if texts.is_empty() => self.define(
                c_type(&given.data_type)?,
                "Text()".into(),
                Some("true".into()),
                given.data_type,
                None,
            ),
            Some(texts) => {
                let code = self.code_of(index)?.ok_or("a code that is not there")?;
                let value = self.array(texts, &code.code)?;
                Value {
                    null: code.null,
                    ..value
                }
            }
            None => {
                let null = given.null.map(|null| self.define_null(null));
                let value = self.define(
                    c_type(&given.data_type)?,
                    given.load,
                    null,
                    given.data_type,
                    given.range,
                );
                let shown = given
                    .shown
                    .map(|shown| self.define("i64", shown, None, DataType::Int64, None).value);
                Value { shown, ..value }
            }
        };
        self.row()[index].value = Some(value.clone());
        Ok(value)
    }

    /// A column's code, where it has codes.
    pub fn code_of(&mut self, index: usize) -> Translated<Option<CodeNames>> {
        let given = self.given(index)?;
        if given.texts.is_none() || given.code.is_some() {
            return Ok(given.code);
        }
        let null = given.null.map(|null| self.define_null(null));
        let code = self.define("u32", given.load, None, DataType::UInt32, None).value;
        let code = CodeNames { code, null };
        self.row()[index].code = Some(code.clone());
        Ok(Some(code))
    }

    /// A function of a coded column alone: its value for each code, and for null, is computed on the host.
    fn by_code(&mut self, expr: &PhysicalExprRef, index: usize) -> Translated<Value> {
        let texts = self.given(index)?.texts.ok_or("a code that is not there")?;
        let code = self.code_of(index)?.ok_or("a code that is not there")?;
        self.looked_up(expr, index, texts, code)
    }

    /// A function of a column of few different numbers, likewise. None: the column is not such.
    fn by_number(&mut self, expr: &PhysicalExprRef, index: usize) -> Option<Translated<Value>> {
        let given = self.given(index).ok()?;
        let (low, high) = given.range?;
        let few = high.checked_sub(low)? < NUMBERS_MAX && i64::try_from(low).is_ok() && i64::try_from(high).is_ok();
        if !few || !is_integer_key(&given.data_type) {
            return None;
        }
        let numbers: Vec<i64> = (low as i64..=high as i64).collect();
        let numbers = from_integer_keys(&numbers, None, &given.data_type).ok()?;
        let value = match self.value_of(index) {
            Ok(value) => value,
            Err(why) => return Some(Err(why)),
        };
        let code = format!("(u32)({} - {}ll)", value.value, low as i64);
        let code = self.define("u32", code, None, DataType::UInt32, None).value;
        let null = value.null;
        Some(self.looked_up(expr, index, numbers, CodeNames { code, null }))
    }

    fn looked_up(
        &mut self,
        expr: &PhysicalExprRef,
        index: usize,
        values: ArrayRef,
        code: CodeNames,
    ) -> Translated<Value> {
        let (results, at) = self.results_by_code(expr, index, values, code)?;
        self.array(&results, &at)
    }

    /// The values of a function for each code and, if a row may be null, for null; and C++ of the row's place among them.
    fn results_by_code(
        &mut self,
        expr: &PhysicalExprRef,
        index: usize,
        values: ArrayRef,
        code: CodeNames,
    ) -> Translated<(ArrayRef, String)> {
        let codes = values.len();
        let nothing = new_null_array(values.data_type(), 1);
        let values = concat(&[values.as_ref(), nothing.as_ref()]).map_err(|error| error.to_string())?;
        let mut columns: Vec<ArrayRef> = vec![];
        for field in self.schema.fields() {
            columns.push(new_null_array(field.data_type(), 0));
        }
        columns[index] = values;
        let results = self.evaluated(expr, &columns)?;
        let results = match &code.null {
            // No row is null: what the function makes of null is no result of it.
            None => results.slice(0, codes),
            Some(_) => results,
        };
        let at = match &code.null {
            Some(null) => {
                self.define(
                    "u32",
                    format!("{null} ? {codes}u : {}", code.code),
                    None,
                    DataType::UInt32,
                    None,
                )
                .value
            }
            None => code.code,
        };
        Ok((results, at))
    }

    /// What gives texts of one column that has codes has codes, too: those of its texts, each of which is there once. None: it is
    /// a column itself, or no such.
    pub fn coded(&mut self, expr: &PhysicalExprRef) -> Translated<Option<Given>> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.dedup();
        let [index] = columns[..] else { return Ok(None) };
        let is_text = expr.data_type(&self.schema).is_ok_and(|own| own == DataType::Utf8View);
        if expr.is::<Column>() || !is_text {
            return Ok(None);
        }
        let (Some(texts), Some(code)) = (self.texts_of(index), self.code_of(index)?) else {
            return Ok(None);
        };
        // Of no row it knows no value.
        if texts.is_empty() {
            return Ok(None);
        }
        let (results, at) = self.results_by_code(expr, index, texts, code)?;
        let Some(results) = results.as_string_view_opt() else {
            return Ok(None);
        };
        let (mut known, mut different) = (HashMap::new(), vec![]);
        let places = results.iter().map(|text| {
            let text = text?;
            Some(*known.entry(text).or_insert_with(|| {
                different.push(text);
                (different.len() - 1) as i32
            }))
        });
        let places: ArrayRef = Arc::new(places.collect::<Int32Array>());
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(different));
        let place = self.array(&places, &at)?;
        Ok(Some(Given::coded(texts, format!("(u32){}", place.value), place.null)))
    }
}

/// How far the code has come.
struct Mark {
    lines: usize,
    literals: usize,
    buffers: usize,
    fails: bool,
    given: Vec<Given>,
    guard: Option<String>,
}

impl Translator {
    /// The value of an expression; where it has no form nothing of it is left.
    pub fn tried(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let mark = self.mark();
        let value = self.translate(expr);
        if value.is_err() {
            self.back_to(mark);
        }
        value
    }

    fn mark(&mut self) -> Mark {
        Mark {
            lines: self.lines.len(),
            literals: self.literals.len(),
            buffers: self.buffers.len(),
            fails: self.fails,
            given: self.row().to_vec(),
            guard: self.guard.clone(),
        }
    }

    /// Forgets what came after the mark.
    fn back_to(&mut self, mark: Mark) {
        self.lines.truncate(mark.lines);
        self.literals.truncate(mark.literals);
        self.buffers.truncate(mark.buffers);
        self.fails = mark.fails;
        self.guard = mark.guard;
        if let Inputs::Row(given) = &mut self.inputs {
            *given = mark.given;
        }
    }
}
