//! Ranges and multiranges: their types, their values in columns, their texts and their bytes on the wire.
//!
//! A value is bytes whose order is PostgreSQL's order of such values (see `bytes`), in a struct of one field whose name tells
//! the type: so whatever compares, sorts, groups or joins structs does it for ranges, two types of ranges are two Arrow
//! types, and what computes with a value keeps its type. A name of such a field begins with a character that no column of a
//! record has there.
//!
//! Bounds of `numrange` are kept with as few digits as show them: equal ranges have the same bytes, and `[1.50,2)` is shown as
//! `[1.5,2)`.

mod bytes;
mod keys;
mod multi;
mod span;
mod text;
mod user;
mod wire;

pub use bytes::{of_bytes, ranges_of_bytes, to_bytes};
pub use keys::{bound_array, bounds};
pub use multi::{
    difference, intersection, is_adjacent, is_after, is_before, is_in, is_not_left, is_not_right, of_ranges, overlap,
    spanned, write_ranges,
};
pub use span::{Bound, Span, contiguous, make, minus};
pub use text::{parse, write_text};
pub(crate) use user::stored;
use user::{MARK, carrier};
pub use user::{NewRange, UserRange, takes_bounds};
pub use wire::{read_wire, write_wire};

use crate::types::SqlType;
use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, StructArray};
use arrow::datatypes::{DataType, Fields};
use std::sync::Arc;

/// A type of ranges, by what its bounds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeType {
    Int4,
    Num,
    Ts,
    TsTz,
    Date,
    Int8,
    User(&'static UserRange),
}

impl RangeType {
    /// Those that are built in.
    pub const ALL: [RangeType; 6] = [
        RangeType::Int4,
        RangeType::Num,
        RangeType::Ts,
        RangeType::TsTz,
        RangeType::Date,
        RangeType::Int8,
    ];

    /// The type of the bounds.
    pub fn subtype(self) -> SqlType {
        match self {
            RangeType::Int4 => SqlType::Int4,
            RangeType::Num => SqlType::Numeric,
            RangeType::Ts => SqlType::Timestamp,
            RangeType::TsTz => SqlType::TimestampTz,
            RangeType::Date => SqlType::Date,
            RangeType::Int8 => SqlType::Int8,
            RangeType::User(of) => of.subtype,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RangeType::Int4 => "int4range",
            RangeType::Num => "numrange",
            RangeType::Ts => "tsrange",
            RangeType::TsTz => "tstzrange",
            RangeType::Date => "daterange",
            RangeType::Int8 => "int8range",
            RangeType::User(of) => &of.name,
        }
    }

    pub fn multirange_name(self) -> &'static str {
        match self {
            RangeType::Int4 => "int4multirange",
            RangeType::Num => "nummultirange",
            RangeType::Ts => "tsmultirange",
            RangeType::TsTz => "tstzmultirange",
            RangeType::Date => "datemultirange",
            RangeType::Int8 => "int8multirange",
            RangeType::User(of) => &of.multirange_name,
        }
    }

    /// The names of arrays of ranges and of multiranges.
    pub(crate) fn array_names(self) -> (&'static str, &'static str) {
        match self {
            RangeType::Int4 => ("int4range[]", "int4multirange[]"),
            RangeType::Num => ("numrange[]", "nummultirange[]"),
            RangeType::Ts => ("tsrange[]", "tsmultirange[]"),
            RangeType::TsTz => ("tstzrange[]", "tstzmultirange[]"),
            RangeType::Date => ("daterange[]", "datemultirange[]"),
            RangeType::Int8 => ("int8range[]", "int8multirange[]"),
            RangeType::User(of) => (&of.array_names.0, &of.array_names.1),
        }
    }

    /// `pg_type.typname` of the same.
    pub fn array_type_names(self) -> (&'static str, &'static str) {
        match self {
            RangeType::Int4 => ("_int4range", "_int4multirange"),
            RangeType::Num => ("_numrange", "_nummultirange"),
            RangeType::Ts => ("_tsrange", "_tsmultirange"),
            RangeType::TsTz => ("_tstzrange", "_tstzmultirange"),
            RangeType::Date => ("_daterange", "_datemultirange"),
            RangeType::Int8 => ("_int8range", "_int8multirange"),
            RangeType::User(of) => (&of.array_type_names.0, &of.array_type_names.1),
        }
    }

    /// `pg_type.oid` of the ranges and of their arrays.
    pub const fn oids(self) -> (u32, u32) {
        match self {
            RangeType::Int4 => (3904, 3905),
            RangeType::Num => (3906, 3907),
            RangeType::Ts => (3908, 3909),
            RangeType::TsTz => (3910, 3911),
            RangeType::Date => (3912, 3913),
            RangeType::Int8 => (3926, 3927),
            RangeType::User(of) => (of.oid, of.array_oid),
        }
    }

    /// The same of multiranges.
    pub const fn multirange_oids(self) -> (u32, u32) {
        match self {
            RangeType::Int4 => (4451, 6150),
            RangeType::Num => (4532, 6151),
            RangeType::Ts => (4533, 6152),
            RangeType::TsTz => (4534, 6153),
            RangeType::Date => (4535, 6155),
            RangeType::Int8 => (4536, 6157),
            RangeType::User(of) => (of.multirange_oid, of.multirange_array_oid),
        }
    }

    /// Whether every value has a next one, so that ranges have one form.
    pub fn is_discrete(self) -> bool {
        matches!(self, RangeType::Int4 | RangeType::Int8 | RangeType::Date)
    }

    pub fn data_type(self) -> DataType {
        match self {
            RangeType::User(of) => carrier(&of.oid.to_string()),
            of => carrier(of.name()),
        }
    }

    pub fn multirange_data_type(self) -> DataType {
        match self {
            RangeType::User(of) => carrier(&of.multirange_oid.to_string()),
            of => carrier(of.multirange_name()),
        }
    }

    /// The type of a range.
    pub fn of(data_type: &DataType) -> Option<RangeType> {
        match SqlType::range_of(data_type) {
            Some(SqlType::Range(of)) => Some(of),
            _ => None,
        }
    }

    /// The type of a multirange's ranges.
    pub fn of_multirange(data_type: &DataType) -> Option<RangeType> {
        match SqlType::range_of(data_type) {
            Some(SqlType::Multirange(of)) => Some(of),
            _ => None,
        }
    }
}

/// Whether an Arrow type is that of ranges or multiranges.
pub fn is_range(data_type: &DataType) -> bool {
    SqlType::range_of(data_type).is_some()
}

impl SqlType {
    /// The type of ranges or multiranges that an Arrow type is.
    pub fn range_of(data_type: &DataType) -> Option<SqlType> {
        let DataType::Struct(fields) = data_type else {
            return None;
        };
        let [field] = &fields[..] else { return None };
        let name = field.name().strip_prefix(MARK)?;
        let own = SqlType::range_of_name(name).or_else(|| UserRange::of_oid(name.parse().ok()?));
        own.filter(|_| *field.data_type() == DataType::LargeBinary)
    }

    pub fn is_range(self) -> bool {
        matches!(self, SqlType::Range(_) | SqlType::Multirange(_))
    }

    /// A range's or multirange's type of ranges.
    pub fn ranges(self) -> Option<RangeType> {
        match self {
            SqlType::Range(of) | SqlType::Multirange(of) => Some(of),
            _ => None,
        }
    }

    /// The built-in type of ranges or multiranges of a name.
    pub fn range_of_name(name: &str) -> Option<SqlType> {
        RangeType::ALL.into_iter().find_map(|of| match name {
            name if name == of.name() => Some(SqlType::Range(of)),
            name if name == of.multirange_name() => Some(SqlType::Multirange(of)),
            _ => None,
        })
    }

    /// Of ranges and multiranges: the type of that oid.
    pub fn range_of_oid(oid: u32) -> Option<SqlType> {
        let own = RangeType::ALL.into_iter().find_map(|of| match oid {
            oid if oid == of.oids().0 => Some(SqlType::Range(of)),
            oid if oid == of.multirange_oids().0 => Some(SqlType::Multirange(of)),
            _ => None,
        });
        own.or_else(|| UserRange::of_oid(oid))
    }
}

/// The bytes of an array of ranges or multiranges.
pub struct Values<'a> {
    array: &'a dyn Array,
    bytes: &'a LargeBinaryArray,
}

impl<'a> Values<'a> {
    /// None for an array of another type.
    pub fn of(array: &'a dyn Array) -> Option<Values<'a>> {
        SqlType::range_of(array.data_type())?;
        let bytes = array.as_struct().column(0).as_binary_opt::<i64>()?;
        Some(Values { array, bytes })
    }

    /// None: NULL.
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        (self.array.is_valid(row) && self.bytes.is_valid(row)).then(|| self.bytes.value(row))
    }

    pub fn len(&self) -> usize {
        self.array.len()
    }

    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + '_ {
        (0..self.array.len()).map(|row| self.get(row))
    }
}

/// The array of some values of a type of ranges or multiranges.
pub fn array<T: AsRef<[u8]>>(of: SqlType, values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    let bytes: LargeBinaryArray = values.into_iter().collect();
    let nulls = bytes.nulls().cloned();
    let fields = match of.data_type() {
        DataType::Struct(fields) => fields,
        _ => Fields::empty(),
    };
    Arc::new(StructArray::new(fields, vec![Arc::new(bytes)], nulls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::Conventions;

    fn bytes(text: &str, of: SqlType) -> Result<Vec<u8>, String> {
        parse(text, of, &Conventions::default()).map_err(|error| error.sqlstate().to_string())
    }

    fn shown(text: &str, of: SqlType) -> String {
        let bytes = match bytes(text, of) {
            Ok(bytes) => bytes,
            Err(state) => return state,
        };
        let (mut out, mut wire) = (vec![], vec![]);
        write_text(of, &bytes, &Conventions::default(), &mut out);
        write_wire(of, &bytes, &mut wire);
        assert_eq!(read_wire(&wire, of).unwrap(), bytes, "{text}");
        for end in 0..wire.len() {
            // Whatever is cut off, there is no panic.
            let _ = read_wire(&wire[..end], of);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts() {
        for (of, text, wanted) in [
            (RangeType::Int4, "[1,10]", "[1,11)"),
            (RangeType::Int4, " ( 1 , 10 ) ", "[2,10)"),
            (RangeType::Int4, "(1,2)", "empty"),
            (RangeType::Int4, "[1,1)", "empty"),
            (RangeType::Int4, " EMPTY ", "empty"),
            (RangeType::Int4, "(,)", "(,)"),
            (RangeType::Int4, "[,5]", "(,6)"),
            (RangeType::Int4, "[2,1]", "22000"),
            (RangeType::Int4, "[1,2147483647]", "22003"),
            (RangeType::Int4, "[1,x]", "22P02"),
            (RangeType::Int4, "[1,2", "22P02"),
            (RangeType::Int4, "[1,2,3]", "22P02"),
            (RangeType::Int4, "[1,2] x", "22P02"),
            (RangeType::Int4, "emptyx", "22P02"),
            (RangeType::Int4, "", "22P02"),
            (RangeType::Int4, "\"[1,2]\"", "22P02"),
            (RangeType::Int8, "[-9223372036854775808,5)", "[-9223372036854775808,5)"),
            (RangeType::Num, "[1.1,2.20]", "[1.1,2.2]"),
            (RangeType::Num, "(-1e10,NaN]", "(-10000000000,NaN]"),
            (RangeType::Num, "[-Infinity,Infinity]", "[-Infinity,Infinity]"),
            (RangeType::Num, "[0,0]", "[0,0]"),
            (RangeType::Date, "[2020-01-01,2020-12-31]", "[2020-01-01,2021-01-01)"),
            (RangeType::Date, "[-infinity,infinity]", "[-infinity,infinity]"),
            (
                RangeType::Ts,
                "[2020-01-01 10:00,2020-01-02]",
                "[\"2020-01-01 10:00:00\",\"2020-01-02 00:00:00\"]",
            ),
            (
                RangeType::TsTz,
                "(\"2020-01-01 10:00+00\",)",
                "(\"2020-01-01 10:00:00+00\",)",
            ),
        ] {
            assert_eq!(shown(text, SqlType::Range(of)), wanted, "{text}");
        }
        for (text, wanted) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            ("{[1,2],[5,6]}", "{[1,3),[5,7)}"),
            ("{[5,6], [1,2],(2,3]}", "{[1,4),[5,7)}"),
            ("{empty,[1,2)}", "{[1,2)}"),
            ("{(,)}", "{(,)}"),
            ("{[1,2]", "22P02"),
            ("{[1,2]}x", "22P02"),
            ("[1,2]", "22P02"),
            ("{[1,2] [3,4]}", "22P02"),
            ("{[1,2],}", "22P02"),
        ] {
            assert_eq!(shown(text, SqlType::Multirange(RangeType::Int4)), wanted, "{text}");
        }
    }

    /// The order of the bytes is PostgreSQL's.
    #[test]
    fn order() {
        let own = |of: RangeType, texts: &[&str]| {
            let all: Vec<_> = texts
                .iter()
                .map(|text| bytes(text, SqlType::Range(of)).unwrap())
                .collect();
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{texts:?} {all:?}");
        };
        own(
            RangeType::Num,
            &[
                "empty",
                "(,-5)",
                "(,1)",
                "(,1]",
                "(,10]",
                "(,)",
                "[-3,1]",
                "[0,0.5)",
                "[1,2)",
                "[1,2]",
                "[1,10]",
                "[1,)",
                "(1,2)",
                "[1.5,2)",
                "[100,Infinity]",
                "[NaN,)",
            ],
        );
        own(
            RangeType::Int4,
            &["empty", "(,-5)", "[-7,-6)", "[-7,0)", "[-7,)", "[0,5)"],
        );
        let all: Vec<_> = ["{}", "{(,1)}", "{[1,2)}", "{[1,2),[5,6)}", "{[1,3)}"]
            .iter()
            .map(|text| bytes(text, SqlType::Multirange(RangeType::Int4)).unwrap())
            .collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
