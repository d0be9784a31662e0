//! PostgreSQL's names for the output columns of a SELECT (`?column?`, `count`, `case`), made unique for DataFusion.
//!
//! DataFusion wants distinct names in a projection; PostgreSQL does not. A name that would repeat gets a suffix that
//! starts with U+0001, and `displayed_name` takes it off again for the client.

use crate::pg::names::known_as;
use crate::pg::walk::{leaves, taken};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, GroupByExpr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    TableFactor, TrimWhereField,
};
use std::collections::{HashMap, HashSet};

const MARK: char = '\u{1}';

/// The name as the client sees it.
pub(crate) fn displayed_name(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}

/// A name that an output column has already, for the one at this place.
pub(crate) fn repeated_name(name: &str, at: usize) -> String {
    format!("{name}{MARK}{at}")
}

pub(super) fn name_outputs(select: &mut Select) {
    let wildcard = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(ident)) if !is_call(ident));
    if select.projection.len() == 1 && (wildcard || plain(&select.projection[0])) {
        return;
    }
    let mut known_names: HashSet<String> = HashSet::new();
    // The first column of a name keeps it, unless another table's has the same: ORDER BY could not say which it means.
    let mut qualified: HashMap<String, String> = HashMap::new();
    let mut repeated: HashSet<String> = HashSet::new();
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item {
            let (qualifier, name) = ends(parts);
            if *qualified.entry(name.clone()).or_insert_with(|| qualifier.clone()) != qualifier {
                repeated.insert(name.clone());
            }
            known_names.insert(name);
        }
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = match &*expr {
                    Expr::CompoundIdentifier(parts) => {
                        let (_, name) = ends(parts);
                        let first = qualified.remove(&name).is_some();
                        if first && !wildcard && !repeated.contains(&name) {
                            continue;
                        }
                        name
                    }
                    Expr::Identifier(ident) => folded(ident),
                    other => figure(other).map_or_else(|| "?column?".to_string(), |(name, _)| name),
                };
                (expr, name)
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = folded(alias);
                if !known_names.insert(name.clone()) {
                    *alias = Ident::with_quote('"', repeated_name(&name, at));
                }
                continue;
            }
            _ => continue,
        };
        let unique = !wildcard && known_names.insert(name.clone());
        if unique && matches!(expr, Expr::Identifier(ident) if !is_call(ident)) {
            continue;
        }
        let alias = if unique { name } else { repeated_name(&name, at) };
        let expr = taken(expr);
        *item = SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', alias),
        };
    }
}

/// In LATERAL, columns of the query around keep their names by aliases: DataFusion names what refers to them otherwise.
pub(super) fn name_lateral(query: &mut Query) {
    name_columns(query, |_| true);
}

/// The same of a relation without LATERAL, which may stand in a subquery: of columns that are none of its own relations'.
pub(super) fn name_outer(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let own: Vec<String> = select.from.iter().flat_map(leaves).filter_map(called).collect();
    let alone = select.from.is_empty();
    name_columns(query, |expr| match expr {
        Expr::CompoundIdentifier(parts) => !own.contains(&ends(parts).0),
        _ => alone,
    });
}

/// What a relation's columns are qualified by.
fn called(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Function { name, alias: None, .. } => name.0.last().and_then(ObjectNamePart::as_ident).map(folded),
        other => known_as(other),
    }
}

fn name_columns(query: &mut Query, wanted: impl Fn(&Expr) -> bool) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let keys: Vec<String> = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter().filter_map(bare).collect(),
        GroupByExpr::All(_) => Vec::new(),
    };
    let names: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) = item else {
            continue;
        };
        let Some(name) = names[at].clone().filter(|_| wanted(expr)) else {
            continue;
        };
        let twice = names.iter().flatten().filter(|other| **other == name).count() > 1;
        // A key by that name would be this column, where it may be one of the query's own.
        let is_key = matches!(expr, Expr::CompoundIdentifier(_)) && keys.contains(&name);
        if !twice && !is_key && !matches!(expr, Expr::Identifier(ident) if is_call(ident)) {
            let expr = taken(expr);
            *item = SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', name),
            };
        }
    }
}

fn bare(key: &Expr) -> Option<String> {
    match key {
        Expr::Identifier(name) => Some(folded(name)),
        _ => None,
    }
}

/// What stands before a qualified column's name, and the name.
fn ends(parts: &[Ident]) -> (String, String) {
    let mut parts = parts.iter().rev().map(folded);
    let name = parts.next().unwrap_or_default();
    (parts.next().unwrap_or_default(), name)
}

/// Whether a word is a function's call without parentheses.
pub(super) fn is_call(ident: &Ident) -> bool {
    const WORDS: [&str; 5] = [
        "current_schema",
        "current_catalog",
        "current_role",
        "user",
        "session_user",
    ];
    ident.quote_style.is_none() && WORDS.iter().any(|word| ident.value.eq_ignore_ascii_case(word))
}

/// The name of an output column that the text says, or that of its own column.
pub(crate) fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        _ => None,
    }
}

pub(super) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The last part of a function's name, folded.
pub(crate) fn function_name(function: &Function) -> String {
    function
        .name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map(folded)
        .unwrap_or_default()
}

/// What an index calls one of its keys.
pub(crate) fn index_key_name(key: &Expr) -> String {
    figure(key).map_or_else(|| "expr".into(), |(name, _)| name)
}

/// PostgreSQL's `FigureColname`: a name with its strength, 2 where the expression itself says it, 1 where a type does.
fn figure(expr: &Expr) -> Option<(String, u8)> {
    let strong = |name: &str| Some((name.to_string(), 2));
    match expr {
        Expr::Identifier(ident) => Some((folded(ident), 2)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|ident| (folded(ident), 2)),
        Expr::Function(function) => match function_name(function).as_str() {
            // What the parser makes of LIKE ANY and SUBSTRING.
            "tenon_like_array" => None,
            "tenon_substring_similar" => strong("substring"),
            name => strong(name.strip_prefix("tenon_variadic_").unwrap_or(name)),
        },
        Expr::IsNormalized { negated: false, .. } => strong("is_normalized"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let named = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some((folded(name), 2)),
                _ => None,
            });
            named.or_else(|| figure(root))
        }
        Expr::Cast { expr, data_type, .. } => match figure(expr) {
            Some((name, 2)) => Some((name, 2)),
            _ => Some((type_word(&data_type.to_string()), 1)),
        },
        Expr::TypedString(typed) => Some((type_word(&typed.data_type.to_string()), 1)),
        Expr::Interval(_) => Some(("interval".into(), 1)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figure) {
            Some((name, 2)) => Some((name, 2)),
            _ => Some(("case".into(), 1)),
        },
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::BinaryOp {
            op: BinaryOperator::Overlaps,
            ..
        } => strong("overlaps"),
        Expr::Tuple(_) => strong("row"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Subquery(query) => match first_arm(&query.body) {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::ExprWithAlias { alias, .. }) => Some((folded(alias), 2)),
                Some(SelectItem::UnnamedExpr(expr)) => figure(expr),
                _ => None,
            },
            SetExpr::Values(_) => strong("column1"),
            _ => None,
        },
        _ => None,
    }
}

/// The query whose columns name those of a UNION and its like.
fn first_arm(body: &SetExpr) -> &SetExpr {
    match body {
        SetExpr::SetOperation { left, .. } => first_arm(left),
        SetExpr::Query(query) => first_arm(&query.body),
        other => other,
    }
}

/// A type's internal name, as `FigureColname` takes it: `int4` for INTEGER.
fn type_word(declared: &str) -> String {
    let lower = declared.to_lowercase();
    let lower = lower.trim_end_matches(['[', ']', ' ']);
    let zone = match lower.strip_suffix(" time zone") {
        Some(of) if of.ends_with("without") => "",
        Some(_) => "tz",
        None => "",
    };
    if let Some(of) = ["timestamp", "time"].iter().find(|of| lower.starts_with(**of)) {
        let short = lower.starts_with("timestamptz") || lower.starts_with("timetz");
        return format!("{of}{}", if short { "tz" } else { zone });
    }
    if lower.starts_with("interval") {
        return "interval".into();
    }
    let bare = lower.split('(').next().unwrap_or(lower).trim();
    let bare = bare.rsplit('.').next().unwrap_or(bare);
    if bare == "\"char\"" {
        return "char".into();
    }
    match bare {
        "integer" | "int" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "real" => "float4",
        "double precision" | "float" | "double" => "float8",
        "decimal" | "dec" => "numeric",
        "character varying" => "varchar",
        "bit varying" => "varbit",
        "\"bit\"" => "bit",
        "character" | "char" => "bpchar",
        other => other,
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use crate::pg::parse::parse;
    use crate::pg::rewrite::rewrite;
    use crate::pg::statement::Kind;

    fn rewritten(sql: &str) -> String {
        let statement = parse(sql).expect("parses").remove(0);
        let Kind::Sql(mut tree) = statement.kind else {
            panic!("not SQL")
        };
        rewrite(&mut *tree);
        tree.to_string().replace('\u{1}', "~")
    }

    #[test]
    fn names_follow_postgres() {
        assert_eq!(
            rewritten("SELECT a, count(*) FROM t"),
            "SELECT a, count(*) AS \"count\" FROM t"
        );
        assert_eq!(
            rewritten("SELECT 'x', 'y'"),
            "SELECT 'x' AS \"?column?\", 'y' AS \"?column?~1\""
        );
        assert_eq!(rewritten("SELECT a, a FROM t"), "SELECT a, a AS \"a~1\" FROM t");
        // Neither keeps the name: ORDER BY a could mean both.
        assert_eq!(
            rewritten("SELECT t.a, s.a FROM t, s"),
            "SELECT t.a AS \"a~0\", s.a AS \"a~1\" FROM t, s"
        );
        assert_eq!(
            rewritten("SELECT t.a, t.b, t.a FROM t"),
            "SELECT t.a, t.b, t.a AS \"a~2\" FROM t"
        );
        assert_eq!(rewritten("SELECT t.*, a FROM t"), "SELECT t.*, a AS \"a~1\" FROM t");
        assert_eq!(rewritten("SELECT 'a'::TEXT"), "SELECT 'a'::TEXT AS \"text\"");
    }

    #[test]
    fn positions_stay() {
        assert_eq!(
            rewritten("SELECT a FROM t ORDER BY 1 LIMIT 2"),
            "SELECT a FROM t ORDER BY 1 LIMIT 2"
        );
        assert_eq!(rewritten("SELECT a FROM t GROUP BY 1"), "SELECT a FROM t GROUP BY 1");
        assert_eq!(
            rewritten("SELECT a + 1 AS b FROM t"),
            "SELECT a + CAST(1 AS INT4) AS b FROM t"
        );
    }
}
