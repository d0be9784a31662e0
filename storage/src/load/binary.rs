//! COPY's binary format: a signature, then tuples of length-prefixed fields, then a trailer.

use crate::error::{ErrorKind, Result, StorageError};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Walks the stream's frame, so that pieces hold whole tuples.
#[derive(Default)]
pub struct Walk {
    header_seen: bool,
    /// Bytes of the header extension to skip still.
    pub ended: bool,
}

impl Walk {
    /// Gives the end of the last whole tuple, walking from `from`, which is the start of one.
    pub fn walk(&mut self, bytes: &[u8], from: usize) -> Result<usize> {
        let mut at = from;
        if !self.header_seen {
            match header_length(bytes)? {
                Some(length) => at = length,
                None => return Ok(0),
            }
            self.header_seen = true;
        }
        while !self.ended {
            match tuple_length(&bytes[at..])? {
                Tuple::Whole(length) => at += length,
                Tuple::Cut => break,
                Tuple::Trailer => self.ended = true,
            }
        }
        Ok(if self.ended { bytes.len() } else { at })
    }
}

/// What is at the start of some bytes.
enum Tuple {
    Whole(usize),
    /// Not all of it is there.
    Cut,
    Trailer,
}

/// Length of the header with its extension; None: more bytes are needed.
pub fn header_length(bytes: &[u8]) -> Result<Option<usize>> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(StorageError::new(
            ErrorKind::BadCopyFormat,
            "COPY file signature not recognized",
        ));
    }
    let (Some(flags), Some(extension)) = (int4(bytes, SIGNATURE.len()), int4(bytes, SIGNATURE.len() + 4)) else {
        return Ok(None);
    };
    if flags as u32 & 0xffff_0000 != 0 {
        return Err(StorageError::new(
            ErrorKind::BadCopyFormat,
            "unrecognized critical flags in COPY file header",
        ));
    }
    let extension = usize::try_from(extension)
        .map_err(|_| StorageError::new(ErrorKind::BadCopyFormat, "invalid COPY file header (missing length)"))?;
    let length = SIGNATURE.len() + 8 + extension;
    Ok((bytes.len() >= length).then_some(length))
}

fn int4(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}

fn field_count(bytes: &[u8]) -> Option<i16> {
    bytes.get(..2)?.try_into().ok().map(i16::from_be_bytes)
}

fn tuple_length(bytes: &[u8]) -> Result<Tuple> {
    let Some(count) = field_count(bytes) else {
        return Ok(Tuple::Cut);
    };
    if count == -1 {
        return Ok(Tuple::Trailer);
    }
    let mut at = 2;
    for _ in 0..count {
        match int4(bytes, at) {
            None => return Ok(Tuple::Cut),
            Some(-1) => at += 4,
            Some(length) => at += 4 + field_size(length)?,
        }
        if at > bytes.len() {
            return Ok(Tuple::Cut);
        }
    }
    Ok(Tuple::Whole(at))
}

fn field_size(length: i32) -> Result<usize> {
    usize::try_from(length).map_err(|_| StorageError::new(ErrorKind::BadCopyFormat, "invalid field size"))
}

/// The tuples of a piece.
#[derive(Default)]
pub struct Tuples<'a> {
    /// Row after row; None is NULL.
    pub fields: Vec<Option<&'a [u8]>>,
    /// What follows the rows, with its row.
    pub error: Option<(usize, StorageError)>,
    /// The trailer was met.
    pub ended: bool,
}

/// Scans whole tuples of `columns` fields.
pub fn scan(bytes: &[u8], columns: usize) -> Tuples<'_> {
    let mut tuples = Tuples::default();
    let mut at = 0;
    while at < bytes.len() {
        let failed = match tuple_length(&bytes[at..]) {
            Ok(Tuple::Trailer) => {
                tuples.ended = true;
                return tuples;
            }
            Ok(Tuple::Cut) => Some("unexpected EOF in COPY data".to_string()),
            Err(error) => Some(error.message),
            Ok(Tuple::Whole(_)) => {
                let count = field_count(&bytes[at..]).unwrap_or(0);
                (count as usize != columns).then(|| format!("row field count is {count}, expected {columns}"))
            }
        };
        if let Some(message) = failed {
            let error = StorageError::new(ErrorKind::BadCopyFormat, message);
            tuples.error = Some((tuples.fields.len() / columns, error));
            return tuples;
        }
        at += 2;
        for _ in 0..columns {
            let length = int4(bytes, at).unwrap_or(-1);
            at += 4;
            match usize::try_from(length) {
                Ok(length) => {
                    tuples.fields.push(Some(&bytes[at..at + length]));
                    at += length;
                }
                Err(_) => tuples.fields.push(None),
            }
        }
    }
    tuples
}
