//! `json_to_recordset(...) AS t(a int, b text)` and its kin: a query that takes each object apart.

use crate::pg::functions::json::{FIELD_AS_ARRAY, FIELD_AS_JSON, FIELD_AS_TEXT};
use crate::pg::parse::parse;
use crate::pg::statement::Kind;
use datafusion::sql::sqlparser::ast::{
    DataType, FunctionArg, FunctionArgExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor,
};
use tenon_storage::quote;

/// Puts the query in the function's place.
pub(super) fn expand(factor: &mut TableFactor) {
    let (name, args, alias) = match &*factor {
        TableFactor::Table {
            name,
            args: Some(args),
            alias: Some(alias),
            ..
        } => (name, &args.args, alias),
        TableFactor::Function {
            name,
            args,
            alias: Some(alias),
            ..
        } => (name, args, alias),
        _ => return,
    };
    let name = name.to_string().to_lowercase();
    let set = match name.as_str() {
        "json_to_record" | "jsonb_to_record" => false,
        "json_to_recordset" | "jsonb_to_recordset" => true,
        _ => return,
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = args.as_slice() else {
        return;
    };
    let columns: Option<Vec<String>> = alias.columns.iter().map(column).collect();
    let Some(columns) = columns.filter(|columns| !columns.is_empty()) else {
        return;
    };
    let kind = if name.starts_with("jsonb") { "jsonb" } else { "json" };
    let source = match set {
        true => format!("{kind}_array_elements({value}) AS \"\u{1}e\"(\"\u{1}v\")"),
        false => format!("(SELECT CAST({value} AS {kind}) AS \"\u{1}v\") AS \"\u{1}e\""),
    };
    let sql = format!("SELECT {} FROM {source}", columns.join(", "));
    let Ok(mut statements) = parse(&sql) else { return };
    let Some(Kind::Sql(tree)) = statements.pop().map(|statement| statement.kind) else {
        return;
    };
    let Statement::Query(subquery) = *tree else { return };
    let names = alias.columns.iter().map(|column| TableAliasColumnDef {
        name: column.name.clone(),
        data_type: None,
    });
    *factor = TableFactor::Derived {
        lateral: true,
        subquery,
        alias: Some(TableAlias {
            columns: names.collect(),
            ..alias.clone()
        }),
        sample: None,
    };
}

/// A field of an object as a column of its declared type.
fn column(column: &TableAliasColumnDef) -> Option<String> {
    let data_type = column.data_type.as_ref()?;
    let name = match column.name.quote_style {
        Some(_) => column.name.value.clone(),
        None => column.name.value.to_lowercase(),
    };
    let array = matches!(data_type, DataType::Array(_))
        || matches!(data_type, DataType::Custom(name, _) if name.to_string().starts_with('_'));
    let field = match data_type {
        DataType::JSON | DataType::JSONB => FIELD_AS_JSON,
        _ if array => FIELD_AS_ARRAY,
        _ => FIELD_AS_TEXT,
    };
    Some(format!(
        "CAST(\"{field}\"(\"\u{1}v\", {}) AS {data_type}) AS {}",
        quote::literal(&name),
        quote::name(&name)
    ))
}
