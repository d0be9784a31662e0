//! Logs to standard error, through `tracing`.

use crate::config::{Config, LogFormat};
use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use std::io::{IsTerminal, stderr};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts logging; a second call in one process changes nothing. A panic is logged as an error with its place.
pub fn start(config: &Config) {
    let filter = EnvFilter::builder().parse_lossy(&config.log_level);
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    let _ = match config.log_format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Compact => logs.compact().without_time().with_target(false).try_init(),
        LogFormat::Json => logs.with_ansi(false).event_format(Json).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// One JSON object a line: timestamp (RFC 3339, UTC), level, target, message and the event's own fields.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut object = Object(Map::new());
        object.put("timestamp", time.into());
        object.put("level", event.metadata().level().as_str().into());
        object.put("target", event.metadata().target().into());
        event.record(&mut object);
        writeln!(writer, "{}", Value::Object(object.0))
    }
}

struct Object(Map<String, Value>);

impl Object {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }
}
