//! LISTEN, UNLISTEN and NOTIFY: which sessions listen to which channels, and what waits for each.
//!
//! What a transaction asks is carried out when it commits, and forgotten with what is rolled back. A session takes what
//! waits for it between its transactions; a connection that rests is woken (`Inbox::arrived`).

use super::Session;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::notify::{Action, Pending, Queued};
use crate::pg::outcome::Outcome;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// A message of one session to those that listen.
#[derive(Debug)]
pub struct Notification {
    /// Of the session that sent it.
    pub process_id: i32,
    pub channel: String,
    pub payload: String,
}

/// What waits for a session.
#[derive(Debug)]
pub struct Inbox {
    waiting: Mutex<VecDeque<Arc<Notification>>>,
    woken: Notify,
    queued: Arc<Queued>,
}

impl Inbox {
    fn new(queued: Arc<Queued>) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            woken: Notify::new(),
            queued,
        })
    }

    /// Returns when something may have come since it was last asked. Cancel-safe.
    pub async fn arrived(&self) {
        self.woken.notified().await;
    }

    fn put(&self, notification: Arc<Notification>) {
        self.queued.add(bytes(&notification));
        self.waiting.lock().push_back(notification);
        self.woken.notify_one();
    }

    fn take(&self) -> Vec<Arc<Notification>> {
        let taken: Vec<_> = std::mem::take(&mut *self.waiting.lock()).into();
        taken.iter().for_each(|one| self.queued.remove(bytes(one)));
        taken
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.take();
    }
}

fn bytes(notification: &Notification) -> usize {
    Queued::bytes(&notification.channel, &notification.payload)
}

/// Who listens, of all sessions: by channel, then by the session's number.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<String, HashMap<u64, Arc<Inbox>>>>,
    queued: Arc<Queued>,
}

/// A session's part of it.
#[derive(Debug)]
pub(crate) struct Listening {
    inbox: Arc<Inbox>,
    /// In the order in which it began to listen.
    channels: Vec<String>,
    /// Shared with the statement that runs.
    pub pending: Arc<Pending>,
}

impl Channels {
    pub fn session(&self) -> Listening {
        Listening {
            inbox: Inbox::new(self.queued.clone()),
            channels: Vec::new(),
            pending: Arc::new(Pending::new(self.queued.clone())),
        }
    }

    /// Carries out what a transaction asked: who listens first, since it hears itself whatever the order was.
    fn settle(&self, number: u64, process_id: i32, listening: &mut Listening, actions: Vec<Action>) {
        let mut listeners = self.listeners.lock();
        let mut said = HashSet::new();
        let mut told = Vec::new();
        for action in actions {
            match action {
                Action::Listen(channel) => {
                    if !listening.channels.contains(&channel) {
                        listening.channels.push(channel.clone());
                        let of = listeners.entry(channel).or_default();
                        of.insert(number, listening.inbox.clone());
                    }
                }
                Action::Unlisten(channel) => {
                    listening.channels.retain(|own| *own != channel);
                    forget(&mut listeners, number, &channel);
                }
                Action::UnlistenAll => {
                    for channel in std::mem::take(&mut listening.channels) {
                        forget(&mut listeners, number, &channel);
                    }
                }
                Action::Notify { channel, payload } => {
                    // The same once more in one transaction says nothing new.
                    if said.insert((channel.clone(), payload.clone())) {
                        told.push(Arc::new(Notification {
                            process_id,
                            channel,
                            payload,
                        }));
                    }
                }
            }
        }
        listening.pending.listens_to(&listening.channels);
        for notification in told {
            let of = listeners.get(&notification.channel).into_iter().flatten();
            of.for_each(|(_, inbox)| inbox.put(notification.clone()));
        }
    }
}

fn forget(listeners: &mut HashMap<String, HashMap<u64, Arc<Inbox>>>, number: u64, channel: &str) {
    if let Some(of) = listeners.get_mut(channel) {
        of.remove(&number);
        if of.is_empty() {
            listeners.remove(channel);
        }
    }
}

impl Session {
    /// What the transaction asked, after it has committed.
    pub(super) fn settle_notifications(&mut self) {
        let actions = self.listening.pending.take();
        if !actions.is_empty() {
            let engine = self.engine.clone();
            let (number, process_id) = (self.number, self.info.process_id);
            engine.channels.settle(number, process_id, &mut self.listening, actions);
        }
    }

    /// The notifications that have come for this session, between transactions: what it asked outside of a block is carried
    /// out before.
    pub fn take_notifications(&mut self) -> Vec<Arc<Notification>> {
        if self.block().is_some() {
            return Vec::new();
        }
        self.settle_notifications();
        self.listening.inbox.take()
    }

    /// What wakes the session's connection. None: it listens to nothing.
    pub fn inbox(&self) -> Option<Arc<Inbox>> {
        (!self.listening.channels.is_empty()).then(|| self.listening.inbox.clone())
    }

    pub(super) fn stop_listening(&mut self) {
        if self.listening.channels.is_empty() {
            return;
        }
        let engine = self.engine.clone();
        let (number, process_id) = (self.number, self.info.process_id);
        let actions = vec![Action::UnlistenAll];
        engine.channels.settle(number, process_id, &mut self.listening, actions);
    }

    /// LISTEN, UNLISTEN and NOTIFY. None: the statement is another.
    pub(super) fn notification_control(&mut self, statement: &ast::Statement) -> Result<Option<Outcome>> {
        let name = crate::catalog::bind::fold;
        if let ast::Statement::LISTEN { channel }
        | ast::Statement::UNLISTEN { channel }
        | ast::Statement::NOTIFY { channel, .. } = statement
            && channel.quote_style == Some('\'')
        {
            let message = format!("syntax error at or near \"'{}'\"", channel.value);
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let (tag, action) = match statement {
            ast::Statement::LISTEN { channel } => ("LISTEN", Action::Listen(name(channel))),
            ast::Statement::UNLISTEN { channel } if channel.value == "*" && channel.quote_style.is_none() => {
                ("UNLISTEN", Action::UnlistenAll)
            }
            ast::Statement::UNLISTEN { channel } => ("UNLISTEN", Action::Unlisten(name(channel))),
            ast::Statement::NOTIFY { channel, payload } => {
                let payload = payload.as_deref().unwrap_or_default();
                ("NOTIFY", Action::notify(&name(channel), payload)?)
            }
            _ => return Ok(None),
        };
        self.listening.pending.push(action)?;
        Ok(Some(Outcome::Command(tag.into())))
    }
}
