//! Binary operators, and comparisons. Floats compare in Arrow's total order with both zeros equal, as they do on the
//! host; texts by bytes.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use tenon_storage::types::NUMERIC;

use super::translator::Translator;
use super::types::{Translated, c_number, c_type, comparable, is_exact, scale};
use super::value::Value;

impl Translator {
    pub fn binary(&mut self, binary: &BinaryExpr) -> Translated<Value> {
        use Operator::*;
        if let op @ (And | Or) = binary.op() {
            let (left, right) = (self.boolean(binary.left())?, self.boolean(binary.right())?);
            return Ok(self.connect(*op, &left, &right));
        }
        let (mut left, mut right) = (self.translate(binary.left())?, self.translate(binary.right())?);
        // A numeric's key that is constant is compared with decimals as one.
        let is_key = |data_type: &DataType| *data_type == NUMERIC || *data_type == DataType::Binary;
        if is_exact(&left.data_type) && is_key(&right.data_type) {
            right = self.of_key(binary.right())?.unwrap_or(right);
        } else if is_key(&left.data_type) && is_exact(&right.data_type) {
            left = self.of_key(binary.left())?.unwrap_or(left);
        }
        if is_exact(&left.data_type)
            && let Some((value, above)) = self.of_bound(binary.right())?
        {
            return self.compare_bound(&left, *binary.op(), &value, above);
        }
        if is_exact(&right.data_type)
            && let Some((value, above)) = self.of_bound(binary.left())?
        {
            let op = binary.op().swap().ok_or("a bound that is not compared")?;
            return self.compare_bound(&right, op, &value, above);
        }
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

    /// A comparison with what precedes or, `above`, follows all that are equal to a value.
    fn compare_bound(&mut self, left: &Value, op: Operator, value: &Value, above: bool) -> Translated<Value> {
        use Operator::*;
        let op = match (op, above) {
            (Gt | GtEq, true) => Gt,
            (Gt | GtEq, false) => GtEq,
            (Lt | LtEq, true) => LtEq,
            (Lt | LtEq, false) => Lt,
            (op, _) => return Err(format!("no device form of {op} a bound")),
        };
        self.compare(left, op, value)
    }

    /// A comparison of decimals of which one has no 128 bits for the digits of the other: that one's units are compared, and
    /// then what is left.
    fn compare_apart(&mut self, left: &Value, op: Operator, right: &Value) -> Translated<Value> {
        let (l, r) = (scale(&left.data_type), scale(&right.data_type));
        let unit = 10i128
            .checked_pow((l - r).unsigned_abs().into())
            .ok_or("a scale beyond 128 bits")?;
        let (few, many, sign) = if l < r { (left, right, "") } else { (right, left, "-") };
        let call = format!("{sign}compare_units({}, {}, {})", few.value, many.value, c_number(unit));
        let null = self.any_null([left, right]);
        let compared = self.define("i64", call, null, DataType::Int64, None);
        let nothing = self.define("i64", "0".into(), None, DataType::Int64, None);
        match op {
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
                Err("a comparison of decimals beyond 128 bits".into())
            }
            _ => self.compare(&compared, op, &nothing),
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
            let both = (self.scaled(left.clone(), after), self.scaled(right.clone(), after));
            match both {
                (Ok(left), Ok(right)) if left.data_type == right.data_type => return self.compare(&left, op, &right),
                (Err(_), Ok(_)) | (Ok(_), Err(_)) => return self.compare_apart(left, op, right),
                _ => {}
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
