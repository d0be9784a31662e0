//! Rights as a set of bits.

pub const INSERT: u32 = 1;
pub const SELECT: u32 = 1 << 1;
pub const UPDATE: u32 = 1 << 2;
pub const DELETE: u32 = 1 << 3;
pub const TRUNCATE: u32 = 1 << 4;
pub const REFERENCES: u32 = 1 << 5;
pub const TRIGGER: u32 = 1 << 6;
pub const EXECUTE: u32 = 1 << 7;
pub const USAGE: u32 = 1 << 8;
pub const CREATE: u32 = 1 << 9;
pub const TEMPORARY: u32 = 1 << 10;
pub const CONNECT: u32 = 1 << 11;

/// In the order in which they are printed, with their letters and names.
pub const ALL: [(u32, char, &str); 12] = [
    (INSERT, 'a', "INSERT"),
    (SELECT, 'r', "SELECT"),
    (UPDATE, 'w', "UPDATE"),
    (DELETE, 'd', "DELETE"),
    (TRUNCATE, 'D', "TRUNCATE"),
    (REFERENCES, 'x', "REFERENCES"),
    (TRIGGER, 't', "TRIGGER"),
    (EXECUTE, 'X', "EXECUTE"),
    (USAGE, 'U', "USAGE"),
    (CREATE, 'C', "CREATE"),
    (TEMPORARY, 'T', "TEMPORARY"),
    (CONNECT, 'c', "CONNECT"),
];
