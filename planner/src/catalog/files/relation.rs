//! `FROM 'file.parquet'`, `read_parquet('file')`: a file as a relation. It is loaded when a query's plan is made, only
//! the columns that the query reads.

use super::{allowed, in_background};
use crate::catalog::services::Services;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::to_datafusion;
use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{self, GroupByExpr, ObjectName, Query, SelectItem, SetExpr, TableFactor};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenon_executor::scan::SegmentTable;
use tenon_storage::load::{CopyOptions, FileFormat, Target, file_columns, load_file};
use tenon_storage::{ColumnDef, Database, TableDef, TableVersion};
use tokio_util::sync::CancellationToken;

/// A file with the columns that its beginning tells of.
#[derive(Clone)]
pub(crate) struct FileTable {
    services: Arc<Services>,
    cancel: CancellationToken,
    path: PathBuf,
    format: FileFormat,
    pub columns: Vec<ColumnDef>,
    options: CopyOptions,
    schema: SchemaRef,
}

impl fmt::Debug for FileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTable")
            .field("path", &self.path)
            .field("format", &self.format)
            .finish()
    }
}

/// The format that a relation's name in FROM has, where the name is a file's.
pub(crate) fn named(name: &str) -> Option<FileFormat> {
    FileFormat::of_path(Path::new(name))
}

/// Opens a file to read its columns.
pub(crate) fn source(
    services: &Arc<Services>,
    cancel: &CancellationToken,
    path: &str,
    format: FileFormat,
) -> Result<FileTable> {
    let path = allowed(services, path)?;
    let (columns, options) = file_columns(&path, format, None)?;
    let fields: Vec<_> = columns
        .iter()
        .map(|column| column.sql_type.field(&column.name, true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    Ok(FileTable {
        services: services.clone(),
        cancel: cancel.clone(),
        path,
        format,
        columns,
        options,
        schema,
    })
}

/// The file's name where a query is `SELECT * FROM 'file'` and nothing more: such a file can become a table directly.
pub(crate) fn whole(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.distinct.is_none()
        && select.into.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, modifiers) if keys.is_empty() && modifiers.is_empty());
    let star =
        matches!(select.projection.as_slice(), [SelectItem::Wildcard(options)] if *options == Default::default());
    let [from] = select.from.as_slice() else { return None };
    match &from.relation {
        TableFactor::Table {
            name: ObjectName(parts),
            alias: None,
            args: None,
            sample: None,
            ..
        } if bare && star && from.joins.is_empty() => match parts.as_slice() {
            [ast::ObjectNamePart::Identifier(ident)] if ident.quote_style == Some('\'') => Some(ident.value.clone()),
            _ => None,
        },
        _ => None,
    }
}

impl FileTable {
    /// Loads the named columns into a table of no catalog.
    fn load(&self, columns: Vec<ColumnDef>) -> Result<Arc<TableVersion>> {
        // CSV fields are found by position: the ones not wanted are read all the same.
        let columns = if self.format == FileFormat::Csv {
            self.columns.clone()
        } else {
            columns
        };
        let budget = self.services.database.budget();
        let apart = Database::new(budget.clone());
        let mut transaction = apart.begin();
        let table = transaction.create_table(
            "public",
            "file",
            TableDef {
                columns,
                ..TableDef::default()
            },
        )?;
        let all: Vec<usize> = (0..table.definition().columns.len()).collect();
        let defaults = vec![None; all.len()];
        let target = Target {
            definition: table.definition(),
            columns: &all,
            defaults,
            budget,
        };
        let loaded = load_file(&self.path, self.format, self.options.clone(), target, &|_, _| {})?;
        transaction.append(table.oid(), loaded.segments)?;
        let loaded = transaction.state().table_by_oid(table.oid()).cloned();
        loaded.ok_or_else(|| SqlError::new(state::INTERNAL_ERROR, "the file's table is lost"))
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let wanted = projection.unwrap_or(&all).clone();
        // A table has at least one column, also where only rows are counted.
        let loaded: Vec<usize> = if wanted.is_empty() { vec![0] } else { wanted.clone() };
        let columns = loaded.iter().map(|at| self.columns[*at].clone()).collect();
        let own = self.clone();
        let table = in_background(&self.services, &self.cancel, move || own.load(columns))
            .await
            .map_err(to_datafusion)?;
        let position = |at: &usize| {
            if self.format == FileFormat::Csv {
                Some(*at)
            } else {
                loaded.iter().position(|l| l == at)
            }
        };
        let projected: Vec<usize> = wanted.iter().filter_map(position).collect();
        SegmentTable::new(table)
            .scan(state, Some(&projected), filters, limit)
            .await
    }
}

impl FileTable {
    /// Loads the whole file into a table of the catalog that has its columns; gives its segments.
    pub(crate) fn segments_for(&self, table: &TableVersion) -> Result<tenon_storage::load::Loaded> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let budget = self.services.database.budget();
        let defaults = vec![None; all.len()];
        let target = Target {
            definition: table.definition(),
            columns: &all,
            defaults,
            budget,
        };
        Ok(load_file(
            &self.path,
            self.format,
            self.options.clone(),
            target,
            &|_, _| {},
        )?)
    }
}
