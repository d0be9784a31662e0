//! What a finder's candidate pairs still go through before they are the join's.

use std::borrow::Cow;
use std::sync::Arc;

use super::keys::Verify;
use super::sent::Sent;

#[derive(Clone, Default)]
pub struct Checks {
    /// Whether the operator's build rows are the join's probe rows.
    pub swapped: bool,
    /// Compares keys where the operator's words do not decide.
    pub verify: Option<Arc<Verify>>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
    /// Pairs that came out of an attempt before.
    pub sent: Option<Arc<Sent>>,
}

impl Checks {
    /// The operator's pairs as build and probe rows of the join, without those that have been sent.
    pub fn pairs<'a>(&self, own: &'a [u32], other: &'a [u32]) -> (Cow<'a, [u32]>, Cow<'a, [u32]>) {
        let (own, other) = match &self.sent {
            Some(sent) => {
                let (own, other) = sent.without(own, other);
                (Cow::Owned(own), Cow::Owned(other))
            }
            None => (Cow::Borrowed(own), Cow::Borrowed(other)),
        };
        if self.swapped { (other, own) } else { (own, other) }
    }
}
