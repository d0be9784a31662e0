//! Trigonometric functions, of radians and of degrees, which are exact where the result is; hyperbolic ones; `cbrt`,
//! `degrees`, `radians` and `pi`.

use super::float::{checked, map1, map2, out_of_range};
use super::simple::function;
use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::f64::consts::PI;
use std::sync::Arc;

const RADIANS_PER_DEGREE: f64 = 0.017_453_292_519_943_295;

macro_rules! of_one {
    ($($name:literal => $body:expr),* $(,)?) => {
        vec![$(function($name, Signature::any(1, Volatility::Immutable), DataType::Float64, |args: &[ArrayRef], _| {
            map1(args, $body)
        })),*]
    };
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut functions = of_one!(
        "cbrt" => |v| Ok(v.cbrt()),
        "degrees" => |v| checked(v / RADIANS_PER_DEGREE, v.is_infinite(), v == 0.0),
        "radians" => |v| checked(v * RADIANS_PER_DEGREE, v.is_infinite(), v == 0.0),
        "sin" => |v| finite(v, f64::sin),
        "cos" => |v| finite(v, f64::cos),
        "tan" => |v| finite(v, f64::tan),
        "cot" => |v| finite(v, |v| 1.0 / v.tan()),
        "asin" => |v| unit(v, f64::asin),
        "acos" => |v| unit(v, f64::acos),
        "atan" => |v| Ok(v.atan()),
        "sinh" => |v| Ok(v.sinh()),
        "cosh" => |v| Ok(v.cosh()),
        "tanh" => |v| Ok(v.tanh()),
        "asinh" => |v| Ok(v.asinh()),
        "acosh" => |v| if v < 1.0 { Err(out_of_range()) } else { Ok(v.acosh()) },
        "atanh" => |v| if v.abs() > 1.0 { Err(out_of_range()) } else { Ok(v.atanh()) },
        "sind" => |v| finite(v, sind),
        "cosd" => |v| finite(v, cosd),
        "tand" => |v| finite(v, tand),
        "cotd" => |v| finite(v, cotd),
        "asind" => |v| unit(v, |v| if v < 0.0 { -asind_q1(-v) } else { asind_q1(v) }),
        "acosd" => |v| unit(v, |v| if v < 0.0 { 90.0 + asind_q1(-v) } else { acosd_q1(v) }),
        "atand" => |v: f64| Ok(v.atan() / 1f64.atan() * 45.0),
    );
    let two = || Signature::any(2, Volatility::Immutable);
    functions.push(function("atan2", two(), DataType::Float64, |args, _| {
        map2(args, |a, b| Ok(a.atan2(b)))
    }));
    functions.push(function("atan2d", two(), DataType::Float64, |args, _| {
        map2(args, |a, b| Ok(a.atan2(b) / 1f64.atan() * 45.0))
    }));
    functions.push(function(
        "pi",
        Signature::nullary(Volatility::Immutable),
        DataType::Float64,
        |_, rows| Ok(Arc::new(Float64Array::from(vec![PI; rows]))),
    ));
    functions
}

/// Of an infinity there is no angle.
fn finite(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    if value.is_infinite() {
        Err(out_of_range())
    } else {
        Ok(of(value))
    }
}

fn unit(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    if value.abs() > 1.0 {
        Err(out_of_range())
    } else {
        Ok(of(value))
    }
}

// Of degrees: the angle is brought into the first quadrant, and there the function is scaled by its value at 30, 45 or
// 60 degrees, as PostgreSQL does, so that it is exact at these.

fn sin_to_30(degrees: f64) -> f64 {
    (degrees * RADIANS_PER_DEGREE).sin() / (30.0 * RADIANS_PER_DEGREE).sin() / 2.0
}

fn cos_to_60(degrees: f64) -> f64 {
    let numerator = 1.0 - (degrees * RADIANS_PER_DEGREE).cos();
    1.0 - numerator / (1.0 - (60.0 * RADIANS_PER_DEGREE).cos()) / 2.0
}

fn sind_q1(degrees: f64) -> f64 {
    if degrees <= 30.0 {
        sin_to_30(degrees)
    } else {
        cos_to_60(90.0 - degrees)
    }
}

fn cosd_q1(degrees: f64) -> f64 {
    if degrees <= 60.0 {
        cos_to_60(degrees)
    } else {
        sin_to_30(90.0 - degrees)
    }
}

fn sind(degrees: f64) -> f64 {
    let (mut angle, mut sign) = (degrees % 360.0, 1.0);
    if angle < 0.0 {
        (angle, sign) = (-angle, -sign);
    }
    if angle > 180.0 {
        (angle, sign) = (360.0 - angle, -sign);
    }
    if angle > 90.0 {
        angle = 180.0 - angle;
    }
    sign * sind_q1(angle)
}

fn cosd(degrees: f64) -> f64 {
    let (mut angle, mut sign) = ((degrees % 360.0).abs(), 1.0);
    if angle > 180.0 {
        angle = 360.0 - angle;
    }
    if angle > 90.0 {
        (angle, sign) = (180.0 - angle, -sign);
    }
    sign * cosd_q1(angle)
}

/// The angle within the first quadrant, and the sign of its tangent.
fn tangent_angle(degrees: f64) -> (f64, f64) {
    let (mut angle, mut sign) = (degrees % 360.0, 1.0);
    if angle < 0.0 {
        (angle, sign) = (-angle, -sign);
    }
    if angle > 180.0 {
        (angle, sign) = (360.0 - angle, -sign);
    }
    if angle > 90.0 {
        (angle, sign) = (180.0 - angle, -sign);
    }
    (angle, sign)
}

/// Not minus zero.
fn no_minus(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

fn tand(degrees: f64) -> f64 {
    let (angle, sign) = tangent_angle(degrees);
    let at_45 = sind_q1(45.0) / cosd_q1(45.0);
    no_minus(sign * (sind_q1(angle) / cosd_q1(angle) / at_45))
}

fn cotd(degrees: f64) -> f64 {
    let (angle, sign) = tangent_angle(degrees);
    let at_45 = cosd_q1(45.0) / sind_q1(45.0);
    no_minus(sign * (cosd_q1(angle) / sind_q1(angle) / at_45))
}

fn asind_q1(value: f64) -> f64 {
    if value <= 0.5 {
        value.asin() / 0.5f64.asin() * 30.0
    } else {
        90.0 - value.acos() / 0.5f64.acos() * 60.0
    }
}

fn acosd_q1(value: f64) -> f64 {
    if value <= 0.5 {
        90.0 - value.asin() / 0.5f64.asin() * 30.0
    } else {
        value.acos() / 0.5f64.acos() * 60.0
    }
}
