//! Strings of several types that are compared: each pair by itself. A `char(n)` beside another, a varchar or a literal is compared
//! as a `bpchar`, whose blanks at the end do not count; beside a text, and all others beside each other, as a text. So one value
//! may be compared in both ways: `c IN (a, d)`.

use super::is_unknown;
use super::strings::{as_type, is_blank, own_type};
use crate::pg::semantics::blanks;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::{Between, Expr, lit, when};
use tenon_storage::SqlType;

/// What a string is to those that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `char(n)` or `bpchar`.
    Blank,
    Varchar,
    /// A text or a name, which are compared as texts.
    Text,
    /// A literal without a type.
    Unknown,
}

impl Kind {
    pub(super) fn of_type(of: SqlType) -> Option<Kind> {
        Some(match of {
            of if is_blank(of) => Kind::Blank,
            SqlType::Varchar | SqlType::VarcharOf(_) => Kind::Varchar,
            SqlType::Text | SqlType::Name => Kind::Text,
            _ => return None,
        })
    }

    /// None: no string.
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
        match is_unknown(expr) {
            true => Some(Kind::Unknown),
            false => own_type(expr, schema).and_then(Kind::of_type),
        }
    }

    /// Whether blanks at the end do not count where one is compared with the other.
    pub(super) fn blankless(self, other: Kind) -> bool {
        let meets = |kind| kind != Kind::Text;
        self == Kind::Blank && meets(other) || other == Kind::Blank && meets(self)
    }
}

/// A value as it is compared where blanks do not count.
pub(super) fn bare(expr: Expr, schema: &DFSchema) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), None) => {
            Expr::Literal(ScalarValue::Utf8(Some(text.trim_end_matches(' ').to_string())), None)
        }
        // Those are kept without blanks, and what compares a `bpchar` takes it without.
        expr if is_unknown(&expr) || own_type(&expr, schema).is_some_and(is_blank) => expr,
        expr => blanks::bare(expr),
    }
}

/// The same where nothing else takes the blanks of a `bpchar` away; other values as they are.
pub(super) fn bare_value(expr: Expr, schema: &DFSchema) -> Expr {
    match own_type(&expr, schema) {
        Some(SqlType::Bpchar) => blanks::bare(expr),
        Some(SqlType::Varchar | SqlType::VarcharOf(_)) => bare(expr, schema),
        None if is_unknown(&expr) => bare(expr, schema),
        _ => expr,
    }
}

/// Two that are compared; whether anything changed.
pub(super) fn pair(left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> bool {
    let (Some(own), Some(other)) = (Kind::of(left, schema), Kind::of(right, schema)) else {
        return false;
    };
    if !own.blankless(other) {
        return false;
    }
    for side in [left, right] {
        *side = bare(std::mem::take(side), schema);
    }
    true
}

/// The kinds of expressions that are all strings, with a `char(n)` among them.
fn kinds<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<Vec<Kind>> {
    let kinds = exprs.map(|expr| Kind::of(expr, schema)).collect::<Option<Vec<_>>>()?;
    kinds.contains(&Kind::Blank).then_some(kinds)
}

/// Whether an item of a list stands in the row: others become one array, whose items are of one type.
fn reads_row(item: &Expr) -> bool {
    item.any_column_refs()
}

/// IN over strings, with a `char(n)` among them; else what it was.
pub(super) fn in_list(list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let all = std::iter::once(&*list.expr).chain(&list.list);
    let Some(mut kinds) = kinds(all, schema) else {
        return Transformed::no(Expr::InList(list));
    };
    let own = kinds.remove(0);
    let constant: Vec<bool> = list.list.iter().map(|item| !reads_row(item)).collect();
    if constant.iter().filter(|constant| **constant).count() > 1 {
        let of_array = std::iter::once(own).chain(
            kinds
                .iter()
                .zip(&constant)
                .filter(|(_, of)| **of)
                .map(|(kind, _)| *kind),
        );
        let first = of_array.into_iter().find(|kind| *kind != Kind::Unknown);
        let first = first.unwrap_or(Kind::Text);
        for (kind, _) in kinds.iter_mut().zip(&constant).filter(|(_, constant)| **constant) {
            *kind = first;
        }
    }
    let InList { expr, list, negated } = list;
    let (mut blankless, mut texts) = (Vec::new(), Vec::new());
    for (item, kind) in list.into_iter().zip(kinds) {
        match own.blankless(kind) {
            true => blankless.push(bare(item, schema)),
            false => texts.push(item),
        }
    }
    let among = |expr: Expr, list: Vec<Expr>| Expr::InList(InList::new(Box::new(expr), list, negated));
    Transformed::yes(match (blankless.is_empty(), texts.is_empty()) {
        (true, _) => among(*expr, texts),
        (false, true) => among(bare(*expr, schema), blankless),
        (false, false) => {
            let (first, second) = (
                among(bare(expr.as_ref().clone(), schema), blankless),
                among(*expr, texts),
            );
            match negated {
                true => first.and(second),
                false => first.or(second),
            }
        }
    })
}

/// BETWEEN of strings, with a `char(n)` among them; else what it was.
pub(super) fn between(between: Between, schema: &DFSchema) -> Transformed<Expr> {
    let all = [&*between.expr, &*between.low, &*between.high];
    let Some(kinds) = kinds(all.into_iter(), schema) else {
        return Transformed::no(Expr::Between(between));
    };
    let Between {
        expr,
        negated,
        low,
        high,
    } = between;
    match (kinds[0].blankless(kinds[1]), kinds[0].blankless(kinds[2])) {
        (false, false) => Transformed::no(Expr::Between(Between::new(expr, negated, low, high))),
        (true, true) => {
            let bare = |expr: Box<Expr>| Box::new(bare(*expr, schema));
            Transformed::yes(Expr::Between(Between::new(bare(expr), negated, bare(low), bare(high))))
        }
        _ => {
            let (mut first, mut second) = (expr.as_ref().clone(), *expr);
            let (mut low, mut high) = (*low, *high);
            pair(&mut first, &mut low, schema);
            pair(&mut second, &mut high, schema);
            Transformed::yes(match negated {
                true => first.lt(low).or(second.gt(high)),
                false => first.gt_eq(low).and(second.lt_eq(high)),
            })
        }
    }
}

/// The values of a CASE that compares strings, with a `char(n)` among them; whether anything changed.
pub(super) fn case(case: &mut Case, schema: &DFSchema) -> bool {
    let Some(base) = case.expr.as_deref() else {
        return false;
    };
    let all = std::iter::once(base).chain(case.when_then_expr.iter().map(|(when, _)| &**when));
    let Some(mut kinds) = kinds(all, schema) else {
        return false;
    };
    // A literal is a text there.
    let own = match kinds.remove(0) {
        Kind::Unknown => Kind::Text,
        own => own,
    };
    let blankless: Vec<bool> = kinds.iter().map(|kind| own.blankless(*kind)).collect();
    if !blankless.contains(&true) {
        return false;
    }
    let base = base.clone();
    for ((when, _), blankless) in case.when_then_expr.iter_mut().zip(&blankless) {
        if *blankless {
            **when = bare(std::mem::take(when.as_mut()), schema);
        }
    }
    case.expr = match blankless.contains(&false) {
        false => Some(Box::new(bare(base, schema))),
        // Both ways: each by itself.
        true => {
            for ((when, _), blankless) in case.when_then_expr.iter_mut().zip(blankless) {
                let base = match blankless {
                    true => bare(base.clone(), schema),
                    false => base.clone(),
                };
                **when = base.eq(std::mem::take(when.as_mut()));
            }
            None
        }
    };
    true
}

/// NULLIF of two strings that are compared as `bpchar`; it gives the first as it was. None: of others.
pub(super) fn nullif(args: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let [first, second] = args else { return Ok(None) };
    let (Some(own), Some(other)) = (Kind::of(first, schema), Kind::of(second, schema)) else {
        return Ok(None);
    };
    let of = match own {
        Kind::Blank => own_type(first, schema),
        Kind::Unknown if other == Kind::Blank => Some(SqlType::Bpchar),
        Kind::Varchar if other == Kind::Blank => own_type(first, schema),
        _ => None,
    };
    let Some(of) = of else { return Ok(None) };
    let (mut left, mut right) = (first.clone(), second.clone());
    pair(&mut left, &mut right, schema);
    let null = lit(ScalarValue::try_from(&of.data_type())?);
    let shown = match own {
        Kind::Unknown => as_type(first.clone(), of),
        _ => first.clone(),
    };
    let chosen = when(left.eq(right), null).otherwise(shown)?;
    Ok(Some(as_type(chosen, of)))
}
