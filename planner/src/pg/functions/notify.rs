//! What a transaction asks of notifications (LISTEN, UNLISTEN, NOTIFY), kept until it commits; and the function `pg_notify`.

use super::constant::as_void;
use super::session::Facts;
use crate::pg::error::{Result as SqlResult, SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The function that gives what the session listens to, as an array. A name that no client can write.
pub(crate) const CHANNELS: &str = "\u{1}channels";

/// PostgreSQL's limits: a channel's name with its end, and a payload, bytes.
const CHANNEL_BYTES_MAX: usize = 63;
const PAYLOAD_BYTES_MAX: usize = 7_999;

/// What a notification takes beside its texts, about, and what all that wait may take.
const NOTIFICATION_BYTES: usize = 64;
const QUEUES_BYTES_MAX: usize = 64 << 20;

/// One thing that a transaction asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
    Notify { channel: String, payload: String },
}

impl Action {
    /// A notification; 22023 where the channel or the payload is none.
    pub(crate) fn notify(channel: &str, payload: &str) -> SqlResult<Self> {
        let wrong = |message: &str| Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return wrong("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return wrong("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return wrong("payload string too long");
        }
        Ok(Self::Notify {
            channel: channel.to_owned(),
            payload: payload.to_owned(),
        })
    }
}

/// What lies in all sessions' queues, bytes.
#[derive(Debug, Default)]
pub(crate) struct Queued(AtomicUsize);

impl Queued {
    /// What a notification takes.
    pub fn bytes(channel: &str, payload: &str) -> usize {
        NOTIFICATION_BYTES + channel.len() + payload.len()
    }

    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What the transaction of a session asks, in order.
#[derive(Debug)]
pub(crate) struct Pending {
    actions: Mutex<(Vec<Action>, usize)>,
    /// What the session listens to.
    channels: Mutex<Vec<String>>,
    queued: Arc<Queued>,
}

impl Pending {
    pub fn new(queued: Arc<Queued>) -> Self {
        Self {
            actions: Mutex::default(),
            channels: Mutex::default(),
            queued,
        }
    }

    /// 54000 where the queues are full: of sessions that listen and do not take what waits for them.
    pub fn push(&self, action: Action) -> SqlResult<()> {
        let bytes = match &action {
            Action::Notify { channel, payload } => Queued::bytes(channel, payload),
            _ => NOTIFICATION_BYTES,
        };
        let (actions, all) = &mut *self.actions.lock();
        if *all + bytes + self.queued.0.load(Ordering::Relaxed) > QUEUES_BYTES_MAX {
            let message = "too many notifications in the NOTIFY queue";
            return Err(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message));
        }
        *all += bytes;
        actions.push(action);
        Ok(())
    }

    pub fn channels(&self) -> Vec<String> {
        self.channels.lock().clone()
    }

    pub fn listens_to(&self, channels: &[String]) {
        *self.channels.lock() = channels.to_vec();
    }

    pub fn take(&self) -> Vec<Action> {
        std::mem::take(&mut *self.actions.lock()).0
    }

    /// How many there are: what a savepoint goes back to.
    pub fn len(&self) -> usize {
        self.actions.lock().0.len()
    }

    pub fn truncate(&self, len: usize) {
        // Their bytes count until the transaction's end.
        self.actions.lock().0.truncate(len);
    }
}

/// An array of texts.
pub(super) fn texts(texts: Vec<String>) -> ColumnarValue {
    let texts = texts.into_iter().map(|text| ScalarValue::Utf8View(Some(text)));
    let list = ScalarValue::new_list_nullable(&texts.collect::<Vec<_>>(), &DataType::Utf8View);
    ColumnarValue::Scalar(ScalarValue::List(list))
}

/// `pg_notify(channel, payload)`.
pub(super) fn function(facts: &Arc<Facts>) -> Arc<ScalarUDF> {
    let text = DataType::Utf8View;
    Arc::new(ScalarUDF::new_from_impl(Notify {
        facts: facts.clone(),
        signature: Signature::exact(vec![text.clone(), text], Volatility::Volatile),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Notify {
    facts: Arc<Facts>,
    signature: Signature,
}

impl ScalarUDFImpl for Notify {
    fn name(&self) -> &str {
        "pg_notify"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// `void`, which shows as nothing.
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(as_void(Field::new(self.name(), DataType::Utf8View, false))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let text = |at: usize| -> Result<ArrayRef> { Ok(cast(&args.args[at].to_array(rows)?, &DataType::Utf8View)?) };
        let (channels, payloads) = (text(0)?, text(1)?);
        for (channel, payload) in channels.as_string_view().iter().zip(payloads.as_string_view()) {
            // A NULL is an empty text to it.
            let (channel, payload) = (channel.unwrap_or_default(), payload.unwrap_or_default());
            let notified = Action::notify(channel, payload).and_then(|action| self.facts.notifications.push(action));
            notified.map_err(to_datafusion)?;
        }
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(String::new()))))
    }
}
