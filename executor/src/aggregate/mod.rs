//! Grouping on the CPU: the plan node (`exec`) and what it computes (`spec`), what is known without it (`known`), what one partition gathers (`local`), what all have gathered and who merges
//! it (`gathered`, `buckets`, `shares`, `merge`), the groups of other grouping sets (`sets`), group keys to group numbers (`keys`, `group_table`, `text`), and the accumulators that beat
//! DataFusion's (`accumulators`; `shifted`: of sums with a constant; `distinct`: of distinct values). `few`: all of it at once, over few rows.

mod accumulators;
mod buckets;
mod distinct;
mod exec;
mod few;
mod gathered;
mod group_table;
mod keys;
mod known;
mod local;
mod merge;
mod sets;
mod shares;
mod shifted;
mod spec;
mod text;

pub use accumulators::{fitting, plus};
pub(crate) use distinct::of_all_values;
pub use exec::GroupExec;
pub(crate) use gathered::{Found, finished};
pub(crate) use keys::{GroupKeys, is_supported as is_group_key};
pub use spec::{GroupSpec, GroupingSet};
