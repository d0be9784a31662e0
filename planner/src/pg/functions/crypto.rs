//! Digests, passwords, random bytes and uuids: what the functions of the extensions `pgcrypto` and `uuid-ossp` are made of
//! (`catalog/extensions`), under names of its own.

use super::row::Kind::{Bytea, Text};
use super::row::{Out, Value, bytes, of, row_function, text};
use super::simple::function;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use bcrypt::{HashParts, Version};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, FixedSizeBinaryBuilder, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use hmac::digest::block_api::BlockSizeUser;
use hmac::{KeyInit, Mac, SimpleHmac};
use md5::Md5;
use rand::Rng;
use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::{Builder, Uuid};

/// bcrypt's rounds, of which each doubles the work: no more than take some seconds, since nobody can stop one that runs.
const ROUNDS: std::ops::RangeInclusive<i32> = 4..=16;
const ROUNDS_DEFAULT: i32 = 6;
/// The digits of bcrypt's salts.
const DIGITS: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const RANDOM_BYTES_MAX: i32 = 1024;

pub(super) fn functions() -> Vec<ScalarUDF> {
    const UUID: DataType = DataType::FixedSizeBinary(16);
    let volatile = |types| Signature::exact(types, Volatility::Volatile);
    let named = |types| Signature::exact(types, Volatility::Immutable);
    vec![
        row_function("tenon_digest", vec![of(&[Bytea, Text], Bytea, digest)]),
        row_function("tenon_hmac", vec![of(&[Bytea, Bytea, Text], Bytea, hmac)]),
        row_function("tenon_crypt", vec![of(&[Text, Text], Text, crypt)]),
        function(
            "tenon_gen_salt",
            volatile(vec![DataType::Utf8View, DataType::Int32]),
            DataType::Utf8View,
            gen_salt,
        ),
        function(
            "tenon_random_bytes",
            volatile(vec![DataType::Int32]),
            DataType::BinaryView,
            random_bytes,
        ),
        function(
            "tenon_uuid_v1",
            Signature::nullary(Volatility::Volatile),
            UUID,
            |_, rows| Ok(uuids((0..rows).map(|_| Some(by_time())))),
        ),
        function(
            "tenon_uuid_v3",
            named(vec![UUID, DataType::Utf8View]),
            UUID,
            |args, _| {
                Ok(by_name(args, |named| {
                    Builder::from_md5_bytes(Md5::digest(named).into())
                }))
            },
        ),
        function(
            "tenon_uuid_v5",
            named(vec![UUID, DataType::Utf8View]),
            UUID,
            |args, _| {
                Ok(by_name(args, |named| {
                    let mut own = [0; 16];
                    own.copy_from_slice(&Sha1::digest(named)[..16]);
                    Builder::from_sha1_bytes(own)
                }))
            },
        ),
    ]
}

/// What pgcrypto says of a value that it cannot use.
fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

/// Runs `$run::<D>()` with the digest of a name.
macro_rules! with_digest {
    ($name:expr, $run:ident($($argument:expr),*)) => {
        match $name.to_ascii_lowercase().as_str() {
            "md5" => Ok($run::<Md5>($($argument),*)),
            "sha1" => Ok($run::<Sha1>($($argument),*)),
            "sha224" => Ok($run::<Sha224>($($argument),*)),
            "sha256" => Ok($run::<Sha256>($($argument),*)),
            "sha384" => Ok($run::<Sha384>($($argument),*)),
            "sha512" => Ok($run::<Sha512>($($argument),*)),
            _ => Err(wrong(format!("Cannot use \"{}\": No such hash algorithm", $name))),
        }
    };
}

fn digest(values: &[Value]) -> Result<Out> {
    with_digest!(text(values, 1), digested(bytes(values, 0)))
}

fn digested<D: Digest>(data: &[u8]) -> Out {
    Out::Bytes(D::digest(data).to_vec())
}

fn hmac(values: &[Value]) -> Result<Out> {
    with_digest!(text(values, 2), keyed(bytes(values, 0), bytes(values, 1)))
}

/// `hmac` (RFC 2104).
fn keyed<D: Digest + BlockSizeUser>(data: &[u8], key: &[u8]) -> Out {
    // A key may have any length: there is no error.
    let own = <SimpleHmac<D> as KeyInit>::new_from_slice(key);
    own.map_or(Out::Null, |own| {
        Out::Bytes(own.chain_update(data).finalize().into_bytes().to_vec())
    })
}

/// By bcrypt, which the salt asks for.
fn crypt(values: &[Value]) -> Result<Out> {
    let (password, salt) = (text(values, 0), text(values, 1));
    let version = match salt.get(..4) {
        Some("$2a$") => Version::TwoA,
        Some("$2b$") => Version::TwoB,
        Some("$2y$") => Version::TwoY,
        _ if salt.starts_with('$') || salt.starts_with('_') || salt.len() >= 2 => {
            return Err(SqlError::unsupported("crypt() by another algorithm than bcrypt")
                .hint("gen_salt('bf') makes salts for it."));
        }
        _ => return Err(wrong("invalid salt")),
    };
    // A hash is a salt, too: what is behind the salt does not count.
    let whole = salt.get(..29).map(|salt| format!("{salt}{}", ".".repeat(31)));
    let parts = whole.and_then(|whole| whole.parse::<HashParts>().ok());
    let parts = parts.ok_or_else(|| wrong("invalid salt"))?;
    check_rounds(parts.get_cost() as i32)?;
    let hash = bcrypt::hash_with_salt(password, parts.get_cost(), parts.get_salt_raw());
    let hash = hash.map_err(|error| wrong(error.to_string()))?;
    Ok(Out::Text(hash.format_for_version(version)))
}

fn check_rounds(rounds: i32) -> Result<()> {
    match rounds {
        own if ROUNDS.contains(&own) => Ok(()),
        17..=31 => Err(SqlError::unsupported("crypt() of more than 2^16 rounds")),
        _ => Err(wrong("gen_salt: Incorrect number of rounds")),
    }
}

fn gen_salt(args: &[ArrayRef], rows: usize) -> datafusion::common::Result<ArrayRef> {
    let (kinds, rounds) = (args[0].as_string_view(), args[1].as_primitive::<Int32Type>());
    let one = |row: usize| -> Result<Option<String>> {
        if kinds.is_null(row) || rounds.is_null(row) {
            return Ok(None);
        }
        match kinds.value(row).to_ascii_lowercase().as_str() {
            "bf" => {}
            "md5" | "des" | "xdes" => {
                return Err(SqlError::unsupported(format!("gen_salt('{}')", kinds.value(row)))
                    .hint("gen_salt('bf') makes salts for bcrypt."));
            }
            _ => return Err(wrong("gen_salt: Unknown salt algorithm")),
        }
        let rounds = match rounds.value(row) {
            0 => ROUNDS_DEFAULT,
            own => own,
        };
        check_rounds(rounds)?;
        let mut random = rand::rng();
        let mut salt = format!("$2a${rounds:02}$");
        // 16 bytes: the last of 22 digits holds two bits.
        for at in 0..22 {
            let digit = match at {
                21 => random.random_range(0..4) << 4,
                _ => random.random_range(0..64),
            };
            salt.push(char::from(DIGITS[digit]));
        }
        Ok(Some(salt))
    };
    let salts = (0..rows).map(one).collect::<Result<StringViewArray>>();
    Ok(Arc::new(salts.map_err(to_datafusion)?))
}

fn random_bytes(args: &[ArrayRef], rows: usize) -> datafusion::common::Result<ArrayRef> {
    let lengths = args[0].as_primitive::<Int32Type>();
    let one = |row: usize| -> Result<Option<Vec<u8>>> {
        if lengths.is_null(row) {
            return Ok(None);
        }
        let length = lengths.value(row);
        if !(1..=RANDOM_BYTES_MAX).contains(&length) {
            return Err(SqlError::new(SqlState("39000"), "Length not in range"));
        }
        let mut own = vec![0; length as usize];
        rand::rng().fill(own.as_mut_slice());
        Ok(Some(own))
    };
    let all = (0..rows).map(one).collect::<Result<BinaryViewArray>>();
    Ok(Arc::new(all.map_err(to_datafusion)?))
}

/// Of version 1: the time in units of 100 ns, with a node that is nobody's address.
fn by_time() -> Uuid {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // From the beginning of the Gregorian calendar, 1582-10-15, on.
    let ticks = 0x01B2_1DD2_1381_4000 + now.as_nanos() as u64 / 100;
    let mut node: [u8; 6] = rand::random();
    node[0] |= 1;
    Builder::from_gregorian_timestamp(ticks, rand::random::<u16>() & 0x3fff, &node).into_uuid()
}

fn by_name(args: &[ArrayRef], made: fn(&[u8]) -> Builder) -> ArrayRef {
    let (spaces, names) = (args[0].as_fixed_size_binary(), args[1].as_string_view());
    let one = |row: usize| {
        (spaces.is_valid(row) && names.is_valid(row))
            .then(|| made(&[spaces.value(row), names.value(row).as_bytes()].concat()).into_uuid())
    };
    uuids((0..names.len()).map(one))
}

fn uuids(of: impl Iterator<Item = Option<Uuid>>) -> ArrayRef {
    let mut out = FixedSizeBinaryBuilder::new(16);
    for own in of {
        match own {
            Some(own) => {
                // Of the builder's length.
                let _ = out.append_value(own.as_bytes());
            }
            None => out.append_null(),
        }
    }
    Arc::new(out.finish())
}
