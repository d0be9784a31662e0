//! Turns of roles: where a role may run queries of only so many sessions at a time, the others wait in line.
//!
//! A session has one turn for all that it runs: plans of one statement may need each other. It has none while it waits for its
//! client, nor while it waits for rows that others change: no turn is waited for by whom its owner waits for.

use crate::session::activity::Backend;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex as Exclusive, oneshot};

/// Of a server's roles that have turns, by oid.
#[derive(Default)]
pub(crate) struct RoleTurns(Mutex<HashMap<u32, Line>>);

#[derive(Default)]
struct Line {
    running: usize,
    /// The limits of those who wait, and where they are told that they have a turn.
    waiting: VecDeque<(usize, oneshot::Sender<RoleTurn>)>,
}

/// One turn of a role, for as long as it lives.
pub(crate) struct RoleTurn {
    turns: Arc<RoleTurns>,
    role: u32,
}

impl RoleTurns {
    /// Waits for a turn of a role that may have so many.
    async fn take(self: &Arc<Self>, role: u32, limit: usize) -> RoleTurn {
        let (sender, receiver) = oneshot::channel();
        self.0
            .lock()
            .entry(role)
            .or_default()
            .waiting
            .push_back((limit, sender));
        // Whoever goes away without a turn may have stood before others.
        let _line = Waiting { turns: self, role };
        self.advance(role);
        match receiver.await {
            Ok(turn) => turn,
            // Nobody drops the other end before it is told.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives turns to those who are first in line.
    fn advance(self: &Arc<Self>, role: u32) {
        let mut given = Vec::new();
        let mut lines = self.0.lock();
        let Some(line) = lines.get_mut(&role) else { return };
        line.waiting.retain(|(_, sender)| !sender.is_closed());
        while let Some((_, sender)) = line.waiting.pop_front_if(|(limit, _)| line.running < *limit) {
            line.running += 1;
            given.push(sender);
        }
        if line.running == 0 && line.waiting.is_empty() {
            lines.remove(&role);
        }
        drop(lines);
        for sender in given {
            let turns = self.clone();
            // One that is not wanted any more goes on to the next.
            drop(sender.send(RoleTurn { turns, role }));
        }
    }
}

impl Drop for RoleTurn {
    fn drop(&mut self) {
        if let Some(line) = self.turns.0.lock().get_mut(&self.role) {
            line.running -= 1;
        }
        self.turns.advance(self.role);
    }
}

struct Waiting<'a> {
    turns: &'a Arc<RoleTurns>,
    role: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.advance(self.role);
    }
}

/// A session among those of its role.
pub(crate) struct RolePlace {
    turns: Arc<RoleTurns>,
    role: u32,
    backend: Arc<Backend>,
    /// The turn that it has; locked while it waits for one.
    turn: Exclusive<Weak<RoleTurn>>,
}

impl RolePlace {
    pub fn new(turns: &Arc<RoleTurns>, role: u32, backend: &Arc<Backend>) -> Arc<Self> {
        Arc::new(Self {
            turns: turns.clone(),
            role,
            backend: backend.clone(),
            turn: Exclusive::default(),
        })
    }
}

/// How many sessions of the role run queries at a time.
#[derive(Clone)]
pub(crate) struct RoleLimit {
    place: Arc<RolePlace>,
    limit: usize,
}

impl RoleLimit {
    /// None: any number.
    pub fn of(place: &Arc<RolePlace>, limit: usize) -> Option<Self> {
        (limit > 0).then(|| Self {
            place: place.clone(),
            limit,
        })
    }

    /// The session's turn, once it has one.
    async fn take(&self) -> Arc<RoleTurn> {
        let place = &self.place;
        let mut own = place.turn.lock().await;
        if let Some(turn) = own.upgrade() {
            return turn;
        }
        let _waits = place.backend.waits("Extension", "tenon.role_concurrency");
        let turn = Arc::new(place.turns.take(place.role, self.limit).await);
        *own = Arc::downgrade(&turn);
        turn
    }
}

/// A query that has a turn of its role's, or is to have one before it runs.
#[derive(Default)]
pub(crate) struct InLine {
    limit: Option<RoleLimit>,
    turn: Option<Arc<RoleTurn>>,
}

impl InLine {
    pub fn under(limit: Option<RoleLimit>) -> Self {
        Self { limit, turn: None }
    }

    /// Waits for a turn where there is a limit.
    pub async fn take(&mut self) {
        if let (Some(limit), None) = (&self.limit, &self.turn) {
            self.turn = Some(limit.take().await);
        }
    }

    pub fn leave(&mut self) {
        self.turn = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn turns_go_down_the_line() {
        let turns = Arc::<RoleTurns>::default();
        let first = turns.take(1, 1).await;
        // Others are not held up by this role, nor by those who have gone away before them.
        drop(turns.take(2, 1).await);
        let (mut second, mut third) = (Box::pin(turns.take(1, 1)), Box::pin(turns.take(1, 2)));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(second);
        let third = third.now_or_never().unwrap();
        let mut fourth = Box::pin(turns.take(1, 1));
        assert!((&mut fourth).now_or_never().is_none());
        drop(first);
        assert!((&mut fourth).now_or_never().is_none());
        drop(third);
        // It had a turn and never looked.
        drop(fourth);
        assert!(turns.0.lock().is_empty());
    }
}
