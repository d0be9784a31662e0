//! From bytes to segments: COPY's three formats, streamed; Parquet and Arrow files.

mod binary;
mod copy;
mod csv;
mod cut;
mod fields;
mod options;
mod specials;
mod text;

pub use copy::{CopyLoader, Loaded};
pub use options::{CopyFormat, CopyOptions, Header};
