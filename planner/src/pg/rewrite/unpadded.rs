//! `bpchar` without a length. Such a value compares, and becomes text, without the blanks at its end; here it is text, so the
//! cast takes them off.

use super::spellings::call;
use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr};

pub(super) fn cast(expr: &mut Expr) {
    let inner = match expr {
        Expr::Cast {
            expr: inner,
            data_type,
            array: false,
            ..
        } if is_bpchar(data_type) => taken(inner),
        Expr::TypedString(typed) if is_bpchar(&typed.data_type) => Expr::Value(typed.value.clone()),
        _ => return,
    };
    let text = |expr: Expr| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Text,
        array: false,
        format: None,
    };
    *expr = text(call("rtrim", vec![text(inner)]));
}

fn is_bpchar(data_type: &DataType) -> bool {
    let DataType::Custom(name, arguments) = data_type else {
        return false;
    };
    let last = name.0.last().and_then(|part| part.as_ident());
    arguments.is_empty() && last.is_some_and(|last| last.value.eq_ignore_ascii_case("bpchar"))
}
