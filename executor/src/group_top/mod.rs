//! Of each group of rows, those that may be among its first by a sort key: what a query keeps that numbers or ranks the rows of
//! each partition of a window and wants those up to a bound.
//!
//! The node (`exec`) lets rows go that come behind enough others of their group (`keeper`), by the 64 leading bits of the first
//! sort key (`codes`). What it cannot tell from a wanted row it keeps, and where it drops too little, or lacks memory, it hands
//! all rows on: what is above sorts, numbers and filters whatever comes.

mod codes;
mod exec;
mod keeper;
#[cfg(test)]
mod tests;

pub use exec::{GroupTop, GroupTopExec};
