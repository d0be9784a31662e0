//! What a finder's candidate pairs still go through before they are the join's.

use std::borrow::Cow;
use std::sync::Arc;

use super::emitted::EmittedPairs;
use super::keys::Verify;

#[derive(Clone, Default)]
pub struct Checks {
    /// Whether the operator's build rows are the join's probe rows.
    pub swapped: bool,
    /// Compares keys where the operator's normalized keys do not decide.
    pub verify: Option<Arc<Verify>>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
    /// Pairs that came out of an attempt before.
    pub emitted: Option<Arc<EmittedPairs>>,
}

impl Checks {
    /// The operator's pairs as build and probe rows of the join, without those that have been emitted.
    pub fn pairs<'a>(&self, build: &'a [u32], probe: &'a [u32]) -> (Cow<'a, [u32]>, Cow<'a, [u32]>) {
        let (build, probe) = match &self.emitted {
            Some(emitted) => {
                let (build, probe) = emitted.without(build, probe);
                (Cow::Owned(build), Cow::Owned(probe))
            }
            None => (Cow::Borrowed(build), Cow::Borrowed(probe)),
        };
        if self.swapped { (probe, build) } else { (build, probe) }
    }
}
