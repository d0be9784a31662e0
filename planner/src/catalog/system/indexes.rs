//! Indexes as the system tables show them: of columns, of expressions or some of the rows, and those of partitions.

use super::names::{in_order, included, shown_key, with_options, without_parentheses};
use super::operator_classes;
use super::relations::relations;
use super::rows;
use super::shown_text::{pretty_text, shown_text};
use crate::catalog::bind::Binder;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::index_key_name;
use std::sync::Arc;
use tenon_storage::{
    ColumnOrder, Deferral, ExpressionIndex, Index, IndexKind, IndexShown, Partition, PartitionIndex, Relation, SqlType,
    TableDefinition, TableVersion, quote,
};

/// An index and what it is of.
pub(super) struct ShownIndex<'a> {
    /// What it is an index of: a table, or a partition.
    pub relation: &'a Relation,
    /// The table that has the rows.
    pub table: &'a Arc<TableVersion>,
    /// Of a partition: what it has of its own.
    part: Option<&'a PartitionIndex>,
    pub oid: u32,
    pub name: &'a str,
    pub of: Keys<'a>,
}

pub(super) enum Keys<'a> {
    Columns(&'a Index),
    /// Or of some rows alone.
    Expressions(&'a ExpressionIndex),
}

impl<'a> ShownIndex<'a> {
    /// All of a relation.
    pub(super) fn of(binder: &'a Binder, relation: &'a Relation) -> Vec<ShownIndex<'a>> {
        match relation {
            Relation::Table(table) => Self::of_table(relation, table),
            Relation::Partition(partition) => Self::of_partition(binder, relation, partition),
            Relation::View(_) | Relation::Sequence(_) => Vec::new(),
        }
    }

    fn of_table(relation: &'a Relation, table: &'a Arc<TableVersion>) -> Vec<ShownIndex<'a>> {
        let columns = table.definition().all_indexes().map(|own| ShownIndex {
            relation,
            table,
            part: None,
            oid: own.oid,
            name: &own.name,
            of: Keys::Columns(own),
        });
        let expressions = table.definition().expression_indexes.iter();
        let expressions = expressions.map(|own| ShownIndex {
            relation,
            table,
            part: None,
            oid: own.oid,
            name: &own.name,
            of: Keys::Expressions(own),
        });
        columns.chain(expressions).collect()
    }

    fn of_partition(binder: &'a Binder, relation: &'a Relation, partition: &'a Partition) -> Vec<ShownIndex<'a>> {
        let Some(table) = binder.snapshot.table_by_oid(partition.root) else {
            return Vec::new();
        };
        let index = |own: &'a PartitionIndex| ShownIndex {
            relation,
            table,
            part: Some(own),
            oid: own.declared.oid,
            name: &own.declared.name,
            of: Keys::Expressions(&own.declared),
        };
        partition.indexes.iter().map(index).collect()
    }

    pub(super) fn all(binder: &'a Binder) -> impl Iterator<Item = ShownIndex<'a>> {
        relations(binder).flat_map(|relation| ShownIndex::of(binder, relation))
    }

    /// Those of PRIMARY KEY and UNIQUE constraints.
    pub(super) fn constraints(binder: &'a Binder) -> impl Iterator<Item = ShownIndex<'a>> {
        Self::all(binder).filter(ShownIndex::is_constraint)
    }

    pub(super) fn find(binder: &'a Binder, oid: i64) -> Option<ShownIndex<'a>> {
        Self::all(binder).find(|index| i64::from(index.oid) == oid)
    }

    pub(super) fn rows(&self) -> u64 {
        match self.part {
            None => self.table.rows(),
            Some(_) => 0,
        }
    }

    pub(super) fn kind(&self) -> IndexKind {
        match (self.part, &self.of) {
            (Some(part), _) => part.kind,
            (None, Keys::Columns(key)) => key.declared_kind(),
            (None, Keys::Expressions(own)) if own.is_declared_unique() => IndexKind::Unique,
            (None, Keys::Expressions(_)) => IndexKind::Plain,
        }
    }

    pub(super) fn is_primary(&self) -> bool {
        self.kind() == IndexKind::Primary
    }

    /// Whether a constraint needs it.
    pub(super) fn is_constraint(&self) -> bool {
        matches!(self.kind(), IndexKind::Primary | IndexKind::Constraint)
    }

    pub(super) fn is_unique(&self) -> bool {
        self.kind() != IndexKind::Plain
    }

    pub(super) fn nulls_not_distinct(&self) -> bool {
        match self.of {
            Keys::Columns(own) => own.nulls_not_distinct,
            Keys::Expressions(own) => own.nulls_not_distinct,
        }
    }

    pub(super) fn deferral(&self) -> Deferral {
        match (self.part, &self.of) {
            (Some(part), _) => part.deferral,
            (None, Keys::Columns(own)) => own.deferral,
            (None, Keys::Expressions(_)) => Deferral::Never,
        }
    }

    /// Whether it is of what is divided into partitions.
    pub(super) fn is_divided(&self) -> bool {
        self.relation.partitioning().is_some()
    }

    /// The index that it is part of.
    pub(super) fn parent(&self) -> Option<u32> {
        self.part?.parent
    }

    pub(super) fn shown(&self) -> &'a IndexShown {
        match self.of {
            Keys::Columns(own) => &own.shown,
            Keys::Expressions(own) => &own.shown,
        }
    }

    /// Names of INCLUDE's columns.
    pub(super) fn included(&self) -> Vec<&'a String> {
        match self.of {
            Keys::Columns(own) => {
                let columns = &self.table.definition().columns;
                own.include.iter().map(|at| &columns[*at].name).collect()
            }
            Keys::Expressions(own) => own.include.iter().collect(),
        }
    }

    /// The places of a column among those of what it is of, from 1.
    pub(super) fn position(&self, column: &str) -> i64 {
        let at = self.relation.columns().index_of(column);
        at.map_or(0, |at| at as i64 + 1)
    }

    /// The columns that its keys are, each by its name; None where a key is no column.
    pub(super) fn key_columns(&self) -> Vec<Option<&'a str>> {
        let columns = &self.table.definition().columns;
        match self.of {
            Keys::Columns(own) => own.columns.iter().map(|at| Some(columns[*at].name.as_str())).collect(),
            Keys::Expressions(own) => {
                let column = |key: &String| {
                    let found = columns.iter().find(|column| names_column(key, &column.name));
                    found.map(|column| column.name.as_str())
                };
                own.keys.iter().map(column).collect()
            }
        }
    }

    /// The keys' numbers, 0 where one is no column.
    pub(super) fn positions(&self) -> Vec<i64> {
        let keys = self.key_columns().into_iter();
        keys.map(|key| key.map_or(0, |name| self.position(name))).collect()
    }

    pub(super) fn orders(&self) -> Vec<ColumnOrder> {
        match self.of {
            Keys::Columns(own) => own.order.clone(),
            Keys::Expressions(own) => own.ordered_keys().map(|(_, order)| order).collect(),
        }
    }

    /// Its keys as texts, without their order.
    fn keys(&self, binder: &Binder) -> Vec<String> {
        let columns = &self.table.definition().columns;
        match self.of {
            Keys::Columns(own) => {
                let names = own.columns.iter().map(|at| quote::identifier(&columns[*at].name));
                names.collect()
            }
            Keys::Expressions(own) => {
                let named = self.key_columns();
                let keys = own.keys.iter().zip(named);
                let key = |(key, named): (&String, Option<&str>)| match named {
                    Some(name) => quote::identifier(name),
                    None => shown_key(shown_text(binder, key)),
                };
                keys.map(key).collect()
            }
        }
    }

    pub(super) fn predicate(&self, binder: &Binder) -> Option<String> {
        match self.of {
            Keys::Columns(_) => None,
            Keys::Expressions(own) => {
                let predicate = own.predicate.as_ref()?;
                Some(without_parentheses(shown_text(binder, predicate)))
            }
        }
    }

    /// The expressions in it.
    pub(super) fn texts(&self) -> Vec<&'a String> {
        match self.of {
            Keys::Columns(_) => Vec::new(),
            Keys::Expressions(own) => own.keys.iter().chain(&own.predicate).collect(),
        }
    }

    /// A partitioned table's index says ONLY where each partition has its own, or it is not valid.
    fn only(&self, binder: &Binder) -> &'static str {
        let partitions = || binder.snapshot.partitions(self.relation.oid());
        let has = |partition: &Arc<Partition>| partition.indexes.iter().any(|own| own.parent == Some(self.oid));
        match self.is_divided() && (self.shown().only.is_some() || partitions().iter().all(has)) {
            true => "ONLY ",
            false => "",
        }
    }

    /// `pg_get_indexdef` of it all.
    pub(super) fn definition(&self, binder: &Binder, is_pretty: bool) -> String {
        let pretty = |text: String| if is_pretty { pretty_text(text) } else { text };
        let keys = self.keys(binder).into_iter().map(pretty).zip(self.orders());
        let keys: Vec<String> = keys.map(|(key, order)| in_order(key, &order)).collect();
        format!(
            "CREATE {}INDEX {} ON {}{}.{} USING {} ({}){}{}{}{}",
            if self.is_unique() { "UNIQUE " } else { "" },
            quote::identifier(self.name),
            self.only(binder),
            quote::identifier(self.relation.schema_name()),
            quote::identifier(self.relation.name()),
            self.shown().method(),
            keys.join(", "),
            included(self.included().into_iter()),
            if self.nulls_not_distinct() {
                " NULLS NOT DISTINCT"
            } else {
                ""
            },
            with_options(self.shown()),
            match self.predicate(binder) {
                Some(predicate) if is_pretty => format!(" WHERE {}", pretty_text(predicate)),
                Some(predicate) => format!(" WHERE ({predicate})"),
                None => String::new(),
            }
        )
    }

    /// The key of a number, or the column of INCLUDE behind the keys.
    pub(super) fn key(&self, binder: &Binder, number: usize) -> String {
        let included = self.included().into_iter().map(|name| quote::identifier(name));
        let mut all = self.keys(binder).into_iter().chain(included);
        all.nth(number.saturating_sub(1)).unwrap_or_default()
    }

    /// `pg_get_constraintdef` of its constraint.
    pub(super) fn constraint_definition(&self, binder: &Binder) -> String {
        let what = if self.is_primary() { "PRIMARY KEY" } else { "UNIQUE" };
        let waits = match self.deferral() {
            Deferral::Never => "",
            Deferral::Immediate => " DEFERRABLE",
            Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
        };
        let nulls = match self.nulls_not_distinct() {
            true => " NULLS NOT DISTINCT",
            false => "",
        };
        let include = included(self.included().into_iter());
        format!("{what}{nulls} ({}){include}{waits}", self.keys(binder).join(", "))
    }

    /// What its keys, and the columns of INCLUDE behind them, are called and of which type they are.
    pub(super) fn columns(&self, binder: &Binder) -> Vec<(String, SqlType)> {
        let definition = self.table.definition();
        let of_column = |name: &str| {
            let at = definition.column_index(name)?;
            Some(definition.columns[at].sql_type)
        };
        let keys = self.key_columns();
        let types = match self.of {
            Keys::Expressions(own) if keys.contains(&None) => operator_classes::key_types(binder, definition, own),
            _ => Vec::new(),
        };
        let mut found: Vec<(String, SqlType)> = Vec::new();
        let mut add = |name: String, of: Option<SqlType>| {
            let free = |name: &str| found.iter().all(|(own, _)| own != name);
            let numbered = (1..).map(|number| format!("{name}{number}"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| free(name));
            found.push((free.unwrap_or(name), of.unwrap_or(SqlType::Text)));
        };
        for (at, key) in keys.iter().enumerate() {
            match (key, &self.of) {
                (Some(name), _) => add((*name).to_string(), of_column(name)),
                (None, Keys::Expressions(own)) => {
                    let key = own.keys.get(at).and_then(|key| parse_expression(key).ok());
                    let name = key.map_or_else(|| "expr".into(), |key| index_key_name(&key));
                    add(name, types.get(at).copied().flatten());
                }
                (None, Keys::Columns(_)) => {}
            }
        }
        for name in self.included() {
            add(name.clone(), of_column(name));
        }
        found
    }

    /// The number of its constraint, which is another than its own.
    pub(super) fn constraint_oid(&self) -> u32 {
        super::constraint_oid(self.oid)
    }
}

/// Whether an expression, as an index keeps it, is that column alone.
fn names_column(expression: &str, column: &str) -> bool {
    match expression.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\"") == column,
        None => expression.to_lowercase() == column,
    }
}

/// The row of `pg_am` for an index.
pub(super) fn access_method(shown: &IndexShown) -> i64 {
    match shown.method() {
        "hash" => 405,
        "gist" => 783,
        "gin" => 2742,
        "brin" => 3580,
        "spgist" => 4000,
        _ => 403,
    }
}

/// Storage parameters as `pg_class` has them.
pub(super) fn reloptions(options: &[(String, String)], own: Option<String>) -> rows::Value {
    let option = |(name, value): &(String, String)| format!("{name}={value}");
    let all: Vec<String> = options.iter().map(option).chain(own).collect();
    match all.is_empty() {
        true => rows::Value::Null,
        false => rows::Value::Texts(all),
    }
}

/// Whether a table has any.
pub(super) fn has_index(relation: &Relation) -> bool {
    let of_table = |definition: &TableDefinition| {
        definition.all_indexes().next().is_some() || !definition.expression_indexes.is_empty()
    };
    match relation {
        Relation::Table(table) => of_table(table.definition()),
        Relation::Partition(partition) => !partition.indexes.is_empty(),
        Relation::View(_) | Relation::Sequence(_) => false,
    }
}
