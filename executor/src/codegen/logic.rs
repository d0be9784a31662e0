//! AND, OR, NOT, IS NULL, CASE and their kin, with SQL's three values of truth.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{CaseExpr, InListExpr};
use datafusion::physical_expr::utils::collect_columns;
use tenon_storage::types::NUMERIC;

use super::translator::Translator;
use super::types::{Translated, c_type, comparable, is_exact};
use super::value::Value;

impl Translator {
    pub fn not(&mut self, argument: &PhysicalExprRef) -> Translated<Value> {
        let inner = self.boolean(argument)?;
        let value = format!("!{}", inner.value);
        Ok(self.define("bool", value, inner.null, DataType::Boolean, None))
    }

    /// IS NULL, or IS NOT NULL.
    pub fn null_test(&mut self, argument: &PhysicalExprRef, is_null: bool) -> Translated<Value> {
        let inner = self.translate(argument)?;
        let null = inner.is_null();
        Ok(self.define_truth(if is_null { null.into() } else { format!("!{null}") }))
    }

    /// AND and OR: one operand that decides outweighs a null.
    pub fn connect(&mut self, op: Operator, left: &Value, right: &Value) -> Value {
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
            .any_null([left, right])
            .map(|null| self.define_null(format!("{null} && !{decided}")));
        self.define("bool", value, null, DataType::Boolean, None)
    }

    pub fn in_list(&mut self, list: &InListExpr) -> Translated<Value> {
        let value = self.translate(list.expr())?;
        let mut found = self.define_truth("false".into());
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

    /// The first branch whose condition is true; only what is reached can fail.
    pub fn case(&mut self, case: &CaseExpr) -> Translated<Value> {
        let outer = self.guard.clone();
        let base = case.expr().map(|base| self.translate(base)).transpose()?;
        let mut branches = vec![];
        for (when, then) in case.when_then_expr() {
            let holds = match &base {
                Some(base) => {
                    let key = match is_exact(&base.data_type) {
                        true => self.of_key(when)?,
                        false => None,
                    };
                    let when = match key {
                        Some(key) => key,
                        None => self.translate(when)?,
                    };
                    self.compare(base, Operator::Eq, &when)?
                }
                None => self.boolean(when)?,
            };
            let holds = self.define_truth(holds.is_true());
            let reached = self.guard.clone();
            self.narrow(&reached, &holds.value);
            let then = self.branch(then)?;
            self.guard = reached.clone();
            self.narrow(&reached, &format!("!{}", holds.value));
            branches.push((holds.value, then));
        }
        let rest = match case.else_expr() {
            Some(rest) => Some(self.branch(rest)?),
            None => None,
        };
        self.guard = outer;
        self.chosen(branches, rest)
    }

    /// What a branch gives: a constant numeric as a decimal.
    fn branch(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let is_numeric = expr.data_type(&self.schema).is_ok_and(|own| own == NUMERIC);
        match is_numeric && collect_columns(expr).is_empty() {
            true => self.numeric(expr),
            false => self.translate(expr),
        }
    }

    /// From here on only what `condition` lets through is evaluated.
    fn narrow(&mut self, reached: &Option<String>, condition: &str) {
        let both = match reached {
            Some(reached) => format!("{reached} && {condition}"),
            None => condition.into(),
        };
        self.guard = Some(self.define_truth(both).value);
    }

    /// The value of the first branch that is taken, else `rest`, else null.
    pub fn chosen(&mut self, mut branches: Vec<(String, Value)>, mut rest: Option<Value>) -> Translated<Value> {
        let all = branches.iter_mut().map(|(_, value)| value).chain(&mut rest);
        let shown = self.of_one_scale(all.collect())?.map(|mut shown| {
            let of_rest = if rest.is_some() { shown.pop() } else { None };
            (shown, of_rest.unwrap_or_else(|| "(i64)0".into()))
        });
        let values = || branches.iter().map(|(_, value)| value).chain(&rest);
        let Some(first) = values().next() else {
            return Err("a CASE without branches".into());
        };
        let (data_type, c_type) = (first.data_type.clone(), c_type(&first.data_type)?);
        if let Some(other) = values().find(|value| !comparable(&value.data_type, &data_type)) {
            return Err(format!("a choice of {data_type} and {}", other.data_type));
        }
        let ranges = values().map(|value| value.range).collect::<Option<Vec<_>>>();
        let range = ranges.and_then(|all| Some((all.iter().map(|r| r.0).min()?, all.iter().map(|r| r.1).max()?)));
        let ascii = values().all(|value| value.ascii);
        let nullable = rest.is_none() || values().any(|value| value.null.is_some());
        let nothing = format!("{c_type}()");
        let mut value = rest.as_ref().map_or(nothing, |rest| rest.value.clone());
        let mut null = rest.as_ref().map_or("true".into(), |rest| rest.is_null().to_string());
        for (taken, branch) in branches.iter().rev() {
            value = format!("{taken} ? {} : ({value})", branch.value);
            null = format!("{taken} ? {} : ({null})", branch.is_null());
        }
        let null = nullable.then(|| self.define_null(null));
        // Of a choice that takes no branch the value is 0.
        let range = range.map(|range| (range.0.min(0), range.1.max(0)));
        let value = self.define(c_type, value, null, data_type, range);
        let shown = shown.map(|(of_branches, of_rest)| {
            let nested = branches.iter().zip(of_branches).rev();
            let shown = nested.fold(of_rest, |rest, ((taken, _), own)| format!("{taken} ? {own} : ({rest})"));
            self.define("i64", shown, None, DataType::Int64, None).value
        });
        Ok(Value { ascii, shown, ..value })
    }
}
