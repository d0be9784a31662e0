//! COPY between a table and the client or a file.

mod fill;
mod options;
mod sink;

use super::row_locks::Patience;
use super::{defaults, insert, permitted, query, select, updatable, with};
use crate::catalog::files;
use crate::catalog::services::Work;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::{BatchStream, CopyIn, CopyOut, CopyPlace, CopyProgress, Outcome};
use crate::pg::parse::copy::{Copy, CopyEndpoint, Source};
use crate::pg::statement::Kind;
use crate::pg::types::describe as describe_columns;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::sql::sqlparser::ast::{self, Ident, SelectItem, SetExpr};
use fill::Fill;
use futures::StreamExt;
use options::Options;
use sink::{Destination, Sink};
use std::path::Path;
use std::sync::Arc;
use tenon_storage::load::{CopyFormat, CopyLoader, FileFormat, Header, Target, load_file};
use tenon_storage::{Generated, Relation, TableDefinition, TableVersion, privilege};

pub(super) async fn run(session: &mut Session, prepared: &Prepared, copy: &Copy) -> Result<Outcome> {
    if copy.to && copy.filter.is_some() {
        return Err(SqlError::new(
            state::SYNTAX_ERROR,
            "WHERE clause not allowed with COPY TO",
        ));
    }
    match (&copy.source, copy.to, &copy.place) {
        (_, _, CopyEndpoint::Program) => Err(SqlError::unsupported("COPY with PROGRAM")),
        (Source::Relation(name, columns), false, place) => from(session, copy, name, columns, place).await,
        (_, true, CopyEndpoint::File(_)) => Err(SqlError::unsupported("COPY TO a file of the server")
            .hint("Use COPY TO STDOUT, or psql's \\copy, to write a file of the client.")),
        (Source::Relation(name, columns), true, _) => {
            // An unknown relation is told of before an unknown column.
            let binder = session.binder();
            let relation = binder.names().relation(name)?;
            refuse_copy_to(relation)?;
            let oid = relation.oid();
            if is_divided(relation) {
                let message = format!("cannot copy from partitioned table \"{}\"", relation.name());
                return Err(
                    SqlError::new(state::WRONG_OBJECT_TYPE, message).hint("Try the COPY (SELECT ...) TO variant.")
                );
            }
            let columns = &match relation.as_table() {
                Some(table) if columns.is_empty() && !defaults::computes(table.definition()) => Vec::new(),
                Some(table) => {
                    let at = positions(table, columns)?.into_iter();
                    at.map(|at| table.definition().columns[at].name.clone()).collect()
                }
                None => columns.clone(),
            };
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
            to(session, copy, &query, oid).await
        }
        (Source::Query(query), _, _) if prepared.statement.may_lock || changes(query) => {
            changed(session, prepared, copy, &ast::Statement::Query(query.clone())).await
        }
        (Source::Query(query), _, _) => to(session, copy, query, 0).await,
        (Source::Change(statement), _, _) => changed(session, prepared, copy, statement).await,
    }
}

/// Whether a query is a change with a WITH before it, or has one in its WITH.
fn changes(query: &ast::Query) -> bool {
    let in_with = query.with.iter().any(|with| with.cte_tables.iter().any(with::changes));
    let is_change = |body: &SetExpr| {
        matches!(
            body,
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        )
    };
    in_with || is_change(&query.body)
}

/// `COPY (INSERT ... RETURNING ...) TO`
async fn changed(
    session: &mut Session,
    prepared: &Prepared,
    copy: &Copy,
    statement: &ast::Statement,
) -> Result<Outcome> {
    let kind = Kind::Sql(Box::new(statement.clone()));
    let inner = Prepared::without_parameters(prepared.statement.with_kind(kind));
    let outcome = Box::pin(super::run_tree(session, &inner, statement, &[])).await?;
    let Outcome::Rows { columns, stream, .. } = outcome else {
        return Err(SqlError::unsupported_as("COPY query must have a RETURNING clause"));
    };
    options::check_encoding(session, copy)?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let format = options::read(copy, CopyFormat::Text, &names)?.output(&names)?;
    let (stream, progress) = watched(session, stream, 0);
    Ok(Outcome::CopyOut(CopyOut {
        columns,
        stream,
        format,
        progress,
    }))
}

/// Rows that others see going to the client.
fn watched(session: &Session, stream: BatchStream, relation: u32) -> (BatchStream, Arc<CopyProgress>) {
    let progress = Arc::<CopyProgress>::default();
    let working = session.backend.works(Work::Copy {
        relation,
        from: false,
        total_bytes: 0,
        progress: progress.clone(),
    });
    let stream = stream.map(move |batch| {
        let _ = &working;
        batch
    });
    (stream.boxed(), progress)
}

async fn to(session: &mut Session, copy: &Copy, source: &ast::Query, relation: u32) -> Result<Outcome> {
    options::check_encoding(session, copy)?;
    let plan = query::bound_plan(&session.binder(), source, &[], &[])?;
    let columns = describe_columns(session.columns(&plan)?.as_ref());
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let options = options::read(copy, CopyFormat::Text, &names)?;
    if options.file.is_some() {
        return Err(SqlError::unsupported("COPY TO STDOUT in the format of a file"));
    }
    let format = options.output(&names)?;
    let stream = run::start(&session.run(), plan).await?;
    let (stream, progress) = watched(session, stream, relation);
    Ok(Outcome::CopyOut(CopyOut {
        columns,
        stream,
        format,
        progress,
    }))
}

async fn from(
    session: &mut Session,
    copy: &Copy,
    name: &ast::ObjectName,
    listed: &[String],
    place: &CopyEndpoint,
) -> Result<Outcome> {
    let binder = session.binder();
    let relation = binder.names().relation(name)?;
    let through = match relation {
        Relation::Partition(partition) => Some(updatable::of_partition(&binder, partition)?),
        _ => None,
    };
    let table = through.as_ref().map(|through| &through.table).or(relation.as_table());
    let table = table.cloned().ok_or_else(|| {
        SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("cannot copy to {} \"{}\"", relation.kind(), relation.name()),
        )
    })?;
    // A partition has its columns in an order of its own.
    let own: Vec<String> = match (&through, listed) {
        (Some(through), []) => {
            let computed = |name: &String| {
                let definition = table.definition();
                let at = definition.column_index(name);
                at.is_some_and(|at| definition.columns[at].generated == Some(Generated::Stored))
            };
            let names = through.columns.iter().map(|(name, _)| name.clone());
            names.filter(|name| !computed(name)).collect()
        }
        _ => listed.to_vec(),
    };
    let listed = own.as_slice();
    insert::refuse_materialized(table.definition())?;
    if table.definition().schema_name != session.temporary_schema() {
        session.check_writable("COPY FROM")?;
    }
    let columns = positions(&table, listed)?;
    let names = columns.iter().map(|at| table.definition().columns[*at].name.clone());
    let names: Vec<String> = names.collect();
    permitted::columns(&binder, relation, privilege::INSERT, names.iter().map(String::as_str))?;
    let (defaults, late) = constants(session, &table, &columns)?;
    let budget = session.engine.database().budget().clone();
    let fill = Fill::of(&binder, table.definition(), &late, copy.filter.as_ref(), &budget)?;
    let loaded = fill.as_ref().map_or(table.definition(), Fill::loaded).clone();
    let destination = Destination {
        place: match session.block() {
            Some(block) => sink::PublishTarget::Block(block.transaction.clone(), session.keeps_snapshot()),
            None => sink::PublishTarget::Database(session.engine.database().clone(), session.settings.is_replica()),
        },
        checks: updatable::checks(session, through.as_ref(), &binder, table.definition())?,
        fill,
        patience: Patience::of(session),
        table: relation.name().to_owned(),
    };
    let progress = Arc::<CopyProgress>::default();
    let work = |total_bytes: u64| Work::Copy {
        relation: table.oid(),
        from: true,
        total_bytes,
        progress: progress.clone(),
    };
    match place {
        CopyEndpoint::Client => {
            options::check_encoding(session, copy)?;
            let mut options = options::read(copy, CopyFormat::Text, &names)?;
            options.copy.conventions = session.conventions();
            if options.file.is_some() {
                return Err(SqlError::unsupported("COPY FROM STDIN in the format of a file")
                    .hint("Use COPY FROM '/path/of/the/file'."));
            }
            let binary = options.copy.format == CopyFormat::Binary;
            let place = CopyPlace {
                table: relation.name().to_owned(),
                has_header: options.copy.header != Header::Absent,
                progress: progress.clone(),
            };
            let store = session.engine.database().store();
            let loader = CopyLoader::new(&loaded, &columns, defaults, options.copy, &budget)?.written_to(store);
            let working = session.backend.works(work(0));
            let sink = Sink::start(
                &session.engine,
                loader,
                destination,
                table.oid(),
                (progress.clone(), working),
            )?;
            Ok(Outcome::CopyIn(CopyIn {
                binary,
                columns: columns.len(),
                sink: Box::new(sink),
                place,
            }))
        }
        CopyEndpoint::File(path) => {
            let rights = binder.rights();
            if !rights.is_in(tenon_storage::roles::READ_SERVER_FILES) {
                let message =
                    "must be superuser or have privileges of the pg_read_server_files role to COPY from a file";
                return Err(crate::catalog::rights::refused(message)
                    .hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."));
            }
            let path = files::allowed(&session.engine.services, path)?;
            let guessed = FileFormat::of_path(&path);
            let default = if guessed == Some(FileFormat::Csv) {
                CopyFormat::Csv
            } else {
                CopyFormat::Text
            };
            let mut options = options::read(copy, default, &names)?;
            options.copy.conventions = session.conventions();
            let bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
            let _working = session.backend.works(work(bytes));
            let load = FileLoad {
                progress: progress.clone(),
                table,
                loaded,
                columns,
                defaults,
                budget,
                options,
                guessed,
            };
            let cancel = session.cancel().clone();
            let rows =
                files::in_background(&session.engine.services, &cancel, move || load.run(&path, &destination)).await?;
            Ok(Outcome::Command(format!("COPY {rows}")))
        }
        CopyEndpoint::Program => Err(SqlError::unsupported("COPY with PROGRAM")),
    }
}

fn is_divided(relation: &Relation) -> bool {
    match relation {
        Relation::Table(table) => table.definition().partitioning.is_some(),
        Relation::Partition(partition) => partition.partitioning.is_some(),
        Relation::View(_) | Relation::Sequence(_) => false,
    }
}

/// COPY TO reads tables; others by a query.
fn refuse_copy_to(relation: &Relation) -> Result<()> {
    let kind = relation.kind();
    if kind == "table" {
        return Ok(());
    }
    let message = format!("cannot copy from {kind} \"{}\"", relation.name());
    let error = SqlError::new(state::WRONG_OBJECT_TYPE, message);
    Err(match kind {
        "sequence" => error,
        _ => error.hint("Try the COPY (SELECT ...) TO variant."),
    })
}

/// COPY FROM a file of the server.
struct FileLoad {
    table: Arc<TableVersion>,
    /// What the loader writes.
    loaded: Arc<TableDefinition>,
    columns: Vec<usize>,
    defaults: Vec<Option<ArrayRef>>,
    budget: Arc<tenon_storage::MemoryBudget>,
    options: Options,
    guessed: Option<FileFormat>,
    progress: Arc<CopyProgress>,
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
            definition: &self.loaded,
            columns: &self.columns,
            defaults: self.defaults,
            budget: &self.budget,
        };
        // `FileFormat::Csv` stands for COPY's formats; which one the options say.
        let progress = |bytes: u64, _: u64| self.progress.set_bytes(bytes);
        let loaded = load_file(path, format, self.options.copy, target, &progress)?;
        destination.publish(self.table.oid(), loaded)
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
    let is_computed = |at: &usize| definition.columns[*at].generated == Some(Generated::Stored);
    if let Some(at) = positions.iter().copied().find(is_computed) {
        let message = format!("column \"{}\" is a generated column", definition.columns[at].name);
        return Err(
            SqlError::new(state::INVALID_COLUMN_REFERENCE, message).detail("Generated columns cannot be used in COPY.")
        );
    }
    if listed.is_empty() {
        positions = (0..definition.columns.len()).filter(|at| !is_computed(at)).collect();
    }
    Ok(positions)
}

/// The value of each column that the data does not fill, as an array of one; None is NULL. Beside them, the columns whose
/// values are not all the same.
fn constants(session: &Session, table: &TableVersion, filled: &[usize]) -> Result<(Vec<Option<ArrayRef>>, Vec<usize>)> {
    let binder = session.binder();
    let definition = table.definition();
    let (mut values, mut late) = (Vec::new(), Vec::new());
    for (at, column) in definition.columns.iter().enumerate() {
        let is_null = column.default.is_none() && column.generated.is_none() && column.domain.is_none();
        if filled.contains(&at) || is_null || column.generated == Some(Generated::Stored) {
            values.push(None);
            continue;
        }
        let expr = defaults::value(&binder, definition, column)?;
        // One that cannot be computed fails with the first row that needs it.
        let value = match expr.is_volatile() {
            true => None,
            false => binder.constant(expr).ok(),
        };
        if value.is_none() {
            late.push(at);
        }
        values.push(value.filter(|value| !value.data_type().is_null()));
    }
    Ok((values, late))
}
