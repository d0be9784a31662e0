//! Functions of strings and bytes.

mod bytes;
pub(super) mod case;
mod codes;
mod digits;
mod format;
mod like;
mod names;
mod parts;

pub(super) use parts::{cut, negative_length};

use super::bits;
use super::row::Kind::{Any, Bits, Bool, Bytea, Int4, Int8, List, Padded, Text, Texts};
use super::row::{Overload, delegated, of, row_function, variadic, with_nulls};
use datafusion::functions::{crypto, string, unicode};
use datafusion::logical_expr::ScalarUDF;

/// A text with the blanks of a `char(n)`.
pub(crate) fn padded() -> ScalarUDF {
    row_function("tenon_padded", vec![of(&[Padded], Text, parts::same)])
}

/// A `char(n)` as text.
pub(crate) fn unpadded() -> ScalarUDF {
    row_function("tenon_unpadded", vec![of(&[Text], Text, parts::same)])
}

/// Text as a `name` or a `"char"`.
pub(crate) fn cut_name() -> ScalarUDF {
    row_function("tenon_name", vec![of(&[Text], Text, names::name)])
}

pub(crate) fn one_char() -> ScalarUDF {
    row_function("tenon_char", vec![of(&[Text], Text, names::char)])
}

/// As a list, whose items are the rows.
pub(crate) fn string_to_table() -> ScalarUDF {
    row_function("string_to_table", string_to_list())
}

fn string_to_list() -> Vec<Overload> {
    vec![
        with_nulls(&[Text, Text], Texts, parts::string_to_array),
        with_nulls(&[Text, Text, Text], Texts, parts::string_to_array),
    ]
}

/// LIKE of bytes.
pub(crate) fn like_bytes() -> ScalarUDF {
    row_function("tenon_like_bytea", vec![of(&[Bytea, Bytea], Bool, like::like_bytes)])
}

/// The functions by which SUBSTRING and POSITION with words are planned.
pub(crate) fn substring() -> ScalarUDF {
    row_function(
        "substring",
        vec![
            delegated(&[Text, Int8], Text, unicode::substr),
            delegated(&[Text, Int8, Int8], Text, unicode::substr),
            of(&[Text, Text], Text, super::regex::substring),
            of(&[Text, Text, Text], Text, super::regex::substring_similar),
            of(&[Bytea, Int4], Bytea, bytes::substring),
            of(&[Bytea, Int4, Int4], Bytea, bytes::substring),
            of(&[Bits, Int4], Bits, bits::substring),
            of(&[Bits, Int4, Int4], Bits, bits::substring),
        ],
    )
}

/// What POSITION with words calls, and `position(a, b)`.
pub(crate) fn position() -> ScalarUDF {
    row_function(
        "position",
        vec![
            delegated(&[Text, Text], Int4, unicode::strpos),
            of(&[Bytea, Bytea], Int4, bytes::position),
            of(&[Bits, Bits], Int4, bits::position),
        ],
    )
}

pub(crate) fn strpos() -> ScalarUDF {
    row_function(
        "strpos",
        vec![
            delegated(&[Text, Text], Int4, unicode::strpos),
            of(&[Bytea, Bytea], Int4, bytes::position),
        ],
    )
}

pub(crate) fn overlay() -> ScalarUDF {
    row_function(
        "overlay",
        vec![
            of(&[Text, Text, Int4], Text, parts::overlay),
            of(&[Text, Text, Int4, Int4], Text, parts::overlay),
            of(&[Bytea, Bytea, Int4], Bytea, bytes::overlay),
            of(&[Bytea, Bytea, Int4, Int4], Bytea, bytes::overlay),
            of(&[Bits, Bits, Int4], Bits, bits::overlay),
            of(&[Bits, Bits, Int4, Int4], Bits, bits::overlay),
        ],
    )
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut functions = vec![
        padded(),
        unpadded(),
        cut_name(),
        one_char(),
        substring(),
        strpos(),
        overlay(),
    ];
    functions.extend(of_text());
    functions.extend(of_bytes());
    functions
}

fn of_text() -> Vec<ScalarUDF> {
    let one = |name, body| row_function(name, vec![of(&[Text], Text, body)]);
    vec![
        one("reverse", parts::reverse),
        one("initcap", parts::initcap),
        one("unistr", codes::unistr),
        row_function("ascii", vec![of(&[Text], Int4, codes::ascii)]),
        row_function("hashtext", vec![of(&[Text], Int4, codes::hash)]),
        row_function("hashtextextended", vec![of(&[Text, Int8], Int8, codes::hash_extended)]),
        row_function("chr", vec![of(&[Int4], Text, codes::chr)]),
        row_function(
            "to_hex",
            vec![of(&[Int4], Text, digits::to_hex4), of(&[Int8], Text, digits::to_hex8)],
        ),
        row_function("left", vec![of(&[Text, Int4], Text, parts::left)]),
        row_function("right", vec![of(&[Text, Int4], Text, parts::right)]),
        row_function("translate", vec![of(&[Text, Text, Text], Text, parts::translate)]),
        row_function("split_part", vec![of(&[Text, Text, Int4], Text, parts::split_part)]),
        row_function("string_to_array", string_to_list()),
        row_function("like_escape", vec![of(&[Text, Text], Text, like::like_escape)]),
        like_bytes(),
        row_function("concat", vec![variadic(&[Any], Text, format::concat)]),
        row_function("concat_ws", vec![variadic(&[Text, Any], Text, format::concat_ws)]),
        row_function(
            "format",
            vec![
                with_nulls(&[Text], Text, format::format),
                variadic(&[Text, Any], Text, format::format),
            ],
        ),
        row_function(
            "tenon_variadic_concat",
            vec![with_nulls(&[List], Text, format::concat_list)],
        ),
        row_function(
            "tenon_variadic_concat_ws",
            vec![with_nulls(&[Text, List], Text, format::concat_ws_list)],
        ),
        row_function(
            "tenon_variadic_format",
            vec![with_nulls(&[Text, List], Text, format::format_list)],
        ),
        row_function("tenon_variadic_num_nulls", vec![of(&[List], Int4, format::num_nulls)]),
        row_function(
            "tenon_variadic_num_nonnulls",
            vec![of(&[List], Int4, format::num_nonnulls)],
        ),
        row_function("quote_ident", vec![of(&[Text], Text, names::quote_ident_of)]),
        row_function(
            "quote_literal",
            vec![
                of(&[Text], Text, names::quote_literal_of),
                of(&[Any], Text, names::quote_literal_of),
            ],
        ),
        row_function(
            "quote_nullable",
            vec![
                with_nulls(&[Text], Text, names::quote_nullable),
                with_nulls(&[Any], Text, names::quote_nullable),
            ],
        ),
        row_function(
            "parse_ident",
            vec![
                of(&[Text], Texts, names::parse_ident),
                of(&[Text, Bool], Texts, names::parse_ident),
            ],
        ),
        row_function(
            "normalize",
            vec![
                of(&[Text], Text, codes::normalize),
                of(&[Text, Text], Text, codes::normalize),
            ],
        ),
        row_function(
            "is_normalized",
            vec![
                of(&[Text], Bool, codes::is_normalized),
                of(&[Text, Text], Bool, codes::is_normalized),
            ],
        ),
        row_function(
            "tenon_like_array",
            vec![with_nulls(&[Padded, Texts, Bool, Bool, Bool], Bool, like::like_array)],
        ),
    ]
}

fn of_bytes() -> Vec<ScalarUDF> {
    let trim = |name, text: fn() -> _, body| {
        row_function(
            name,
            vec![
                delegated(&[Text], Text, text),
                delegated(&[Text, Text], Text, text),
                of(&[Bytea, Bytea], Bytea, body),
            ],
        )
    };
    vec![
        trim("btrim", string::btrim, bytes::btrim),
        trim("trim", string::btrim, bytes::btrim),
        trim("ltrim", string::ltrim, bytes::ltrim),
        trim("rtrim", string::rtrim, bytes::rtrim),
        row_function(
            "octet_length",
            vec![
                of(&[Padded], Int4, bytes::octet_length),
                of(&[Bytea], Int4, bytes::octet_length),
                of(&[Bits], Int4, bits::octet_length),
            ],
        ),
        row_function(
            "bit_length",
            vec![
                of(&[Text], Int4, bytes::bit_length),
                of(&[Bytea], Int4, bytes::bit_length),
                of(&[Bits], Int4, bits::length),
            ],
        ),
        row_function("encode", vec![of(&[Bytea, Text], Text, digits::encode)]),
        row_function("decode", vec![of(&[Text, Text], Bytea, digits::decode)]),
        row_function(
            "md5",
            vec![
                delegated(&[Text], Text, crypto::md5),
                delegated(&[Bytea], Text, crypto::md5),
            ],
        ),
        row_function("sha224", vec![delegated(&[Bytea], Bytea, crypto::sha224)]),
        row_function("sha256", vec![delegated(&[Bytea], Bytea, crypto::sha256)]),
        row_function("sha384", vec![delegated(&[Bytea], Bytea, crypto::sha384)]),
        row_function("sha512", vec![delegated(&[Bytea], Bytea, crypto::sha512)]),
        row_function("convert_from", vec![of(&[Bytea, Text], Text, codes::convert_from)]),
        row_function("convert_to", vec![of(&[Text, Text], Bytea, codes::convert_to)]),
        row_function("get_byte", vec![of(&[Bytea, Int4], Int4, bytes::get_byte)]),
        row_function("set_byte", vec![of(&[Bytea, Int4, Int4], Bytea, bytes::set_byte)]),
        row_function(
            "get_bit",
            vec![
                of(&[Bytea, Int8], Int4, bytes::get_bit),
                of(&[Bits, Int4], Int4, bits::get_bit),
            ],
        ),
        row_function(
            "set_bit",
            vec![
                of(&[Bytea, Int8, Int4], Bytea, bytes::set_bit),
                of(&[Bits, Int4, Int4], Bits, bits::set_bit),
            ],
        ),
        row_function(
            "bit_count",
            vec![of(&[Bytea], Int8, bytes::bit_count), of(&[Bits], Int8, bits::bit_count)],
        ),
    ]
}
