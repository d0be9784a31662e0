//! Storage parameters (`WITH (fillfactor = 70)`) of tables, indexes and constraints: which ones there are, and what they may be. They
//! are kept and shown, and change nothing; but `tenon.device`, which is `residence`'s.

use super::residence;
use super::view::{SWITCHES, switched};
use crate::catalog::bind::{Target, undefined};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::definition::{StorageParameter, storage};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::CreateTableOptions;
use tenon_storage::{IndexShown, PartitionIndex, Relation, View};

/// Names and values, as they are kept.
pub(super) type Options = Vec<(String, String)>;

/// What a parameter may be.
enum Values {
    Bool,
    Int(i64, i64),
    Real(f64, f64),
    /// The names that an error lists, and others that mean one of them.
    Names(&'static [&'static str], &'static [&'static str]),
}

use Values::{Bool, Int, Names, Real};

const INT_MAX: i64 = i32::MAX as i64;
/// Most KiB that a setting says, as in PostgreSQL (MAX_KILOBYTES).
const KILOBYTES_MAX: i64 = INT_MAX;

/// Those of tables; the first of them there is for what holds toasted values, too, of which there is none.
const OF_TABLES: &[(&str, Values)] = &[
    ("autovacuum_enabled", Bool),
    ("autovacuum_vacuum_threshold", Int(0, INT_MAX)),
    ("autovacuum_vacuum_insert_threshold", Int(-1, INT_MAX)),
    ("autovacuum_vacuum_cost_limit", Int(1, 10_000)),
    ("autovacuum_vacuum_cost_delay", Real(0.0, 100.0)),
    ("autovacuum_freeze_min_age", Int(0, 1_000_000_000)),
    ("autovacuum_freeze_max_age", Int(100_000, 2_000_000_000)),
    ("autovacuum_freeze_table_age", Int(0, 2_000_000_000)),
    ("autovacuum_multixact_freeze_min_age", Int(0, 1_000_000_000)),
    ("autovacuum_multixact_freeze_max_age", Int(10_000, 2_000_000_000)),
    ("autovacuum_multixact_freeze_table_age", Int(0, 2_000_000_000)),
    ("autovacuum_vacuum_scale_factor", Real(0.0, 100.0)),
    ("autovacuum_vacuum_insert_scale_factor", Real(0.0, 100.0)),
    ("log_autovacuum_min_duration", Int(-1, INT_MAX)),
    (
        "vacuum_index_cleanup",
        Names(&["on", "off", "auto"], &["true", "false", "yes", "no", "1", "0"]),
    ),
    ("vacuum_truncate", Bool),
    ("autovacuum_analyze_threshold", Int(0, INT_MAX)),
    ("autovacuum_analyze_scale_factor", Real(0.0, 100.0)),
    ("fillfactor", Int(10, 100)),
    ("toast_tuple_target", Int(128, 8160)),
    ("parallel_workers", Int(0, 1024)),
    ("user_catalog_table", Bool),
];
/// How many of these have the namespace `toast`, too.
const OF_TOAST: usize = 16;

/// Those of an access method's indexes.
fn of_indexes(method: &str) -> &'static [(&'static str, Values)] {
    match method {
        "btree" => &[
            ("fillfactor", Int(10, 100)),
            ("deduplicate_items", Bool),
            ("vacuum_cleanup_index_scale_factor", Real(0.0, 1e10)),
        ],
        "gin" => &[("fastupdate", Bool), ("gin_pending_list_limit", Int(64, KILOBYTES_MAX))],
        "gist" => &[
            ("fillfactor", Int(10, 100)),
            ("buffering", Names(&["on", "off", "auto"], &[])),
        ],
        "brin" => &[("pages_per_range", Int(1, 131_072)), ("autosummarize", Bool)],
        _ => &[("fillfactor", Int(10, 100))],
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

fn is_truth(value: &str) -> bool {
    let lower = value.to_lowercase();
    let begins = |word: &str| !lower.is_empty() && word.starts_with(&lower);
    // `o` is neither ON nor OFF.
    let on_off = matches!(lower.as_str(), "on" | "of" | "off");
    ["true", "false", "yes", "no"].into_iter().any(begins) || on_off || matches!(lower.as_str(), "1" | "0")
}

/// Refuses a value that a parameter cannot be (22023).
fn check(name: &str, value: &str, values: &Values) -> Result<()> {
    let no = |kind: &str| Err(invalid(format!("invalid value for {kind} option \"{name}\": {value}")));
    let outside = |low: String, high: String| {
        let message = format!("value {value} out of bounds for option \"{name}\"");
        Err(invalid(message).detail(format!("Valid values are between \"{low}\" and \"{high}\".")))
    };
    let number: Option<f64> = value.trim().parse().ok().filter(|number: &f64| number.is_finite());
    match values {
        Bool if is_truth(value) => Ok(()),
        Bool => no("boolean"),
        // As PostgreSQL reads whole numbers of settings: to the nearest, the even one of two.
        Int(low, high) => match number.map(f64::round_ties_even) {
            None => no("integer"),
            Some(number) if number < i32::MIN.into() || number > i32::MAX.into() => no("integer"),
            Some(number) if number < *low as f64 || number > *high as f64 => outside(low.to_string(), high.to_string()),
            Some(_) => Ok(()),
        },
        Real(low, high) => match number {
            None => no("floating point"),
            Some(number) if number < *low || number > *high => outside(format!("{low:.6}"), format!("{high:.6}")),
            Some(_) => Ok(()),
        },
        Names(shown, others) => {
            let mut known = shown.iter().chain(*others);
            if known.any(|own| own.eq_ignore_ascii_case(value)) {
                return Ok(());
            }
            let quoted: Vec<String> = shown.iter().map(|own| format!("\"{own}\"")).collect();
            let (last, rest) = quoted
                .split_last()
                .map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
            let listed = rest.join(", ");
            let message = format!("invalid value for enum option \"{name}\": {value}");
            Err(invalid(message).detail(format!("Valid values are {listed}, and {last}.")))
        }
    }
}

fn checked(known: &[(&str, Values)], name: &str, value: &str) -> Result<()> {
    match known.iter().find(|(own, _)| *own == name) {
        Some((_, values)) => check(name, value, values),
        None => Err(invalid(format!("unrecognized parameter \"{name}\""))),
    }
}

/// The options after a change: those that are named go, and with SET come last anew.
fn changed(before: &Options, given: &[StorageParameter], is_set: bool) -> Options {
    let named = |name: &str| given.iter().any(|own| own.namespace.is_none() && own.name == name);
    let mut after: Options = before.iter().filter(|(name, _)| !named(name)).cloned().collect();
    if is_set {
        let own = given.iter().filter(|own| own.namespace.is_none());
        after.extend(own.map(|own| (own.name.clone(), own.value().to_string())));
    }
    after
}

fn refuse_twice(given: &[StorageParameter]) -> Result<()> {
    for (at, own) in given.iter().enumerate() {
        let same = |other: &StorageParameter| other.namespace == own.namespace && other.name == own.name;
        if given[..at].iter().any(same) {
            return Err(invalid(format!("parameter \"{}\" specified more than once", own.name)));
        }
    }
    Ok(())
}

/// What a table has of the parameters that it is declared with, and its `tenon.device`.
pub(super) fn of_table(given: &[StorageParameter], is_partitioned: bool) -> Result<(Options, Option<String>)> {
    let mut device = None;
    for own in given {
        let (name, value) = (own.name.as_str(), own.value());
        match own.namespace.as_deref() {
            // What PostgreSQL had once.
            None if name == "oids" => match matches!(value.to_lowercase().as_str(), "false" | "off" | "no" | "0") {
                true => {}
                false => return Err(SqlError::unsupported_as("tables declared WITH OIDS are not supported")),
            },
            None if is_partitioned => return Err(invalid(format!("unrecognized parameter \"{name}\""))),
            None => checked(OF_TABLES, name, value)?,
            Some("toast") => checked(&OF_TABLES[..OF_TOAST], name, value)?,
            Some("tenon") if name == "device" => device = Some(value.to_string()),
            Some("tenon") => return Err(invalid(format!("unrecognized parameter \"tenon.{name}\""))),
            Some(other) => return Err(invalid(format!("unrecognized parameter namespace \"{other}\""))),
        }
    }
    refuse_twice(given)?;
    let mut options = changed(&Vec::new(), given, true);
    options.retain(|(name, _)| name != "oids");
    Ok((options, device))
}

/// The parameters of CREATE TABLE and CREATE MATERIALIZED VIEW.
pub(super) fn declared(options: &CreateTableOptions) -> Result<Vec<StorageParameter>> {
    match options {
        CreateTableOptions::With(options) => storage::of_options(options),
        _ => Ok(Vec::new()),
    }
}

/// Has a table that was just made be kept on the device, as it was declared.
pub(super) fn reside(session: &mut Session, place: &Target, device: Option<&str>) -> Result<()> {
    let Some(device) = device else { return Ok(()) };
    let state_now = session.state();
    let relation = state_now.relation(&place.schema, &place.name);
    let relation = relation.ok_or_else(|| undefined(Some(&place.schema), &place.name))?;
    residence::set(session, relation, place, "device", Some(&device.to_lowercase()))
}

/// What an index of an access method has of the parameters that it is declared with.
pub(super) fn of_index(method: &str, given: &[StorageParameter]) -> Result<Options> {
    for own in given {
        match &own.namespace {
            Some(other) => return Err(invalid(format!("unrecognized parameter namespace \"{other}\""))),
            None => checked(of_indexes(method), &own.name, own.value())?,
        }
    }
    refuse_twice(given)?;
    Ok(changed(&Vec::new(), given, true))
}

/// ALTER INDEX ... SET or RESET.
pub(super) fn change_index(
    session: &Session,
    (schema, table, name): (&str, &str, &str),
    shown: &IndexShown,
    given: &[StorageParameter],
    is_set: bool,
) -> Result<()> {
    let options = index_options(shown, given, is_set)?;
    let transaction = session.transaction()?;
    transaction.lock().set_index_options(schema, table, name, options)?;
    Ok(())
}

/// The same of a partition's.
pub(super) fn change_partition_index(
    session: &Session,
    index: &PartitionIndex,
    given: &[StorageParameter],
    is_set: bool,
) -> Result<()> {
    let options = index_options(&index.declared.shown, given, is_set)?;
    let change = |own: &mut PartitionIndex| own.declared.shown.options = options;
    let transaction = session.transaction()?;
    transaction.lock().change_partition_index(index.declared.oid, change)?;
    Ok(())
}

fn index_options(shown: &IndexShown, given: &[StorageParameter], is_set: bool) -> Result<Vec<(String, String)>> {
    match is_set {
        true => drop(of_index(shown.method(), given)?),
        false => refuse_values(given)?,
    }
    Ok(changed(&shown.options, given, is_set))
}

/// The switches of a view.
fn change_view(session: &Session, view: &View, given: &[StorageParameter], is_set: bool) -> Result<()> {
    let mut options = view.options.clone();
    for own in given.iter().filter(|own| SWITCHES.contains(&own.name.as_str())) {
        options.retain(|(name, _)| *name != own.name);
        if is_set {
            options.push((own.name.clone(), switched(&own.name, own.value.as_deref())?));
        }
    }
    let transaction = session.transaction()?;
    transaction
        .lock()
        .set_view_options(&view.schema_name, &view.name, options)?;
    Ok(())
}

fn refuse_values(given: &[StorageParameter]) -> Result<()> {
    match given.iter().any(|own| own.value.is_some()) {
        true => {
            let message = "RESET must not include values for parameters";
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
        false => Ok(()),
    }
}

/// ALTER TABLE ... SET or RESET, of a partition, too.
pub(super) fn change(session: &mut Session, place: &Target, given: &[StorageParameter], is_set: bool) -> Result<()> {
    if !is_set {
        refuse_values(given)?;
    }
    // As those before it in the same statement have left it.
    let state_now = session.state();
    let relation = state_now.relation(&place.schema, &place.name);
    let relation = relation.ok_or_else(|| undefined(Some(&place.schema), &place.name))?;
    let before = match relation {
        Relation::Table(table) => table.definition().options.clone(),
        Relation::Partition(partition) => partition.options.clone(),
        Relation::Sequence(_) => {
            let action = if is_set { "SET" } else { "RESET" };
            let message = format!(
                "ALTER action {action} cannot be performed on relation \"{}\"",
                relation.name()
            );
            let detail = "This operation is not supported for sequences.";
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).detail(detail));
        }
        Relation::View(view) => return change_view(session, view, given, is_set),
    };
    let device = given.iter().filter(|own| own.namespace.as_deref() == Some("tenon"));
    if is_set {
        of_table(given, relation.partitioning().is_some())?;
    }
    for own in device {
        let value = own.value.as_deref().filter(|_| is_set).map(str::to_lowercase);
        residence::set(session, relation, place, &own.name, value.as_deref())?;
    }
    let options = changed(&before, given, is_set);
    if options == before {
        return Ok(());
    }
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    match relation {
        Relation::Partition(partition) => {
            transaction.change_partition(partition.oid, |own| own.options = options)?;
        }
        _ => transaction.set_options(&place.schema, &place.name, options)?,
    }
    Ok(())
}
