//! From bytes to segments: COPY's three formats, streamed; Parquet and Arrow files.

mod arrow_file;
mod binary;
mod copy;
mod csv;
mod cut;
mod delimited;
mod fields;
mod file;
mod infer;
mod line_end;
mod options;
mod parquet_file;
mod piece;
mod specials;
mod text;

pub use copy::{CopyLoader, Loaded};
pub use file::{FileFormat, Progress, Target, file_columns, load_file};
pub use options::{CopyFormat, CopyOptions, Header};
