//! Functions about the session itself: who, where, when. Most are known when the statement is planned.
//!
//! More than 400 lines because the functions of a session are told apart by their names in one place.

use super::addresses;
use super::advisory;
use super::backends::{reloaded, stopped};
use super::constant::{ConstantFunction, as_void};
use super::exported::Exporter;
use super::notify::{CHANNELS, Pending, texts};
use super::open::{Clients, Listed};
use super::seeded::{self, Seed};
use super::sequence::Taken;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::identity::{Acting, Identity};
use crate::pg::planning;
use crate::pg::settings::{SessionInfo, Settings, unrecognized};
use crate::pg::tasks::elsewhere;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenon_storage::datetime::{DAY_US, Template, timestamp_to_char, timetz_bytes};
use tenon_storage::{DatabaseState, Relation};
use tokio_util::sync::CancellationToken;

/// What a statement's functions may know of its session.
#[derive(Debug)]
pub(crate) struct Facts {
    pub info: Arc<SessionInfo>,
    pub settings: Settings,
    /// What RESET goes back to.
    pub startup: Settings,
    /// Where those come from that are not the server's, by their names.
    pub sources: Arc<BTreeMap<String, &'static str>>,
    /// Schemas in which names are looked up, those that exist.
    pub path: Arc<[String]>,
    pub snapshot: Arc<DatabaseState>,
    /// What the session has taken from sequences.
    pub taken: Arc<Mutex<Taken>>,
    pub seed: Arc<Seed>,
    /// When the transaction and the statement began: microseconds since 1970, UTC.
    pub transaction_start_us: i64,
    /// When the server began.
    pub server_start_us: i64,
    pub statement_start_us: i64,
    /// What functions warn of, told after the statement.
    pub warnings: Arc<Mutex<Vec<String>>>,
    /// Calls of `set_config`, carried out after the statement: name, value, only for the transaction.
    pub assignments: Arc<Mutex<Vec<(String, String, bool)>>>,
    /// How many dimensions the arrays have that parameters are given; empty: as their types say.
    pub dimensions: Arc<[usize]>,
    pub clients: Option<Arc<dyn Clients>>,
    /// The session's cursors and prepared statements.
    pub listed: Arc<Listed>,
    /// What the transaction asks of notifications, carried out when it commits.
    pub notifications: Arc<Pending>,
    /// The session's advisory locks.
    pub advisory: Arc<advisory::Owner>,
    pub cancel: CancellationToken,
    pub identity: Arc<Identity>,
    /// Who acts.
    pub acting: Acting,
    /// What ends the planning of the statement.
    pub planning: planning::Statement,
    /// Whether the plan has a value of this statement in it, so that it cannot serve another.
    pub used: AtomicBool,
    /// Whether it has the time in it, or takes values of sequences: what each run has anew.
    pub used_time: AtomicBool,
    /// What hands the transaction's snapshot on.
    pub exporter: Exporter,
    /// How a relation is found by its name in a string.
    pub relation_named: RelationNamed,
}

/// Finds a relation of the snapshot along the path; 42P01 where there is none.
pub(crate) type RelationNamed = for<'a> fn(&'a Facts, &str) -> Result<&'a Relation, SqlError>;

/// Those of a statement are its own: functions of two statements differ.
impl PartialEq for Facts {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Facts {}

impl Hash for Facts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl Facts {
    /// The search path's schemas that exist; `all`: also those that are searched without being named there.
    fn schemas(&self, all: bool) -> Vec<String> {
        let named = self.settings.search_path(&self.settings.current_user(&self.info.user));
        let has = |name: &str| named.iter().any(|named| named == name);
        let temporary = |name: &String| name.starts_with("pg_temp_");
        let mut schemas = Vec::new();
        if all && !has("pg_temp") {
            schemas.extend(self.path.iter().find(|name| temporary(name)).cloned());
        }
        if all && !has("pg_catalog") {
            schemas.push("pg_catalog".into());
        }
        schemas.extend(named.iter().filter_map(|name| match name.as_str() {
            "pg_temp" => self.path.iter().find(|name| temporary(name)).cloned(),
            "pg_catalog" => Some(name.clone()),
            _ => self.path.contains(name).then(|| name.clone()),
        }));
        schemas
    }

    /// What a function of this name says of the time of the transaction or of the statement, or of who runs it where.
    pub(crate) fn moment(&self, name: &str) -> Option<ScalarValue> {
        let time = |us: i64| Some(ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into())));
        let text = |value: &str| Some(ScalarValue::Utf8View(Some(value.into())));
        let zone = || self.settings.conventions(None).zone;
        let local = || {
            let now = self.transaction_start_us;
            zone().to_local(now).unwrap_or(now)
        };
        let of_day = || local().rem_euclid(DAY_US);
        match name {
            "now" | "current_timestamp" | "transaction_timestamp" => time(self.transaction_start_us),
            "statement_timestamp" => time(self.statement_start_us),
            "localtimestamp" => Some(ScalarValue::TimestampMicrosecond(Some(local()), None)),
            "current_date" => Some(ScalarValue::Date32(Some(local().div_euclid(DAY_US) as i32))),
            "localtime" => Some(ScalarValue::Time64Microsecond(Some(of_day()))),
            "current_time" => {
                let bytes = timetz_bytes(of_day(), zone().east_at(self.transaction_start_us));
                Some(ScalarValue::FixedSizeBinary(bytes.len() as i32, Some(bytes.to_vec())))
            }
            "version" => text(&format!(
                "PostgreSQL {} on {}-linux (Tenon {})",
                crate::pg::settings::SERVER_VERSION,
                std::env::consts::ARCH,
                env!("CARGO_PKG_VERSION")
            )),
            "current_schema" => match crate::pg::names::created_in(&self.schemas(false)) {
                Some(schema) => text(schema),
                None => Some(ScalarValue::Utf8View(None)),
            },
            "getdatabaseencoding" => text("UTF8"),
            "pg_client_encoding" => text(&self.settings.get("client_encoding").unwrap_or_default()),
            "current_database" | "current_catalog" => text(&self.info.database),
            "current_user" | "user" | "current_role" => text(&self.settings.current_user(&self.info.user)),
            "session_user" => text(&self.settings.session_user(&self.info.user)),
            "pg_backend_pid" => Some(ScalarValue::Int32(Some(self.info.process_id))),
            "pg_postmaster_start_time" | "pg_conf_load_time" => time(self.server_start_us),
            "pg_is_in_recovery" | "pg_is_wal_replay_paused" => Some(ScalarValue::Boolean(Some(false))),
            _ => None,
        }
    }

    /// The function of that name, if it is one of the session's.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Option<Arc<ScalarUDF>> {
        if let Some(moment) = self.moment(name) {
            self.used_time.store(true, Ordering::Relaxed);
            return Some(ConstantFunction::udf(name, moment));
        }
        let text = |value: &str| Some(ScalarValue::Utf8View(Some(value.into())));
        let value = match name {
            "timeofday" => {
                let local = self.settings.conventions(None).zone.at(now_us());
                let clock = now_us() + i64::from(local.east_s) * 1_000_000;
                let pattern = Template::of("Dy Mon DD HH24:MI:SS.US YYYY TZ");
                let shown = timestamp_to_char(clock, Some(&local), &pattern).ok().flatten();
                text(&shown.unwrap_or_default())
            }
            "pg_export_snapshot" => Some(ScalarValue::Utf8View(self.exporter.export())),
            "txid_current" => Some(ScalarValue::Int64(Some(self.transaction_start_us))),
            "pg_my_temp_schema" => Some(ScalarValue::Int32(Some(0))),
            _ => addresses::value(name, self.info.ends),
        };
        if let Some(value) = value {
            self.used.store(true, Ordering::Relaxed);
            return Some(ConstantFunction::udf(name, value));
        }
        if name == "pg_notify" {
            self.used.store(true, Ordering::Relaxed);
            return Some(super::notify::function(self));
        }
        let function = super::sequence::function(self, name).or_else(|| advisory::function(self, name));
        let function = function.or_else(|| seeded::function(self, name));
        if let Some(function) = function {
            let mark = match super::sequence::is_next(&function) {
                true => &self.used_time,
                false => &self.used,
            };
            mark.store(true, Ordering::Relaxed);
            return Some(function);
        }
        let kind = match name {
            "current_setting" => Kind::CurrentSetting,
            "set_config" => Kind::SetConfig,
            "pg_sleep" => Kind::Sleep,
            "current_schemas" => Kind::CurrentSchemas,
            CHANNELS => Kind::Channels,
            "pg_cancel_backend" => Kind::Cancel,
            "pg_terminate_backend" => Kind::Terminate,
            "pg_reload_conf" => Kind::Reload,
            _ => return None,
        };
        self.used.store(true, Ordering::Relaxed);
        Some(Arc::new(ScalarUDF::new_from_impl(SessionFunction {
            facts: self.clone(),
            kind,
            signature: kind.signature(),
        })))
    }
}

pub(crate) fn now_us() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    CurrentSetting,
    SetConfig,
    Sleep,
    CurrentSchemas,
    Channels,
    Cancel,
    Terminate,
    Reload,
}

impl Kind {
    fn signature(self) -> Signature {
        let exact = TypeSignature::Exact;
        let text = DataType::Utf8View;
        match self {
            Kind::CurrentSetting => Signature::one_of(
                vec![exact(vec![text.clone()]), exact(vec![text, DataType::Boolean])],
                Volatility::Volatile,
            ),
            Kind::SetConfig => Signature::exact(vec![text.clone(), text, DataType::Boolean], Volatility::Volatile),
            Kind::Sleep => Signature::exact(vec![DataType::Float64], Volatility::Volatile),
            Kind::CurrentSchemas => Signature::exact(vec![DataType::Boolean], Volatility::Stable),
            Kind::Reload => Signature::nullary(Volatility::Volatile),
            Kind::Channels => Signature::nullary(Volatility::Stable),
            // A number that is written is an int8 here.
            Kind::Cancel => Signature::one_of(
                vec![exact(vec![DataType::Int32]), exact(vec![DataType::Int64])],
                Volatility::Volatile,
            ),
            // How long it may wait for the end, in milliseconds: the answer does not wait.
            Kind::Terminate => Signature::one_of(
                vec![
                    exact(vec![DataType::Int32]),
                    exact(vec![DataType::Int64]),
                    exact(vec![DataType::Int32, DataType::Int64]),
                    exact(vec![DataType::Int64, DataType::Int64]),
                ],
                Volatility::Volatile,
            ),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SessionFunction {
    facts: Arc<Facts>,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for SessionFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::CurrentSetting => "current_setting",
            Kind::SetConfig => "set_config",
            Kind::Sleep => "pg_sleep",
            Kind::CurrentSchemas => "current_schemas",
            Kind::Channels => CHANNELS,
            Kind::Cancel => "pg_cancel_backend",
            Kind::Terminate => "pg_terminate_backend",
            Kind::Reload => "pg_reload_conf",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::CurrentSchemas | Kind::Channels => DataType::new_list(DataType::Utf8View, true),
            Kind::Cancel | Kind::Terminate | Kind::Reload => DataType::Boolean,
            _ => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match self.kind {
            Kind::Sleep => as_void(field),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let text = |at: usize| -> Result<ArrayRef> { Ok(cast(&args.args[at].to_array(rows)?, &DataType::Utf8View)?) };
        let flag =
            |at: usize| -> Result<Option<ArrayRef>> { args.args.get(at).map(|value| value.to_array(rows)).transpose() };
        match self.kind {
            Kind::CurrentSetting => {
                let (names, missing_ok) = (text(0)?, flag(1)?);
                let values = names.as_string_view().iter().enumerate().map(|(row, name)| {
                    let Some(name) = name else { return Ok(None) };
                    let lenient = missing_ok
                        .as_ref()
                        .is_some_and(|f| f.is_valid(row) && f.as_boolean().value(row));
                    match self.facts.settings.get_after(&self.facts.assignments.lock(), name) {
                        Some(value) => Ok(Some(value)),
                        None if lenient => Ok(None),
                        None => Err(to_datafusion(unrecognized(name))),
                    }
                });
                let values: StringViewArray = values.collect::<Result<_>>()?;
                Ok(ColumnarValue::Array(Arc::new(values)))
            }
            Kind::SetConfig => {
                let (names, values, local) = (text(0)?, text(1)?, flag(2)?);
                let (names, values) = (names.as_string_view(), values.as_string_view());
                for row in 0..rows {
                    if names.is_null(row) {
                        let null = SqlError::new(state::INVALID_PARAMETER_VALUE, "SET requires parameter name");
                        return Err(to_datafusion(null));
                    }
                    let value = if values.is_null(row) { "" } else { values.value(row) };
                    let facts = &self.facts;
                    let (identity, name) = (&facts.identity, names.value(row));
                    identity
                        .check_setting(&facts.snapshot, &facts.settings, name, value)
                        .map_err(to_datafusion)?;
                    self.facts
                        .settings
                        .clone()
                        .set(names.value(row), value)
                        .map_err(to_datafusion)?;
                    let local = local
                        .as_ref()
                        .is_some_and(|f| f.is_valid(row) && f.as_boolean().value(row));
                    self.facts
                        .assignments
                        .lock()
                        .push((names.value(row).into(), value.into(), local));
                }
                Ok(ColumnarValue::Array(Arc::new(values.clone())))
            }
            Kind::Sleep => {
                let seconds = cast(&args.args[0].to_array(rows)?, &DataType::Float64)?;
                let seconds = seconds.as_primitive::<datafusion::arrow::datatypes::Float64Type>();
                elsewhere(|| seconds.iter().flatten().try_for_each(|seconds| self.sleep(seconds)))?;
                Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(String::new()))))
            }
            Kind::Cancel | Kind::Terminate => {
                let ids = cast(&args.args[0].to_array(rows)?, &DataType::Int32)?;
                let stopped = stopped(&self.facts, ids.as_primitive(), self.kind == Kind::Terminate)?;
                Ok(ColumnarValue::Array(Arc::new(stopped)))
            }
            Kind::Reload => Ok(ColumnarValue::Scalar(reloaded(&self.facts)?.into())),
            Kind::CurrentSchemas => {
                let all = matches!(&args.args[0], ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
                Ok(texts(self.facts.schemas(all)))
            }
            Kind::Channels => Ok(texts(self.facts.notifications.channels())),
        }
    }
}

impl SessionFunction {
    /// Sleeps in short steps, so that a cancel request is heard.
    fn sleep(&self, seconds: f64) -> Result<()> {
        let until = std::time::Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0));
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.facts.cancel.is_cancelled() {
                return Err(to_datafusion(crate::pg::error::canceled()));
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}
