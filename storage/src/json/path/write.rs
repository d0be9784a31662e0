//! A jsonpath as PostgreSQL writes it.

use super::{Expr, Operator, Path, Step};
use crate::json::{Json, write_string};
use std::fmt::{self, Write};

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.strict {
            f.write_str("strict ")?;
        }
        expr(&self.expr, true, f)
    }
}

fn priority(expr: &Expr) -> u8 {
    match expr {
        Expr::Binary(op, ..) => match op {
            Operator::Or => 0,
            Operator::And => 1,
            Operator::Add | Operator::Subtract => 3,
            Operator::Multiply | Operator::Divide | Operator::Modulo => 4,
            _ => 2,
        },
        Expr::StartsWith(..) => 2,
        Expr::Sign(..) => 5,
        _ => 6,
    }
}

fn operator(op: Operator) -> &'static str {
    match op {
        Operator::Or => "||",
        Operator::And => "&&",
        Operator::Equal => "==",
        Operator::NotEqual => "!=",
        Operator::Less => "<",
        Operator::LessEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterEqual => ">=",
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Modulo => "%",
    }
}

fn expr(own: &Expr, brackets: bool, f: &mut impl Write) -> fmt::Result {
    match own {
        Expr::Root => f.write_char('$'),
        Expr::Current => f.write_char('@'),
        Expr::Last => f.write_str("last"),
        Expr::Variable(name) => {
            f.write_char('$')?;
            write_string(name, f)
        }
        Expr::Literal(Json::String(text)) => write_string(text, f),
        Expr::Literal(value) => write!(f, "{value}"),
        Expr::Binary(op, left, right) => {
            if brackets {
                f.write_char('(')?;
            }
            expr(left, priority(left) <= priority(own), f)?;
            write!(f, " {} ", operator(*op))?;
            expr(right, priority(right) <= priority(own), f)?;
            if brackets {
                f.write_char(')')?;
            }
            Ok(())
        }
        Expr::Sign(negative, inner) => {
            if brackets {
                f.write_char('(')?;
            }
            f.write_char(if *negative { '-' } else { '+' })?;
            expr(inner, priority(inner) <= priority(own), f)?;
            if brackets {
                f.write_char(')')?;
            }
            Ok(())
        }
        Expr::Not(inner) => {
            f.write_str("!(")?;
            expr(inner, false, f)?;
            f.write_char(')')
        }
        Expr::IsUnknown(inner) => {
            f.write_char('(')?;
            expr(inner, false, f)?;
            f.write_str(") is unknown")
        }
        Expr::Exists(inner) => {
            f.write_str("exists (")?;
            expr(inner, false, f)?;
            f.write_char(')')
        }
        Expr::StartsWith(left, right) => {
            if brackets {
                f.write_char('(')?;
            }
            expr(left, priority(left) <= priority(own), f)?;
            f.write_str(" starts with ")?;
            expr(right, priority(right) <= priority(own), f)?;
            if brackets {
                f.write_char(')')?;
            }
            Ok(())
        }
        Expr::LikeRegex(left, pattern, flags) => {
            if brackets {
                f.write_char('(')?;
            }
            expr(left, priority(left) <= priority(own), f)?;
            f.write_str(" like_regex ")?;
            write_string(pattern, f)?;
            if !flags.is_empty() {
                write!(f, " flag \"{flags}\"")?;
            }
            if brackets {
                f.write_char(')')?;
            }
            Ok(())
        }
        Expr::Steps(base, steps) => {
            let number = matches!(base.as_ref(), Expr::Literal(Json::Number(_)));
            if number {
                f.write_char('(')?;
            }
            expr(base, true, f)?;
            if number {
                f.write_char(')')?;
            }
            steps.iter().try_for_each(|own| step(own, f))
        }
    }
}

fn step(own: &Step, f: &mut impl Write) -> fmt::Result {
    match own {
        Step::Key(key) => {
            f.write_char('.')?;
            write_string(key, f)
        }
        Step::AnyKey => f.write_str(".*"),
        Step::AnyElement => f.write_str("[*]"),
        Step::Index(ranges) => {
            f.write_char('[')?;
            for (at, (from, upto)) in ranges.iter().enumerate() {
                if at > 0 {
                    f.write_char(',')?;
                }
                expr(from, false, f)?;
                if let Some(upto) = upto {
                    f.write_str(" to ")?;
                    expr(upto, false, f)?;
                }
            }
            f.write_char(']')
        }
        Step::AnyDepth(from, upto) => {
            let level = |level: &Option<u32>| level.map_or("last".to_string(), |level| level.to_string());
            match (from, upto) {
                (Some(0), None) => f.write_str(".**"),
                (from, upto) if from == upto => write!(f, ".**{{{}}}", level(from)),
                (from, upto) => write!(f, ".**{{{} to {}}}", level(from), level(upto)),
            }
        }
        Step::Filter(condition) => {
            f.write_str("?(")?;
            expr(condition, false, f)?;
            f.write_char(')')
        }
        Step::Method(method) => write!(f, ".{}()", method.name()),
        Step::Datetime(None) => f.write_str(".datetime()"),
        Step::Datetime(Some(template)) => {
            f.write_str(".datetime(")?;
            write_string(template, f)?;
            f.write_char(')')
        }
    }
}
