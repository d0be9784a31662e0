//! The functions that make records of json, in FROM.

use super::Resolver;
use crate::pg::error::Result;
use crate::pg::functions::record::FIELD;
use datafusion::sql::sqlparser::ast::{
    FunctionArg, FunctionArgExpr, Ident, Statement, TableAlias, TableAliasColumnDef, TableFactor,
};
use tenon_storage::quote;

impl Resolver<'_> {
    /// `json_populate_record(base, json)` in FROM: a query of the record's fields, each of its declared type.
    pub(super) fn populated(&self, factor: &TableFactor) -> Result<Option<TableFactor>> {
        let (name, args, alias) = match factor {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                with_ordinality: false,
                ..
            } => (name, &args.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, args, alias),
            _ => return Ok(None),
        };
        let name = name.to_string().to_lowercase();
        let (one, set) = match name.as_str() {
            "json_populate_record" => ("json_populate_record", None),
            "jsonb_populate_record" => ("jsonb_populate_record", None),
            "json_populate_recordset" => ("json_populate_record", Some("json_array_elements")),
            "jsonb_populate_recordset" => ("jsonb_populate_record", Some("jsonb_array_elements")),
            _ => return Ok(None),
        };
        let [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(base)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(json)),
        ] = args.as_slice()
        else {
            return Ok(None);
        };
        let Some(columns) = self.columns(base) else {
            return Ok(None);
        };
        let shown = columns.iter().map(|(name, declared)| {
            format!(
                "CAST(\"{FIELD}\"(\"\u{1}v\", {}) AS {declared}) AS {}",
                quote::literal(name),
                quote::name(name)
            )
        });
        let shown: Vec<String> = shown.collect();
        let source = match set {
            None => format!("SELECT {one}({base}, {json}) AS \"\u{1}v\""),
            Some(set) => {
                format!("SELECT {one}({base}, \"\u{1}e\") AS \"\u{1}v\" FROM {set}({json}) AS \"\u{1}s\"(\"\u{1}e\")")
            }
        };
        let sql = format!("SELECT {} FROM ({source}) AS \"\u{1}r\"", shown.join(", "));
        let Some(crate::pg::statement::Kind::Sql(tree)) = crate::pg::parse::parse(&sql)?.pop().map(|own| own.kind)
        else {
            return Ok(None);
        };
        let Statement::Query(mut subquery) = *tree else {
            return Ok(None);
        };
        crate::pg::rewrite::rewrite(&mut subquery);
        let names = columns.iter().map(|(name, _)| TableAliasColumnDef {
            name: Ident::with_quote('"', name),
            data_type: None,
        });
        let alias = match alias {
            Some(alias) if !alias.columns.is_empty() => alias.clone(),
            Some(alias) => TableAlias {
                columns: names.collect(),
                ..alias.clone()
            },
            None => TableAlias {
                explicit: true,
                name: Ident::with_quote('"', &name),
                columns: names.collect(),
                at: None,
            },
        };
        Ok(Some(TableFactor::Derived {
            lateral: true,
            subquery,
            alias: Some(alias),
            sample: None,
        }))
    }
}
