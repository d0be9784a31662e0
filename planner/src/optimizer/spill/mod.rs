//! Plans of queries that go on through files: what operators get in place of others, and how they share memory.

pub(crate) mod collected;
pub(crate) mod distinct;
pub(crate) mod grouping_sets;
pub(crate) mod inputs;
pub(crate) mod loops;
pub(crate) mod ordered_sets;
pub(crate) mod pool;
mod prefixes;
mod shifted;
pub(crate) mod sliding;
pub(crate) mod turned;
pub(crate) mod windows;
