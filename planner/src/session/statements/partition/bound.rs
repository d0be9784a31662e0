//! FOR VALUES: the bound of a new partition, and that it overlaps no other's.

use super::Parent;
use crate::catalog::bind::Binder;
use crate::catalog::partitions::{is_moment, literal, shown};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_arrow;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::rewrite;
use crate::session::Session;
use crate::session::statements::defaults;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{self, CastKind, Expr, ForValues, PartitionBoundValue, Visitor};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use tenon_storage::{PartitionBound, PartitionKey, PartitionStrategy, RangeValue, SqlType};

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_OBJECT_DEFINITION, message)
}

fn malformed(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_TABLE_DEFINITION, message)
}

fn wrong_kind(strategy: &str) -> SqlError {
    malformed(format!("invalid bound specification for a {strategy} partition"))
}

/// A bound as it is declared, with its values evaluated.
pub(super) fn declared(binder: &Binder, parent: &Parent, values: &ForValues) -> Result<PartitionBound> {
    let keys = &parent.partitioning.keys;
    match (parent.partitioning.strategy, values) {
        (PartitionStrategy::Hash, ForValues::Default) => {
            Err(malformed("a hash-partitioned table may not have a default partition"))
        }
        (_, ForValues::Default) => Ok(PartitionBound::Default),
        (PartitionStrategy::Hash, ForValues::With { modulus, remainder }) => {
            if *modulus == 0 {
                return Err(malformed(
                    "modulus for hash partition must be an integer value greater than zero",
                ));
            }
            if remainder >= modulus {
                return Err(malformed("remainder for hash partition must be less than modulus"));
            }
            Ok(PartitionBound::Hash {
                modulus: *modulus,
                remainder: *remainder,
            })
        }
        (PartitionStrategy::List, ForValues::In(exprs)) => {
            let mut found: Vec<Option<String>> = Vec::new();
            for expr in exprs {
                let value = evaluated(binder, expr, &keys[0])?;
                if !found.contains(&value) {
                    found.push(value);
                }
            }
            Ok(PartitionBound::List(found))
        }
        (PartitionStrategy::Range, ForValues::From { from, to }) => {
            let ends = [(from, "FROM"), (to, "TO")];
            for (values, word) in ends {
                if values.len() != keys.len() {
                    let message = format!("{word} must specify exactly one value per partitioning column");
                    return Err(malformed(message));
                }
            }
            Ok(PartitionBound::Range {
                from: end(binder, keys, from)?,
                to: end(binder, keys, to)?,
            })
        }
        (PartitionStrategy::Hash, _) => Err(wrong_kind("hash")),
        (PartitionStrategy::List, _) => Err(wrong_kind("list")),
        (PartitionStrategy::Range, _) => Err(wrong_kind("range")),
    }
}

fn end(binder: &Binder, keys: &[PartitionKey], values: &[PartitionBoundValue]) -> Result<Vec<RangeValue>> {
    let mut found: Vec<RangeValue> = Vec::new();
    for (value, key) in values.iter().zip(keys) {
        let value = match value {
            PartitionBoundValue::MinValue => RangeValue::Min,
            PartitionBoundValue::MaxValue => RangeValue::Max,
            PartitionBoundValue::Expr(expr) => match evaluated(binder, expr, key)? {
                Some(value) => RangeValue::Value(value),
                None => return Err(invalid("cannot specify NULL in range bound")),
            },
        };
        for (kept, name) in [(RangeValue::Min, "MINVALUE"), (RangeValue::Max, "MAXVALUE")] {
            if found.last() == Some(&kept) && value != kept {
                let message = format!("every bound following {name} must also be {name}");
                return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
            }
        }
        found.push(value);
    }
    Ok(found)
}

/// A constant of the key's type, as text.
fn evaluated(binder: &Binder, expr: &Expr, key: &PartitionKey) -> Result<Option<String>> {
    defaults::refuse_sets(expr, "partition bound", "partition bound")?;
    if names_column(expr) {
        let message = "cannot use column reference in partition bound expression";
        return Err(SqlError::unsupported_as(message));
    }
    let Expr::Cast { data_type, .. } = parse_expression(&literal(key, "0"))? else {
        return Err(SqlError::internal("a cast is none"));
    };
    let value = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Nested(Box::new(expr.clone()))),
        data_type,
        array: false,
        format: None,
    };
    let typed = constant(binder, value.clone())?;
    if typed.is_null(0) {
        return Ok(None);
    }
    if is_moment(key.sql_type) {
        return Ok(Some(tenon_storage::datetime::shown(&typed, 0)));
    }
    let text = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type: ast::DataType::Text,
        array: false,
        format: None,
    };
    let text = cast(&constant(binder, text)?, &DataType::Utf8View).map_err(|error| from_arrow(&error))?;
    let text = text.as_string_view().value(0);
    let text = match key.sql_type {
        // Blanks at its end do not count.
        SqlType::CharOf(_) | SqlType::Bpchar => text.trim_end_matches(' '),
        _ => text,
    };
    Ok(Some(text.to_string()))
}

fn names_column(expr: &Expr) -> bool {
    struct Names;
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    crate::pg::walk::Visit::visit(expr, &mut Names).is_break()
}

fn constant(binder: &Binder, mut expr: Expr) -> Result<ArrayRef> {
    rewrite(&mut expr);
    let planned = binder.expression(expr, &DFSchema::empty())?;
    binder.constant(planned)
}

fn holds(binder: &Binder, condition: &str) -> Result<bool> {
    let value = constant(binder, parse_expression(condition)?)?;
    let value = cast(&value, &DataType::Boolean).map_err(|error| from_arrow(&error))?;
    let value = value.as_boolean();
    Ok(value.is_valid(0) && value.value(0))
}

/// The order of two ends of ranges.
fn order(binder: &Binder, keys: &[PartitionKey], a: &[RangeValue], b: &[RangeValue]) -> Result<Ordering> {
    for ((a, b), key) in a.iter().zip(b).zip(keys) {
        let order = match (a, b) {
            (RangeValue::Min, RangeValue::Min) | (RangeValue::Max, RangeValue::Max) => return Ok(Ordering::Equal),
            (RangeValue::Min, _) | (_, RangeValue::Max) => Ordering::Less,
            (RangeValue::Max, _) | (_, RangeValue::Min) => Ordering::Greater,
            (RangeValue::Value(a), RangeValue::Value(b)) if a == b => Ordering::Equal,
            (RangeValue::Value(a), RangeValue::Value(b)) => {
                let (a, b) = (literal(key, a), literal(key, b));
                if holds(binder, &format!("{a} < {b}"))? {
                    Ordering::Less
                } else if holds(binder, &format!("{a} = {b}"))? {
                    Ordering::Equal
                } else {
                    Ordering::Greater
                }
            }
        };
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// 42P17 for a bound that holds no values, or some of another partition's.
pub(super) fn check(binder: &Binder, parent: &Parent, name: &str, new: &PartitionBound) -> Result<()> {
    let keys = &parent.partitioning.keys;
    if let PartitionBound::Range { from, to } = new
        && order(binder, keys, from, to)? != Ordering::Less
    {
        let message = format!("empty range bound specified for partition \"{name}\"");
        let shown = |values| shown::end(&parent.partitioning, values);
        return Err(invalid(message).detail(format!(
            "Specified lower bound ({}) is greater than or equal to upper bound ({}).",
            shown(from),
            shown(to)
        )));
    }
    for sibling in binder.snapshot.partitions(parent.oid) {
        let other = &sibling.name;
        let overlaps = match (new, &sibling.bound) {
            (PartitionBound::Default, PartitionBound::Default) => {
                let message = format!("partition \"{name}\" conflicts with existing default partition \"{other}\"");
                return Err(invalid(message));
            }
            (PartitionBound::Range { from, to }, PartitionBound::Range { from: first, to: last }) => {
                order(binder, keys, from, last)? == Ordering::Less && order(binder, keys, first, to)? == Ordering::Less
            }
            (PartitionBound::List(own), PartitionBound::List(others)) => {
                let mut met = false;
                for a in own {
                    for b in others {
                        met |= match (a, b) {
                            (Some(a), Some(b)) => {
                                a == b
                                    || holds(binder, &format!("{} = {}", literal(&keys[0], a), literal(&keys[0], b)))?
                            }
                            (a, b) => a.is_none() && b.is_none(),
                        };
                    }
                }
                met
            }
            (
                PartitionBound::Hash { modulus, remainder },
                PartitionBound::Hash {
                    modulus: other_modulus,
                    remainder: other_remainder,
                },
            ) => {
                let (small, large) = (modulus.min(other_modulus), modulus.max(other_modulus));
                if large % small != 0 {
                    let message = "every hash partition modulus must be a factor of the next larger modulus";
                    return Err(invalid(message));
                }
                remainder % small == other_remainder % small
            }
            _ => false,
        };
        if overlaps {
            return Err(invalid(format!(
                "partition \"{name}\" would overlap partition \"{other}\""
            )));
        }
    }
    Ok(())
}

/// 23514 where the default partition has rows that a new bound takes.
pub(super) async fn check_default(session: &Session, parent: &Parent, new: &PartitionBound) -> Result<()> {
    let binder = session.binder();
    let siblings = binder.snapshot.partitions(parent.oid);
    let Some(default) = siblings.iter().find(|own| own.bound == PartitionBound::Default) else {
        return Ok(());
    };
    let condition = crate::catalog::partitions::within(&parent.partitioning, new);
    let rows = super::attach::rows_where(session, default, &condition).await?;
    if rows == 0 {
        return Ok(());
    }
    let message = format!(
        "updated partition constraint for default partition \"{}\" would be violated by some row",
        default.name
    );
    Err(SqlError::new(state::CHECK_VIOLATION, message))
}
