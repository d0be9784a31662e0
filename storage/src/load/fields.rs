//! Where the fields of a piece of text are: the result of the formats' scanners, the input of the columns' parsers.

use crate::error::StorageError;

const SCRATCH: u32 = 1 << 31;
const QUOTED: u32 = 1 << 30;
const NULL: u32 = 1 << 29;
const LENGTH: u32 = NULL - 1;

/// Longest piece, and so the longest record, in bytes: lengths have 29 bits.
pub const PIECE_BYTES_MAX: usize = LENGTH as usize;

/// A field in the piece, or, where it had to be rewritten, in the scratch bytes.
#[derive(Clone, Copy)]
pub struct Field {
    start: u32,
    length_flags: u32,
}

/// An error in a record's form. Fields before that record are sound.
pub struct RecordError {
    pub record: usize,
    pub error: StorageError,
}

/// All records of a piece, each with the same number of fields.
pub struct Records<'a> {
    /// The piece. Together with the order of scanning it is valid UTF-8, cut at ASCII bytes.
    text: &'a str,
    columns: usize,
    fields: Vec<Field>,
    scratch: String,
    /// Where each record begins, and where the last one scanned ends.
    starts: Vec<u32>,
    /// The byte that ends lines.
    pub newline: u8,
    /// The end-of-data marker was met: what follows is not data.
    pub ended: bool,
    pub error: Option<RecordError>,
}

impl<'a> Records<'a> {
    pub fn new(text: &'a str, columns: usize) -> Self {
        let estimate = text.len() / 8;
        Self {
            text,
            columns,
            fields: Vec::with_capacity(estimate),
            scratch: String::new(),
            starts: Vec::with_capacity(estimate / columns.max(1) + 1),
            newline: b'\n',
            ended: false,
            error: None,
        }
    }

    pub fn rows(&self) -> usize {
        self.fields.len() / self.columns
    }

    /// Adds a field that stands in the piece as it is. Its ends are at ASCII bytes or at the piece's ends.
    #[inline(always)]
    pub fn push(&mut self, start: usize, end: usize, quoted: bool, null: bool) {
        let flags = if quoted { QUOTED } else { 0 } | if null { NULL } else { 0 };
        self.fields.push(Field {
            start: start as u32,
            length_flags: (end - start) as u32 | flags,
        });
    }

    /// Adds a field that differs from its spelling.
    pub fn push_rewritten(&mut self, value: &str, quoted: bool, null: bool) {
        let flags = SCRATCH | if quoted { QUOTED } else { 0 } | if null { NULL } else { 0 };
        self.fields.push(Field {
            start: self.scratch.len() as u32,
            length_flags: value.len() as u32 | flags,
        });
        self.scratch.push_str(value);
    }

    /// A record begins here.
    #[inline(always)]
    pub fn begin(&mut self, start: usize) {
        self.starts.push(start as u32);
    }

    /// Fields of the record that is being scanned.
    #[inline(always)]
    pub fn in_record(&self) -> usize {
        self.fields.len() - (self.starts.len() - 1) * self.columns
    }

    /// The record being scanned is no record; what was scanned of it is taken back.
    pub fn fail(&mut self, end: usize, error: StorageError) {
        let record = self.starts.len() - 1;
        self.fields.truncate(record * self.columns);
        self.error = Some(RecordError { record, error });
        self.starts.push(end as u32);
    }

    /// The record being scanned is the end-of-data marker.
    pub fn end(&mut self) {
        let start = self.starts.pop().unwrap_or(0);
        self.fields.truncate(self.starts.len() * self.columns);
        self.ended = true;
        self.starts.push(start);
    }

    /// All was scanned.
    pub fn finish(&mut self, end: usize) {
        self.starts.push(end as u32);
    }

    /// The first record's fields.
    pub fn first(&self) -> Option<Vec<&str>> {
        (self.rows() > 0).then(|| {
            self.fields[..self.columns]
                .iter()
                .map(|field| self.value(*field))
                .collect()
        })
    }

    #[inline(always)]
    fn value(&self, field: Field) -> &str {
        let text = if field.length_flags & SCRATCH == 0 {
            self.text
        } else {
            &self.scratch
        };
        let start = field.start as usize;
        let end = start + (field.length_flags & LENGTH) as usize;
        debug_assert!(text.is_char_boundary(start) && text.is_char_boundary(end));
        // SAFETY: scanners push ranges within the piece that begin and end at ASCII bytes or at its ends, so at
        // character boundaries; rewritten fields are whole strings in `scratch`. The length's bits suffice because no
        // piece is longer than PIECE_BYTES_MAX.
        unsafe { text.get_unchecked(start..end) }
    }

    /// The fields of one column; None where NULL.
    pub fn column(
        &self,
        column: usize,
        force_null: bool,
        force_not_null: bool,
    ) -> impl ExactSizeIterator<Item = Option<&str>> + Clone {
        (0..self.rows()).map(move |row| {
            let field = self.fields[row * self.columns + column];
            let null = field.length_flags & NULL != 0
                && if field.length_flags & QUOTED != 0 {
                    force_null
                } else {
                    !force_not_null
                };
            if null { None } else { Some(self.value(field)) }
        })
    }

    /// Lines from the piece's start to the record's last, counted from 1.
    pub fn line(&self, record: usize) -> u64 {
        let end = self
            .starts
            .get(record + 1)
            .map_or(self.text.len(), |start| *start as usize);
        let before = &self.text.as_bytes()[..end];
        let newlines = memchr::memchr_iter(self.newline, before).count() as u64;
        if before.last() == Some(&self.newline) {
            newlines
        } else {
            newlines + 1
        }
    }

    /// The record's text for an error's context, cut at 100 characters.
    pub fn excerpt(&self, record: usize) -> String {
        let start = self.starts.get(record).map_or(0, |start| *start as usize);
        let end = self
            .starts
            .get(record + 1)
            .map_or(self.text.len(), |start| *start as usize);
        shorten(
            self.text
                .get(start..end)
                .unwrap_or_default()
                .trim_end_matches(['\n', '\r']),
        )
    }
}

/// At most 100 characters.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
