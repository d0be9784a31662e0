//! What ends the lines of a text: one kind in all of it, that of its first line.

use super::options::{CopyFormat, CopyOptions};
use crate::error::{ErrorKind, StorageError};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LineEnd {
    Newline,
    Return,
    ReturnNewline,
}

impl LineEnd {
    /// The byte that is the last of an end.
    pub fn last(self) -> u8 {
        match self {
            LineEnd::Return => b'\r',
            LineEnd::Newline | LineEnd::ReturnNewline => b'\n',
        }
    }

    /// What stands at the start of some bytes, and how long it is.
    pub fn at(bytes: &[u8]) -> Option<(LineEnd, usize)> {
        match bytes {
            [b'\r', b'\n', ..] => Some((LineEnd::ReturnNewline, 2)),
            [b'\r', ..] => Some((LineEnd::Return, 1)),
            [b'\n', ..] => Some((LineEnd::Newline, 1)),
            _ => None,
        }
    }
}

/// The error for an end where lines end otherwise.
pub(super) fn other(wanted: LineEnd, found: LineEnd, is_csv: bool) -> StorageError {
    let is_newline = found == LineEnd::Newline || wanted == LineEnd::Return;
    let (what, spelt) = match is_newline {
        true => ("newline", "\\n"),
        false => ("carriage return", "\\r"),
    };
    let (message, hint) = match is_csv {
        true => (
            format!("unquoted {what} found in data"),
            format!("Use quoted CSV field to represent {what}."),
        ),
        false => (
            format!("literal {what} found in data"),
            format!("Use \"{spelt}\" to represent {what}."),
        ),
    };
    StorageError::new(ErrorKind::BadCopyFormat, message).hint(hint)
}

/// The end of the first record of a text, and what it ends with.
pub fn first_record(bytes: &[u8], options: &CopyOptions) -> (usize, Option<LineEnd>) {
    let (mut at, mut quoted) = (0, false);
    while at < bytes.len() {
        let byte = bytes[at];
        let end = LineEnd::at(&bytes[at..]);
        if options.format == CopyFormat::Text {
            if let Some((end, length)) = end {
                return (at + length, Some(end));
            }
            at += usize::from(byte == b'\\');
        } else if quoted && byte == options.escape {
            let next = bytes.get(at + 1).copied();
            if next == Some(options.quote) || next == Some(options.escape) {
                at += 1;
            } else if options.escape == options.quote {
                quoted = false;
            }
        } else if byte == options.quote {
            quoted = !quoted;
        } else if let (Some((end, length)), false) = (end, quoted) {
            return (at + length, Some(end));
        }
        at += 1;
    }
    (bytes.len(), None)
}
