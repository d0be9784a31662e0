//! Binary operators, and comparisons. Floats compare in Arrow's total order with both zeros equal, as they do on the
//! host; texts by bytes.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

use super::translator::Translator;
use super::types::{Translated, c_type, comparable, is_exact, scale};
use super::value::Value;

impl Translator {
    pub fn binary(&mut self, binary: &BinaryExpr) -> Translated<Value> {
        use Operator::*;
        if let op @ (And | Or) = binary.op() {
            let (left, right) = (self.boolean(binary.left())?, self.boolean(binary.right())?);
            return Ok(self.connect(*op, &left, &right));
        }
        let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
        match binary.op() {
            op @ (Plus | Minus | Multiply | Divide | Modulo) => {
                let data_type = binary.data_type(&self.schema).map_err(|error| error.to_string())?;
                self.arithmetic(left, *op, right, &data_type)
            }
            LikeMatch => self.like(&left, &right, false, false),
            NotLikeMatch => self.like(&left, &right, true, false),
            ILikeMatch => self.like(&left, &right, false, true),
            NotILikeMatch => self.like(&left, &right, true, true),
            op => self.compare(&left, *op, &right),
        }
    }

    pub fn compare(&mut self, left: &Value, op: Operator, right: &Value) -> Translated<Value> {
        let sign = match op {
            Operator::Eq | Operator::IsNotDistinctFrom => "==",
            Operator::NotEq | Operator::IsDistinctFrom => "!=",
            Operator::Lt => "<",
            Operator::LtEq => "<=",
            Operator::Gt => ">",
            Operator::GtEq => ">=",
            other => return Err(format!("no device form of {other}")),
        };
        // Decimals of numerics of different scales.
        let after = scale(&left.data_type).max(scale(&right.data_type));
        if is_exact(&left.data_type) && is_exact(&right.data_type) && left.data_type != right.data_type {
            let (left, right) = (self.scaled(left.clone(), after)?, self.scaled(right.clone(), after)?);
            if left.data_type == right.data_type {
                return self.compare(&left, op, &right);
            }
        }
        if !comparable(&left.data_type, &right.data_type) {
            return Err(format!("a comparison of {} and {}", left.data_type, right.data_type));
        }
        let (l, r) = (&left.value, &right.value);
        let compared = match (c_type(&left.data_type)?, sign) {
            ("Text", "==") => format!("text_equal({l}, {r})"),
            ("Text", "!=") => format!("!text_equal({l}, {r})"),
            ("Text", _) => format!("text_compare({l}, {r}) {sign} 0"),
            ("f32" | "f64", _) => format!("total_order({l}) {sign} total_order({r})"),
            _ => format!("{l} {sign} {r}"),
        };
        let (left_null, right_null) = (left.is_null(), right.is_null());
        // Nulls are equal to each other, and to nothing else.
        let value = match op {
            Operator::IsDistinctFrom => {
                format!("{left_null} != {right_null} || (!{left_null} && ({compared}))")
            }
            Operator::IsNotDistinctFrom => {
                format!("{left_null} == {right_null} && ({left_null} || ({compared}))")
            }
            _ => {
                let null = self.any_null([left, right]);
                return Ok(self.define("bool", compared, null, DataType::Boolean, None));
            }
        };
        Ok(self.define_truth(value))
    }
}
