//! Input functions on arbitrary bytes: an error or a value, never a panic; and values that PostgreSQL would give.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_storage::parse::{decode_scalar, parse_scalar};
use tenon_storage::range::RangeType;
use tenon_storage::{Attribute, CompositeType, SqlType};

const TYPES: [SqlType; 31] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric,
    SqlType::NumericOf(38, 0),
    SqlType::NumericOf(5, 5),
    SqlType::Text,
    SqlType::VarcharOf(5),
    SqlType::CharOf(3),
    SqlType::Date,
    SqlType::Time,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Interval,
    SqlType::Bytea,
    SqlType::Uuid,
    SqlType::Jsonb,
    SqlType::BitOf(2),
    SqlType::VarBit,
    SqlType::Inet,
    SqlType::Cidr,
    SqlType::MacAddr,
    SqlType::MacAddr8,
    SqlType::Range(RangeType::Int4),
    SqlType::Range(RangeType::Num),
    SqlType::Range(RangeType::TsTz),
    SqlType::Multirange(RangeType::Date),
    SqlType::Multirange(RangeType::Num),
];

const WORDS: [&str; 60] = [
    "",
    " ",
    "-",
    "+",
    ".",
    ":",
    "/",
    "e",
    "E",
    "0",
    "1",
    "9",
    "12",
    "99",
    "2024",
    "1999",
    "9999999",
    "99999999999",
    "t",
    "T",
    "Z",
    "utc",
    "am",
    "pm",
    "bc",
    "jan",
    "sept",
    "october",
    "mon",
    "monday",
    "infinity",
    "nan",
    "epoch",
    "now",
    "today",
    "ago",
    "day",
    "mons",
    "years",
    "weeks",
    "P",
    "PT",
    "@",
    "\\x",
    "\\",
    "a",
    "f",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    "true",
    "é",
    "日",
    "00:00",
    "24:00:00",
    "-05:30",
    "1e308",
];

#[test]
fn arbitrary_text_never_panics() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..60_000 {
        let count = random.random_range(0..8);
        let text: String = (0..count).map(|_| WORDS[random.random_range(0..WORDS.len())]).collect();
        for sql_type in TYPES {
            match parse_scalar(sql_type, &text) {
                Ok(array) => assert_eq!((array.len(), array.null_count()), (1, 0), "{sql_type} {text:?}"),
                Err(error) => assert!(!error.sqlstate().starts_with("XX"), "{sql_type} {text:?}: {error:?}"),
            }
        }
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..60_000 {
        let length = [0, 1, 2, 4, 6, 8, 10, 12, 16, 20][random.random_range(0..10)];
        let extreme = [0, 1, 0x7f, 0x80, 0xff];
        let bytes: Vec<u8> = match random.random_bool(0.5) {
            true => (0..length).map(|_| random.random()).collect(),
            false => (0..length)
                .map(|_| extreme[random.random_range(0..extreme.len())])
                .collect(),
        };
        for sql_type in TYPES {
            if let Err(error) = decode_scalar(sql_type, &bytes) {
                assert!(!error.sqlstate().starts_with("XX"), "{sql_type} {bytes:?}: {error:?}");
            }
        }
    }
}

#[test]
fn values_and_errors_are_postgresqls() {
    let value = |sql_type, text: &str| array_value_to_string(&parse_scalar(sql_type, text).unwrap(), 0).unwrap();
    assert_eq!(value(SqlType::NumericOf(10, 3), "1234567.8905"), "1234567.891");
    assert_eq!(value(SqlType::CharOf(5), "ab   "), "ab");
    assert_eq!(value(SqlType::VarcharOf(3), "abc  "), "abc");
    assert_eq!(
        value(SqlType::Uuid, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
        "a0eebc999c0b4ef8bb6d6bb9bd380a11"
    );
    let attribute = |(number, sql_type): (u32, SqlType)| Attribute {
        number,
        name: format!("a{number}"),
        sql_type,
        domain: None,
    };
    let attributes = (1..).zip([SqlType::Int4, SqlType::Text]).map(attribute).collect();
    let pair = SqlType::Composite(CompositeType::of(96_000, 96_001, "public", "pair", attributes));
    let cases = [
        (
            SqlType::Int4,
            "x",
            "22P02",
            "invalid input syntax for type integer: \"x\"",
        ),
        (
            SqlType::Int2,
            "40000",
            "22003",
            "value \"40000\" is out of range for type smallint",
        ),
        (
            SqlType::Float8,
            "1e400",
            "22003",
            "\"1e400\" is out of range for type double precision",
        ),
        (SqlType::NumericOf(5, 2), "1000", "22003", "numeric field overflow"),
        (
            SqlType::Bool,
            "maybe",
            "22P02",
            "invalid input syntax for type boolean: \"maybe\"",
        ),
        (
            SqlType::Date,
            "2024-02-30",
            "22008",
            "date/time field value out of range: \"2024-02-30\"",
        ),
        (
            SqlType::Date,
            "hello",
            "22007",
            "invalid input syntax for type date: \"hello\"",
        ),
        (
            SqlType::Timestamp,
            "x",
            "22007",
            "invalid input syntax for type timestamp: \"x\"",
        ),
        (
            SqlType::TimestampTz,
            "x",
            "22007",
            "invalid input syntax for type timestamp with time zone: \"x\"",
        ),
        (
            SqlType::Interval,
            "1 fortnight",
            "22007",
            "invalid input syntax for type interval: \"1 fortnight\"",
        ),
        (SqlType::Uuid, "1", "22P02", "invalid input syntax for type uuid: \"1\""),
        (
            SqlType::BitOf(3),
            "10",
            "22026",
            "bit string length 2 does not match type bit(3)",
        ),
        (pair, "(1", "22P02", "malformed record literal: \"(1\""),
        (pair, "(1,2,3)", "22P02", "malformed record literal: \"(1,2,3)\""),
        (pair, "(x,2)", "22P02", "invalid input syntax for type integer: \"x\""),
        (
            SqlType::Range(RangeType::Int4),
            "[1,2",
            "22P02",
            "malformed range literal: \"[1,2\"",
        ),
        (
            SqlType::Range(RangeType::Int8),
            "[2,1]",
            "22000",
            "range lower bound must be less than or equal to range upper bound",
        ),
        (
            SqlType::Multirange(RangeType::Num),
            "[1,2]",
            "22P02",
            "malformed multirange literal: \"[1,2]\"",
        ),
        (
            SqlType::Inet,
            "1.2.3.256",
            "22P02",
            "invalid input syntax for type inet: \"1.2.3.256\"",
        ),
        (SqlType::Cidr, "1.2.3.4/8", "22P02", "invalid cidr value: \"1.2.3.4/8\""),
        (
            SqlType::MacAddr,
            "08:00",
            "22P02",
            "invalid input syntax for type macaddr: \"08:00\"",
        ),
        (SqlType::VarBit, "12", "22P02", "\"2\" is not a valid binary digit"),
        (SqlType::Json, "{", "22P02", "invalid input syntax for type json"),
        (SqlType::Bytea, "\\xz", "22023", "invalid hexadecimal digit: \"z\""),
        (
            SqlType::VarcharOf(2),
            "abc",
            "22001",
            "value too long for type character varying(2)",
        ),
    ];
    for (sql_type, text, state, message) in cases {
        let error = parse_scalar(sql_type, text).unwrap_err();
        assert_eq!((error.sqlstate(), error.message.as_str()), (state, message), "{text}");
    }
    let overflow = parse_scalar(SqlType::NumericOf(5, 2), "1000")
        .unwrap_err()
        .detail
        .unwrap();
    assert_eq!(
        overflow,
        "A field with precision 5, scale 2 must round to an absolute value less than 10^3."
    );
}

#[test]
fn type_names_round_trip() {
    for sql_type in TYPES {
        assert_eq!(sql_type.to_string().parse::<SqlType>().unwrap(), sql_type);
        let field = sql_type.field("a", true);
        assert_eq!(SqlType::from_field(&field), Some(sql_type));
    }
    assert_eq!("varchar( 10 )".parse::<SqlType>().unwrap(), SqlType::VarcharOf(10));
    for (bad, state) in [
        ("varchar(0)", "22023"),
        ("varchar(99999999)", "22023"),
        ("numeric(1001,0)", "22023"),
        ("nope", "22023"),
        ("int(3)", "22023"),
        ("varchar(x)", "22023"),
        ("numeric(0)", "22023"),
    ] {
        assert_eq!(bad.parse::<SqlType>().unwrap_err().sqlstate(), state, "{bad}");
    }
}
