//! What a statement reads, and whether it may: asked when its plan is made, of the role that it is planned for. Within a view
//! that is the view's owner.
//!
//! Rights on a whole relation are looked up as it is named. Where a role has none, the columns that the plan uses decide: those
//! that an expression names anywhere before the optimizer has looked at it, as PostgreSQL counts them.

use super::Binder;
use crate::catalog::partitions;
use crate::catalog::rights::{Rights, denied, refused};
use crate::pg::error::{Result, SqlError};
use crate::pg::identity::Acting;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_executor::scan::is_place;
use tenon_storage::range::RangeType;
use tenon_storage::{ColumnDef, Relation, SqlType, privilege};

/// What is still to be decided of a statement's reads, and what was.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    /// Relations on whose columns it depends, and for whom they are read.
    open: Arc<Mutex<Vec<(TableReference, u32, Acting)>>>,
    /// The first that was refused where the statement is only described.
    denied: Arc<Mutex<Option<SqlError>>>,
    /// Partitions without partitions of their own that are read.
    partitions: Arc<Mutex<BTreeSet<u32>>>,
}

impl Reads {
    /// Those of a plan within the plan.
    pub fn within(&self) -> Self {
        Self {
            open: Arc::default(),
            denied: self.denied.clone(),
            partitions: self.partitions.clone(),
        }
    }

    /// The same of what a partition is made of: that it is read says all.
    pub fn within_partition(&self) -> Self {
        Self {
            partitions: Arc::default(),
            ..self.within()
        }
    }

    pub fn forget(&self) {
        self.open.lock().clear();
    }

    pub fn is_denied(&self) -> bool {
        self.denied.lock().is_some()
    }
}

/// Notes that a relation is read, where it is a partition or has some.
pub(super) fn note_partitions(binder: &Binder, relation: &Relation) {
    if relation.partitioning().is_some() || relation.as_partition().is_some() {
        let leaves = partitions::leaves(&binder.snapshot, relation);
        binder.reads.partitions.lock().extend(leaves.iter().map(|own| own.oid));
    }
}

impl Binder {
    /// The partitions without partitions of their own that were read by what was planned.
    pub(crate) fn partitions_read(&self) -> Vec<u32> {
        self.reads.partitions.lock().iter().copied().collect()
    }
}

/// What a query reads without being asked whether it may, by the oid of the relation.
pub(super) fn note(binder: &Binder, name: &TableReference, relation: &Relation) {
    if binder.acting.superuser || binder.unasked == Some(relation.oid()) {
        return;
    }
    let rights = binder.rights();
    if !rights.has(relation, privilege::SELECT) {
        let name = binder.noted_as.as_ref().unwrap_or(name);
        let open = (name.clone(), relation.oid(), binder.acting);
        binder.reads.open.lock().push(open);
    }
}

/// Refuses a plan that reads what its role may not; where it is only described, that is told when it runs.
pub(super) fn check(binder: &Binder, plan: &LogicalPlan) -> Result<()> {
    decide(binder, |name| columns_of(plan, name))
}

/// The same for an expression that is planned by itself: its queries.
pub(super) fn check_expression(binder: &Binder, expr: &Expr) -> Result<()> {
    decide(binder, |name| {
        let mut used = BTreeSet::new();
        note_expression(expr, name, &[], &[], &mut used);
        used
    })
}

fn decide(binder: &Binder, used: impl Fn(&TableReference) -> BTreeSet<String>) -> Result<()> {
    let open = std::mem::take(&mut *binder.reads.open.lock());
    for (name, oid, acting) in open {
        let Some(relation) = binder.snapshot.relation_by_oid(oid) else {
            continue;
        };
        let mut columns = used(&name);
        columns.retain(|column| !is_place(column));
        if binder.unread == Some(oid) && columns.is_empty() {
            continue;
        }
        let columns = columns.iter().map(String::as_str);
        let rights = Rights {
            state: &binder.snapshot,
            acting,
        };
        let asked = rights.check_columns(relation, privilege::SELECT, columns);
        refuse(binder, asked)?;
    }
    Ok(())
}

/// An answer about rights, which is told later where a statement is only described.
pub(super) fn refuse(binder: &Binder, answer: Result<()>) -> Result<()> {
    match answer {
        Err(error) if binder.describes => {
            binder.reads.denied.lock().get_or_insert(error);
            Ok(())
        }
        answer => answer,
    }
}

/// The columns that a plan uses of a relation under the name by which it was looked up.
fn columns_of(plan: &LogicalPlan, name: &TableReference) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    trace(plan, name, &[], &mut used);
    used
}

/// The same with those that it gives.
pub(super) fn uses(plan: &LogicalPlan, name: &TableReference) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let given = trace(plan, name, &[], &mut used);
    used.extend(given.into_iter().flatten());
    used
}

/// Which columns of the relation a plan's own columns are, where it hands them on as they are.
type Lineage = Vec<Option<String>>;

/// Gathers what a plan uses; `outer`: the plans around it, whose columns it may name.
fn trace<'a>(
    plan: &'a LogicalPlan,
    name: &TableReference,
    outer: &[(&'a LogicalPlan, Lineage)],
    used: &mut BTreeSet<String>,
) -> Lineage {
    let all = || -> Lineage {
        let fields = plan.schema().fields().iter();
        fields.map(|field| Some(field.name().clone())).collect()
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let is_it = scan.table_name.resolved_eq(name);
            return if is_it {
                all()
            } else {
                vec![None; plan.schema().fields().len()]
            };
        }
        // A view's query, under its name.
        LogicalPlan::SubqueryAlias(alias)
            if alias.alias.resolved_eq(name) && !matches!(alias.input.as_ref(), LogicalPlan::TableScan(_)) =>
        {
            return all();
        }
        _ => {}
    }
    let inputs: Vec<(&LogicalPlan, Lineage)> = plan
        .inputs()
        .into_iter()
        .map(|input| (input, trace(input, name, outer, used)))
        .collect();
    let _ = plan.apply_expressions(|expr| {
        note_expression(expr, name, &inputs, outer, used);
        Ok(TreeNodeRecursion::Continue)
    });
    let hands_on = matches!(
        plan,
        LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Repartition(_)
    );
    let width = plan.schema().fields().len();
    let mut lineage: Lineage = inputs.into_iter().flat_map(|(_, lineage)| lineage).collect();
    if hands_on {
        lineage.resize(width, None);
        return lineage;
    }
    // What goes through any other node is used by it.
    let computes = matches!(
        plan,
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Values(_)
    );
    if !computes {
        used.extend(lineage.into_iter().flatten());
    }
    vec![None; width]
}

/// What an expression over some plans names.
fn note_expression<'a>(
    expr: &'a Expr,
    name: &TableReference,
    inputs: &[(&'a LogicalPlan, Lineage)],
    outer: &[(&'a LogicalPlan, Lineage)],
    used: &mut BTreeSet<String>,
) {
    let _ = expr.apply(|expr| {
        match expr {
            Expr::Column(column) => note_column(column, inputs, used),
            Expr::OuterReferenceColumn(_, column) => note_column(column, outer, used),
            Expr::ScalarSubquery(query) => within(&query.subquery, name, inputs, outer, used),
            Expr::Exists(exists) => within(&exists.subquery.subquery, name, inputs, outer, used),
            Expr::InSubquery(query) => within(&query.subquery.subquery, name, inputs, outer, used),
            Expr::SetComparison(compared) => within(&compared.subquery.subquery, name, inputs, outer, used),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

/// A query in an expression.
fn within<'a>(
    plan: &'a LogicalPlan,
    name: &TableReference,
    inputs: &[(&'a LogicalPlan, Lineage)],
    outer: &[(&'a LogicalPlan, Lineage)],
    used: &mut BTreeSet<String>,
) {
    let around: Vec<(&LogicalPlan, Lineage)> = inputs.iter().chain(outer).cloned().collect();
    let given = trace(plan, name, &around, used);
    used.extend(given.into_iter().flatten());
}

fn note_column(column: &Column, inputs: &[(&LogicalPlan, Lineage)], used: &mut BTreeSet<String>) {
    for (input, lineage) in inputs {
        if let Ok(at) = input.schema().index_of_column(column) {
            used.extend(lineage.get(at).cloned().flatten());
            return;
        }
    }
}

/// What is told of the server's files.
fn files_denied() -> SqlError {
    refused("permission denied to read a file of the server")
        .detail("Only roles with privileges of the \"pg_read_server_files\" role may read files of the server.")
}

impl Binder {
    /// The rights that the names it binds are asked for.
    pub(crate) fn rights(&self) -> Rights<'_> {
        Rights {
            state: &self.snapshot,
            acting: self.acting,
        }
    }

    /// Refuses who does not own a type.
    pub(crate) fn check_owner_of_type(&self, oid: u32, schema: &str, name: &str) -> Result<()> {
        let is_found = self.facts.path.iter().any(|own| own == schema);
        let shown = if is_found {
            name.to_string()
        } else {
            format!("{schema}.{name}")
        };
        self.rights().check_owner_of(oid, "type", &shown)
    }

    /// Refuses who may not use a type of this database in what it makes.
    fn check_usage(&self, oid: u32) -> Result<()> {
        let name = || crate::catalog::system::type_name(self, oid.into()).unwrap_or_default();
        self.rights().check_type(oid, name)
    }

    /// The same of a type as it is declared; whether it is known is not asked.
    pub(crate) fn check_usage_of(&self, declared: &ast::DataType) -> Result<()> {
        self.check_schema_of_type(declared)?;
        match declared {
            ast::DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(item, _)
                | ast::ArrayElemTypeDef::AngleBracket(item)
                | ast::ArrayElemTypeDef::Parenthesis(item),
            ) => self.check_usage_of(item),
            ast::DataType::Custom(name, arguments) if arguments.is_empty() => {
                let found = self.type_named(super::parts(name), |object| object.secured());
                found.map_or(Ok(()), |(oid, _)| self.check_usage(oid))
            }
            _ => Ok(()),
        }
    }

    /// The same of the types of columns.
    pub(crate) fn check_usage_by<'c>(&self, columns: impl IntoIterator<Item = &'c ColumnDef>) -> Result<()> {
        for column in columns {
            let domain = column.domain.as_ref();
            let domain = domain.and_then(|(schema, name)| {
                self.type_named(vec![schema.clone(), name.clone()], |object| object.secured())
            });
            let item = match column.sql_type {
                SqlType::Array(of) => of.element(),
                of => of,
            };
            match (domain, item) {
                (Some((oid, _)), _) => self.check_usage(oid)?,
                (None, SqlType::Enum(of)) => self.check_usage(of.oid)?,
                // That of a table's rows is none of its own.
                (None, SqlType::Composite(of)) if self.snapshot.relation_by_oid(of.oid()).is_none() => {
                    self.check_usage(of.oid())?
                }
                (None, SqlType::Range(RangeType::User(of))) => self.check_usage(of.oid)?,
                (None, SqlType::Multirange(RangeType::User(of))) => self.check_usage(of.multirange_oid)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The same for what the server itself asks.
    pub(crate) fn trusted(mut self) -> Self {
        self.acting = crate::pg::identity::Acting::SYSTEM;
        self
    }

    /// The target of a statement, whose rows it finds without reading them for its client.
    pub(crate) fn without_asking(mut self, target: u32) -> Self {
        self.unasked = Some(target);
        self
    }

    /// The same where what it reads of its target counts.
    pub(crate) fn asking_of_columns(mut self, target: u32) -> Self {
        self.unread = Some(target);
        self
    }

    /// An answer about rights on what a statement names beside what it reads.
    pub(crate) fn answer(&self, answer: Result<()>) -> Result<()> {
        refuse(self, answer)
    }

    /// Files of the server are for superusers and those who were let.
    pub(crate) fn check_reads_files(&self) -> Result<()> {
        let may = self.rights().is_in(tenon_storage::roles::READ_SERVER_FILES);
        let answer = match may {
            true => Ok(()),
            false => Err(files_denied()),
        };
        refuse(self, answer)
    }

    /// System tables that tell what others must not know.
    pub(super) fn check_system_table(&self, name: &str) -> Result<()> {
        let kind = match name {
            "pg_authid" => "table",
            "pg_shadow" | "pg_hba_file_rules" | "pg_ident_file_mappings" | "pg_file_settings" => "view",
            _ => return Ok(()),
        };
        match self.acting.superuser {
            false => refuse(self, Err(denied(kind, name))),
            true => Ok(()),
        }
    }

    /// Whether a plan would be refused if it ran.
    pub(super) fn is_denied(&self) -> bool {
        self.describes && self.reads.is_denied()
    }
}
