//! What there is, and what names mean: a session's snapshot in, a plan out. Nothing here changes anything.

pub(crate) mod bind;
pub(crate) mod extensions;
pub(crate) mod files;
pub(crate) mod partitions;
pub(crate) mod rights;
pub(crate) mod services;
pub(crate) mod system;
pub(crate) mod through;
