//! COPY between a table and the client or a file.

mod options;
mod sink;
pub(crate) mod syntax;

use super::constraints::Checks;
use super::{insert, query, select};
use crate::error::{Result, SqlError, state};
use crate::errors::from_datafusion;
use crate::files;
use crate::outcome::{CopyIn, CopyOut, Outcome};
use crate::run;
use crate::session::Session;
use crate::types::describe as describe_columns;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{self, Ident, SelectItem};
use options::Options;
use sink::{Destination, Sink};
use std::path::Path;
use std::sync::Arc;
use syntax::{Copy, Place, Source};
use tenon_storage::TableVersion;
use tenon_storage::load::{CopyFormat, CopyLoader, FileFormat, Target, load_file};

pub(super) async fn run(session: &mut Session, copy: &Copy) -> Result<Outcome> {
    match (&copy.source, copy.to, &copy.place) {
        (_, _, Place::Program) => Err(SqlError::unsupported("COPY with PROGRAM")),
        (Source::Relation(name, columns), false, place) => from(session, copy, name, columns, place).await,
        (_, true, Place::File(_)) => Err(SqlError::unsupported("COPY TO a file of the server")
            .hint("Use COPY TO STDOUT, or psql's \\copy, to write a file of the client.")),
        (Source::Relation(name, columns), true, _) => {
            // An unknown relation is told of before an unknown column.
            session.binder().names().relation(name)?;
            let items = if columns.is_empty() {
                vec![SelectItem::Wildcard(Default::default())]
            } else {
                let ident = |name: &String| ast::Expr::Identifier(Ident::with_quote('"', name));
                columns
                    .iter()
                    .map(|name| SelectItem::UnnamedExpr(ident(name)))
                    .collect()
            };
            let ast::Statement::Query(query) = select::over(name.clone(), items) else {
                return Err(SqlError::internal("COPY made no query"));
            };
            to(session, copy, &query).await
        }
        (Source::Query(query), _, _) => to(session, copy, query).await,
    }
}

async fn to(session: &mut Session, copy: &Copy, source: &ast::Query) -> Result<Outcome> {
    let plan = query::bound_plan(&session.binder(), source, &[], &[])?;
    let columns = describe_columns(&run::columns(&session.engine, &plan));
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let options = options::read(copy, CopyFormat::Text, &names)?;
    if options.file.is_some() {
        return Err(SqlError::unsupported("COPY TO STDOUT in the format of a file"));
    }
    let format = options.output(&names)?;
    let stream = run::start(&session.run(), plan).await?;
    Ok(Outcome::CopyOut(CopyOut {
        columns,
        stream,
        format,
    }))
}

async fn from(
    session: &mut Session,
    copy: &Copy,
    name: &ast::ObjectName,
    listed: &[String],
    place: &Place,
) -> Result<Outcome> {
    let binder = session.binder();
    let relation = binder.names().relation(name)?;
    let table = relation.as_table().cloned().ok_or_else(|| {
        SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("cannot copy to view \"{}\"", relation.name()),
        )
    })?;
    if table.definition().schema_name != session.temporary_schema() {
        session.check_writable("COPY FROM")?;
    }
    let columns = positions(&table, listed)?;
    let names: Vec<String> = columns
        .iter()
        .map(|at| table.definition().columns[*at].name.clone())
        .collect();
    let defaults = defaults(session, &table, &columns)?;
    let budget = session.engine.database().budget().clone();
    let destination = Destination {
        place: match session.block() {
            Some(block) => sink::Place::Block(block.transaction.clone()),
            None => sink::Place::Database(session.engine.database().clone()),
        },
        checks: Checks::of(&binder, table.definition())?,
    };
    match place {
        Place::Client => {
            let mut options = options::read(copy, CopyFormat::Text, &names)?;
            options.copy.conventions = session.conventions();
            if options.file.is_some() {
                return Err(SqlError::unsupported("COPY FROM STDIN in the format of a file")
                    .hint("Use COPY FROM '/path/of/the/file'."));
            }
            let binary = options.copy.format == CopyFormat::Binary;
            let loader = CopyLoader::new(table.definition(), &columns, defaults, options.copy, &budget)?;
            let sink = Sink::start(&session.engine, loader, destination, table.oid())?;
            Ok(Outcome::CopyIn(CopyIn {
                binary,
                columns: columns.len(),
                sink: Box::new(sink),
            }))
        }
        Place::File(path) => {
            let path = files::allowed(&session.engine, path)?;
            let guessed = FileFormat::of_path(&path);
            let default = if guessed == Some(FileFormat::Csv) {
                CopyFormat::Csv
            } else {
                CopyFormat::Text
            };
            let mut options = options::read(copy, default, &names)?;
            options.copy.conventions = session.conventions();
            let load = FileLoad {
                table,
                columns,
                defaults,
                budget,
                options,
                guessed,
            };
            let cancel = session.cancel().clone();
            let rows = files::in_background(&session.engine, &cancel, move || load.run(&path, &destination)).await?;
            Ok(Outcome::Command(format!("COPY {rows}")))
        }
        Place::Program => Err(SqlError::unsupported("COPY with PROGRAM")),
    }
}

/// COPY FROM a file of the server.
struct FileLoad {
    table: Arc<TableVersion>,
    columns: Vec<usize>,
    defaults: Vec<Option<ArrayRef>>,
    budget: Arc<tenon_storage::MemoryBudget>,
    options: Options,
    guessed: Option<FileFormat>,
}

impl FileLoad {
    fn run(self, path: &Path, destination: &Destination) -> Result<u64> {
        let format = match (
            self.options.file,
            self.options.format_given || self.options.dialect_given,
        ) {
            (Some(format), _) => format,
            (None, true) => FileFormat::Csv,
            (None, false) => self.guessed.unwrap_or(FileFormat::Csv),
        };
        let target = Target {
            definition: self.table.definition(),
            columns: &self.columns,
            defaults: self.defaults,
            budget: &self.budget,
        };
        // `FileFormat::Csv` stands for COPY's formats; which one the options say.
        let loaded = load_file(path, format, self.options.copy, target, &|_, _| {})?;
        destination.publish(self.table.oid(), loaded.segments)?;
        Ok(loaded.rows)
    }
}

/// The table's positions of the columns that the statement lists.
fn positions(table: &TableVersion, listed: &[String]) -> Result<Vec<usize>> {
    let definition = table.definition();
    let mut positions = Vec::new();
    for name in listed {
        let at = definition.column_index(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", definition.name);
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })?;
        if positions.contains(&at) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        positions.push(at);
    }
    if listed.is_empty() {
        positions = (0..definition.columns.len()).collect();
    }
    Ok(positions)
}

/// The value of each column that the data does not fill, as an array of one; None is NULL.
fn defaults(session: &Session, table: &TableVersion, filled: &[usize]) -> Result<Vec<Option<ArrayRef>>> {
    let binder = session.binder();
    let context = SimplifyContext::builder().with_config_options(session.engine.state.config_options().clone());
    let simplifier = ExprSimplifier::new(context.build());
    let schema = DFSchema::empty();
    let columns = table.definition().columns.iter().enumerate();
    let value = |(at, column): (usize, &tenon_storage::ColumnDef)| {
        if filled.contains(&at) || column.default.is_none() {
            return Ok(None);
        }
        let expr = insert::default_value(&binder, column)?;
        let expr = simplifier
            .coerce(expr, &schema)
            .and_then(|expr| simplifier.simplify(expr));
        match expr.map_err(|error| from_datafusion(&error))? {
            Expr::Literal(ScalarValue::Null, _) => Ok(None),
            Expr::Literal(value, _) => Ok(Some(value.to_array().map_err(|error| from_datafusion(&error))?)),
            _ => Err(SqlError::unsupported(format!(
                "COPY that leaves column \"{}\" to a DEFAULT that differs from row to row",
                column.name
            ))),
        }
    };
    columns.map(value).collect()
}
