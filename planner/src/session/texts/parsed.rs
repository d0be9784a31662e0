//! Texts that clients have parsed again and again: the extended protocol's unnamed statement. The same text with the same
//! types of parameters is the same prepared statement, in all sessions for which its names mean the same.

use super::comments::without_comments;
use super::{SharedText, TEXT_BYTES_MAX};
use crate::session::{Prepared, Session};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A key that no text is, with the types that the client declares.
fn key(sql: &str, types: &[u32]) -> String {
    let mut key = String::with_capacity(sql.len() + 8 * types.len() + 2);
    key.push('\0');
    for oid in types {
        let _ = write!(key, "{oid},");
    }
    key.push('\0');
    key.push_str(&without_comments(sql));
    key
}

impl Session {
    /// What was prepared for a text and these types of its parameters, by this session or another.
    pub fn known_statement(&mut self, sql: &str, types: &[u32]) -> Option<Arc<Prepared>> {
        if sql.len() > TEXT_BYTES_MAX || !self.shares_texts() || self.block().is_some_and(|block| block.failed) {
            return None;
        }
        self.look_anew().ok()?;
        let (purpose, meaning) = (self.purpose(), self.state().meaning());
        let mut kept = self.engine.texts.kept.lock();
        kept.clock += 1;
        let texts = kept.texts.get(&key(sql, types))?;
        let right = |text: &&Arc<SharedText>| text.meaning == meaning && text.purpose == purpose;
        let text = texts.iter().find(right)?;
        text.used.store(kept.clock, Ordering::Relaxed);
        text.uses.fetch_add(1, Ordering::Relaxed);
        Some(text.prepared.clone())
    }

    /// Keeps what was prepared for a text that comes for the second time.
    pub fn remember_statement(&mut self, sql: &str, types: &[u32], prepared: &Arc<Prepared>) {
        let reusable = prepared.may_keep_plan() && prepared.plan.lock().is_some();
        if sql.len() > TEXT_BYTES_MAX || !self.shares_texts() || !reusable {
            return;
        }
        let key = key(sql, types);
        let is_new = {
            let mut kept = self.engine.texts.kept.lock();
            let is_new = !kept.shapes.contains_key(&key);
            if is_new {
                // Most texts do not come again.
                kept.make_room(key.len());
                kept.shapes.insert(key.clone(), vec![]);
            }
            is_new
        };
        if !is_new && !self.has(&key) {
            self.keep(key, prepared.clone());
        }
    }
}
