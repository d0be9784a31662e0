//! What a client sends once it is connected, parsed from whole frames.
//!
//! pgwire's own decoder is not used here: it panics on a frame whose body is shorter than its fields say, and it
//! replaces invalid UTF-8 in place of refusing it. This one answers 08P01 and 22021.

use crate::encode::Format;
use bytes::Bytes;
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::settings::Charset;

/// A frontend message of the query phase.
#[derive(Debug)]
pub enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind {
        portal: String,
        statement: String,
        parameters: Vec<Parameter>,
        results: Formats,
    },
    Describe(Target),
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    /// `p`: a password or one step of SASL, as bytes.
    Password(Bytes),
    /// `F`, the old fast-path function call, which Tenon refuses.
    FunctionCall,
}

#[derive(Debug)]
pub enum Target {
    Statement(String),
    Portal(String),
}

/// One bound parameter; `None` is NULL.
#[derive(Debug)]
pub struct Parameter {
    pub format: Format,
    pub value: Option<Bytes>,
}

/// Result formats as Bind gives them: none (all text), one for all, or one a column.
#[derive(Clone, Debug, Default)]
pub struct Formats(Vec<Format>);

impl Formats {
    /// One format a column.
    ///
    /// # Errors
    /// 08P01 where their number is neither 0, 1 nor `columns`.
    pub fn expand(&self, columns: usize) -> Result<Vec<Format>> {
        expand(&self.0, columns, "result")
    }
}

fn expand(formats: &[Format], wanted: usize, what: &str) -> Result<Vec<Format>> {
    match formats {
        [] => Ok(vec![Format::Text; wanted]),
        [one] => Ok(vec![*one; wanted]),
        all if all.len() == wanted => Ok(all.to_vec()),
        all => Err(violation(format!(
            "bind message has {} {what} formats but there are {wanted} of them",
            all.len()
        ))),
    }
}

/// A protocol violation that leaves the stream of frames intact.
pub fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(state::PROTOCOL_VIOLATION, message)
}

/// Parses one frame's body.
///
/// # Errors
/// 08P01 where the body is shorter or longer than its fields; 22021 where text is not in the client's encoding.
pub fn parse(kind: u8, body: Bytes, charset: Charset) -> Result<Message> {
    let mut body = Body(body, charset);
    let message = match kind {
        b'Q' => Message::Query(body.string()?),
        b'P' => {
            let (name, sql) = (body.string()?, body.string()?);
            let count = body.u16()?;
            Message::Parse {
                name,
                sql,
                types: (0..count).map(|_| body.u32()).collect::<Result<_>>()?,
            }
        }
        b'B' => bind(&mut body)?,
        b'D' => Message::Describe(body.target()?),
        b'C' => Message::Close(body.target()?),
        b'E' => Message::Execute {
            portal: body.string()?,
            rows_max: (body.u32()? as i32).max(0) as usize,
        },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.string()?),
        b'd' => return Ok(Message::CopyData(body.0)),
        b'p' => return Ok(Message::Password(body.0)),
        b'F' => return Ok(Message::FunctionCall),
        other => return Err(violation(format!("invalid frontend message type {other}"))),
    };
    if body.0.is_empty() {
        Ok(message)
    } else {
        Err(violation("invalid message format: data left in message"))
    }
}

fn bind(body: &mut Body) -> Result<Message> {
    let (portal, statement) = (body.string()?, body.string()?);
    let formats = body.formats()?;
    let count = body.u16()?;
    let formats = expand(&formats, count.into(), "parameter")?;
    let mut parameters = Vec::with_capacity(formats.len());
    for format in formats {
        let length = body.u32()? as i32;
        let value = match length {
            -1 => None,
            0.. => Some(body.take(length as usize)?),
            _ => return Err(violation(format!("invalid parameter length {length} in bind message"))),
        };
        parameters.push(Parameter { format, value });
    }
    Ok(Message::Bind {
        portal,
        statement,
        parameters,
        results: Formats(body.formats()?),
    })
}

/// The unread rest of a frame's body.
pub struct Body(pub Bytes, pub Charset);

impl Body {
    fn take(&mut self, bytes: usize) -> Result<Bytes> {
        if bytes > self.0.len() {
            return Err(violation("insufficient data left in message"));
        }
        Ok(self.0.split_to(bytes))
    }

    fn u16(&mut self) -> Result<u16> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.take(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// A string that ends in a zero byte.
    pub fn string(&mut self) -> Result<String> {
        let Some(end) = memchr::memchr(0, &self.0) else {
            return Err(violation("invalid string in message"));
        };
        let bytes = self.0.split_to(end + 1);
        utf8(&self.1.decode(&bytes[..end])?).map(str::to_owned)
    }

    fn target(&mut self) -> Result<Target> {
        match self.take(1)?[0] {
            b'S' => Ok(Target::Statement(self.string()?)),
            b'P' => Ok(Target::Portal(self.string()?)),
            other => Err(violation(format!("invalid message subtype {other}"))),
        }
    }

    fn formats(&mut self) -> Result<Vec<Format>> {
        let count = self.u16()?;
        let format = |code| match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(SqlError::new(
                state::INVALID_PARAMETER_VALUE,
                format!("unsupported format code: {code}"),
            )),
        };
        // All of them are read before any is judged: a message too short is that first.
        let codes = (0..count).map(|_| self.u16()).collect::<Result<Vec<_>>>()?;
        codes.into_iter().map(format).collect()
    }
}

/// Text from the client. 22021 for bytes that are no character, or the one that no text may have, U+0000.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    let bad = |bytes: &[u8]| {
        let bytes: Vec<String> = bytes.iter().map(|b| format!("0x{b:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" "));
        SqlError::new(state::CHARACTER_NOT_IN_REPERTOIRE, message)
    };
    match simdutf8::compat::from_utf8(bytes) {
        Ok(_) if bytes.contains(&0) => Err(bad(b"\0")),
        Ok(text) => Ok(text),
        Err(e) => Err(bad(&bytes[e.valid_up_to()..][..e.error_len().unwrap_or(1)])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(kind: u8, body: &'static [u8]) -> &'static str {
        parse(kind, Bytes::from_static(body), Charset::default())
            .unwrap_err()
            .state
            .0
    }

    #[test]
    fn whole_messages() {
        assert!(
            matches!(parse(b'Q', Bytes::from_static(b"select 1\0"), Charset::default()), Ok(Message::Query(q)) if q == "select 1")
        );
        let Ok(Message::Bind {
            parameters, results, ..
        }) = parse(
            b'B',
            Bytes::from_static(b"\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x01x\0\0"),
            Charset::default(),
        )
        else {
            panic!("no bind")
        };
        assert_eq!(parameters.len(), 2);
        assert!(parameters[0].value.is_none() && parameters[1].value.as_deref() == Some(b"x"));
        assert_eq!(parameters[1].format, Format::Binary);
        assert_eq!(results.expand(3).unwrap(), [Format::Text; 3]);
    }

    #[test]
    fn broken_messages_are_errors() {
        assert_eq!(code(b'Q', b"select 1"), "08P01");
        assert_eq!(code(b'Q', b"select 1\0x"), "08P01");
        assert_eq!(code(b'Q', b"select '\xff'\0"), "22021");
        assert_eq!(code(b'P', b"\0select\0\0\x02\0\0\0\x17"), "08P01");
        assert_eq!(code(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"), "08P01");
        assert_eq!(code(b'B', b"\0\0\0\0\0\x01\x80\0\0\0"), "08P01");
        assert_eq!(code(b'B', b"\0\0\0\x01\0\x07\0\0\0\0"), "22023");
        assert_eq!(code(b'D', b"Z\0"), "08P01");
        assert_eq!(code(b'!', b""), "08P01");
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        let mut seed = 0x2545_F491_4F6C_DD1Du64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..200_000 {
            let length = next() % 24;
            let body: Vec<u8> = (0..length)
                .map(|_| if next() % 2 == 0 { 0 } else { next() as u8 })
                .collect();
            let kind = b"QPBDECHSXcfdpF"[next() as usize % 14];
            let _ = parse(kind, body.into(), Charset::default());
        }
    }
}
