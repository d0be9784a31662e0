//! Names to tables, views and functions: the planner's view of one snapshot through one session's search path.
//!
//! More than 400 lines because the planner asks one type for all of it.

mod aliases;
mod argument_fields;
mod as_role;
mod changed;
mod column_names;
mod combined;
mod composite;
mod determined;
mod expand;
mod functions;
mod grouped_apart;
mod hygiene;
mod inline;
mod lookup;
mod merged;
pub(crate) mod only;
mod order_keys;
mod outer_aggregates;
mod output_names;
mod partition;
mod physical;
mod places;
mod qualify;
mod reads;
mod records;
pub(crate) mod recursion;
mod relations;
mod returned_rows;
mod row_values;
mod sample;
mod schemas;
pub(crate) mod system_columns;
mod view;
mod whole_rows;
mod windows;
mod with;

pub(crate) use crate::pg::names::{fold, named_sequence, parts, refers_to};
pub(crate) use composite::{named_in_full, parsed as parsed_type};
pub(crate) use functions::{argument_type, overloads};
pub(crate) use inline::{DomainCondition, conditions_of, undefined_function, with_value};
pub(crate) use lookup::{Names, Target, relation_named, undefined};
pub(crate) use qualify::written;

use crate::catalog::files;
use crate::catalog::services::Services;
use crate::catalog::system;
use crate::pg::error::{Result as SqlResult, SqlError, state};
use crate::pg::errors::{from_datafusion, to_datafusion};
use crate::pg::functions::session::Facts;
use crate::pg::identity::Acting;
use crate::pg::parse::width;
use crate::pg::planning;
use crate::pg::rewrite::{combined, with_operators};
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenon_storage::DatabaseState;
use tenon_storage::load::FileFormat;

/// Views inside views: how deep.
const VIEW_DEPTH_MAX: usize = 64;

/// Relations that a statement names at most. Views of views grow by powers.
const RELATIONS_MAX: usize = 20_000;

/// Calls of functions in SQL: how deep in bodies of others, and of which.
type Calls = Arc<Mutex<Vec<(usize, u32)>>>;

/// What one statement binds its names with.
#[derive(Clone)]
pub(crate) struct Binder {
    pub services: Arc<Services>,
    /// The snapshot.
    pub snapshot: Arc<DatabaseState>,
    /// The data with the statement's own changes, where the snapshot is without them: volatile functions see it.
    changed: Option<Arc<DatabaseState>>,
    pub facts: Arc<Facts>,
    /// A table that shows its row positions too: the target of UPDATE and DELETE.
    pub positions_of: Option<u32>,
    /// It does not where a query within the statement reads it.
    pub hides_places: bool,
    /// A relation of this statement's own, found before all others under its bare name.
    pub overlay: Option<(String, Arc<dyn TableSource>)>,
    /// Rows that the changes in its WITH have returned.
    pub relations: Vec<(String, Arc<dyn TableSource>)>,
    /// Whose rights are asked for.
    pub acting: Acting,
    /// The statement is not run: what it may not read is told when it is.
    pub describes: bool,
    /// The target of a statement that may be read for it, or of which no column has to be.
    unasked: Option<u32>,
    unread: Option<u32>,
    reads: reads::Reads,
    /// Where names are looked up, where that is not along the session's path.
    searched: Option<Arc<[String]>>,
    /// How the plan calls the relation that is looked up, where that is not its name.
    noted_as: Option<TableReference>,
    /// The functions in SQL that what is planned calls, and how deep in bodies of others, where that is to be known.
    calls: Option<Calls>,
    depth: usize,
    /// Relations looked up so far, by views too.
    relations_named: Arc<AtomicUsize>,
    columns_of_views: view::ColumnsOfViews,
}

impl Binder {
    pub(crate) fn new(services: Arc<Services>, snapshot: Arc<DatabaseState>, facts: Arc<Facts>) -> Self {
        let acting = facts.acting;
        Self {
            acting,
            describes: false,
            unasked: None,
            unread: None,
            reads: reads::Reads::default(),
            noted_as: None,
            searched: None,
            calls: None,
            services,
            snapshot,
            changed: None,
            facts,
            positions_of: None,
            hides_places: false,
            overlay: None,
            relations: Vec::new(),
            depth: 0,
            relations_named: Arc::default(),
            columns_of_views: view::ColumnsOfViews::default(),
        }
    }

    /// Plans a statement that returns rows.
    pub(crate) fn plan(
        &self,
        mut statement: ast::Statement,
        parameters: Vec<Option<FieldRef>>,
    ) -> SqlResult<LogicalPlan> {
        planning::under_here(&self.facts.planning, || {
            only::resolve(self, &mut statement);
            with::prepare(self, &mut statement)?;
            system_columns::resolve(self, &mut statement)?;
            records::resolve(self, &mut statement)?;
            inline::inline(self, &mut statement, &parameters)?;
            places::hide(self, &mut statement);
            expand::expand(self, &mut statement)?;
            self.plan_expanded(statement, &parameters)
        })
    }

    fn plan_expanded(&self, mut statement: ast::Statement, parameters: &[Option<FieldRef>]) -> SqlResult<LogicalPlan> {
        loop {
            self.reads.forget();
            let error = match self.plan_once(statement.clone(), parameters.to_vec()) {
                Ok(plan) => {
                    reads::check(self, &plan)?;
                    // A row of VALUES was counted with the text, and may hold the rows of an INSERT.
                    if !matches!(plan, LogicalPlan::Values(_)) {
                        width::columns(plan.schema().fields().len())?;
                    }
                    return Ok(plan);
                }
                Err(error) => error,
            };
            let mut mistaken = aliases::mistaken(&error).into_iter();
            let renamed = mistaken.any(|name| aliases::rename(&mut statement, &name));
            if !renamed {
                // The client knows a renamed relation under its own name.
                let mut told = from_datafusion(&error);
                told.message = told.message.replace('\u{1}', "");
                told.hint = told.hint.map(|hint| hint.replace('\u{1}', "").into());
                return Err(told);
            }
        }
    }

    fn plan_once(&self, statement: ast::Statement, parameters: Vec<Option<FieldRef>>) -> Result<LogicalPlan> {
        let planner = SqlToRel::new_with_options(self, self.parser_options());
        let mut context = PlannerContext::new().with_prepare_param_data_types(parameters);
        let mut statement = with_operators(statement);
        let shown = combined(&mut statement);
        let plan = planner.sql_statement_to_plan_with_context(statement, &mut context)?;
        match shown {
            true => combined::without_shows(plan),
            false => Ok(plan),
        }
    }

    /// Plans an expression over the columns of `schema`.
    pub(crate) fn expression(&self, expr: ast::Expr, schema: &DFSchema) -> SqlResult<Expr> {
        self.expression_of(expr, schema, &[])
    }

    /// The same of one with parameters, as far as their types are known.
    pub(crate) fn expression_of(
        &self,
        mut expr: ast::Expr,
        schema: &DFSchema,
        parameters: &[Option<FieldRef>],
    ) -> SqlResult<Expr> {
        records::resolve(self, &mut expr)?;
        inline::inline(self, &mut expr, parameters)?;
        self.reads.forget();
        let planner = SqlToRel::new_with_options(self, self.parser_options());
        let mut context = PlannerContext::new().with_prepare_param_data_types(parameters.to_vec());
        let mut expr = with_operators(expr);
        combined(&mut expr);
        let expr = planner
            .sql_to_expr(expr, schema, &mut context)
            .map_err(|error| from_datafusion(&error))?;
        reads::check_expression(self, &expr)?;
        Ok(expr)
    }

    /// Whether a plan made by this binder may run in another statement on the same snapshot.
    pub(crate) fn reusable(&self) -> bool {
        !self.facts.used.load(Ordering::Relaxed) && !self.tells_time() && !self.is_denied()
    }

    /// Whether such a plan has the time in it.
    pub(crate) fn tells_time(&self) -> bool {
        self.facts.used_time.load(Ordering::Relaxed)
    }

    /// What FROM knows beside tables and subqueries.
    pub(crate) fn relation_planner() -> Arc<dyn RelationPlanner> {
        Arc::new(relations::Relations)
    }

    fn parser_options(&self) -> ParserOptions {
        ParserOptions::from(&self.services.state.config_options().sql_parser)
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names {
            snapshot: &self.snapshot,
            path: self.path(),
            database: &self.facts.info.database,
            // A view's names were looked up by who made it.
            acting: if self.depth > 0 { Acting::SYSTEM } else { self.acting },
        }
    }

    fn deeper(&self) -> SqlResult<Self> {
        if self.depth >= VIEW_DEPTH_MAX {
            return Err(SqlError::new(
                state::PROGRAM_LIMIT_EXCEEDED,
                "views are nested too deeply",
            ));
        }
        Ok(Self {
            depth: self.depth + 1,
            unasked: None,
            unread: None,
            reads: self.reads.within(),
            noted_as: None,
            calls: None,
            positions_of: None,
            overlay: None,
            relations: Vec::new(),
            ..self.clone()
        })
    }
}

/// The functions are one flat space here: one that an extension has put into `public` elsewhere is called so, too.
fn bare_function(name: &str) -> &str {
    let bare = name
        .strip_prefix("pg_catalog.")
        .or_else(|| name.strip_prefix("public."));
    bare.unwrap_or(name)
}

impl ContextProvider for Binder {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        planning::check().map_err(to_datafusion)?;
        let named = self.relations_named.fetch_add(1, Ordering::Relaxed);
        if named >= RELATIONS_MAX {
            let message =
                format!("the statement names more than {RELATIONS_MAX} relations, those of its views included");
            let error = SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message);
            return Err(to_datafusion(error));
        }
        lookup::source(self, &name).map_err(to_datafusion)
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let format = match name {
            "read_parquet" => Some(FileFormat::Parquet),
            "read_csv" | "read_csv_auto" => Some(FileFormat::Csv),
            "read_arrow" => Some(FileFormat::Arrow),
            _ => None,
        };
        if let Some(format) = format {
            let [Expr::Literal(path, _)] = args.as_slice() else {
                return Err(DataFusionError::Plan(format!("{name} takes the path of a file")));
            };
            let path = path.try_as_str().flatten().unwrap_or_default();
            self.check_reads_files().map_err(to_datafusion)?;
            let file = files::source(&self.services, &self.facts.cancel, path, format).map_err(to_datafusion)?;
            self.facts.used.store(true, std::sync::atomic::Ordering::Relaxed);
            return Ok(provider_as_source(Arc::new(file)));
        }
        let name = bare_function(name);
        let functions = self.services.state.table_functions();
        let function = functions.get(name).cloned().or_else(|| system::table_function(name));
        let missing = || DataFusionError::Plan(format!("table function '{name}' not found"));
        if function.is_none() && !system::gives_rows(name) {
            return Err(missing());
        }
        let simplifier = ExprSimplifier::new(
            SimplifyContext::builder()
                .with_config_options(self.services.state.config_options().clone())
                .build(),
        );
        let schema = DFSchema::empty();
        let conventions = self.facts.settings.conventions(None);
        let args = args.into_iter().map(|arg| {
            let arg = simplifier.coerce(arg, &schema)?;
            simplifier.simplify(crate::pg::semantics::of_constant(arg, &conventions)?)
        });
        let mut args = args.collect::<Result<Vec<_>>>()?;
        let constants = args.iter().map(|arg| arg.as_literal().cloned());
        if let Some(constants) = constants.collect::<Option<Vec<_>>>()
            && let Some(rows) = system::rows_of(self, name, &constants)
        {
            self.facts.used.store(true, std::sync::atomic::Ordering::Relaxed);
            return Ok(provider_as_source(rows?));
        }
        let function = function.ok_or_else(missing)?;
        for arg in &mut args {
            // These functions look at their arguments while planning, and know int8 alone.
            if let Expr::Literal(ScalarValue::Int32(value), _) = arg {
                *arg = Expr::Literal(ScalarValue::Int64(value.map(i64::from)), None);
            }
        }
        let arguments = TableFunctionArgs::new(&args, self.services.state.as_ref());
        Ok(provider_as_source(function.create_table_provider_with_args(arguments)?))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.services.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.services.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(composite::TypesOf(self.clone())))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let name = bare_function(name);
        self.facts.function(name).or_else(|| self.found_function(name))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.services.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.services
            .state
            .aggregate_functions()
            .get(bare_function(name))
            .cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.services.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.services.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.services.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.services.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.services.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.services.state.window_functions().keys().cloned().collect()
    }
}
