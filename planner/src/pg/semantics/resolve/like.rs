//! LIKE of strings and of bytes.

use super::{Group, group, is_unknown, known, typed, undefined};
use crate::pg::functions::{padded, text};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, Like};
use tenon_storage::SqlType;

/// 42883 for other types; a `char(n)` is matched with its blanks.
pub(super) fn matched(mut like: Like, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let types = (known(&like.expr, schema), known(&like.pattern, schema));
    if [types.0, types.1]
        .into_iter()
        .flatten()
        .any(|of| !matches!(group(of), Group::String | Group::Bytea))
    {
        let sign = if like.negated { "!~~" } else { "~~" };
        let op = format!("{sign}{}", if like.case_insensitive { "*" } else { "" });
        return Err(undefined(&op, types.0, types.1));
    }
    if types.0 == Some(SqlType::Bytea) || types.1 == Some(SqlType::Bytea) && is_unknown(&like.expr) {
        let [bytes, pattern] = [*like.expr, *like.pattern].map(|own| typed(own, SqlType::Bytea));
        let matched = text::like_bytes().call(vec![bytes, pattern]);
        return Ok(Transformed::yes(match like.negated {
            true => Expr::Not(Box::new(matched)),
            false => matched,
        }));
    }
    let blank = matches!(types.0, Some(SqlType::CharOf(_)));
    if blank {
        *like.expr = padded(std::mem::take(&mut *like.expr), types.0);
    }
    Ok(Transformed::new_transformed(Expr::Like(like), blank))
}
