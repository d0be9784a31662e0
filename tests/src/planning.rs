//! Joins of many tables, in the shapes that a planner's search grows with (Moerkotte and Neumann 2006, section 2).

/// Which tables are joined with which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each with the next.
    Chain,
    /// All with the first, by columns of its own.
    Star,
    /// All with all.
    Clique,
}

impl Shape {
    pub const ALL: [Shape; 3] = [Shape::Chain, Shape::Star, Shape::Clique];

    pub fn name(self) -> &'static str {
        match self {
            Shape::Chain => "chain",
            Shape::Star => "star",
            Shape::Clique => "clique",
        }
    }
}

/// Most tables of a join here.
pub const TABLES_MAX: usize = 30;

/// Statements that create `t0` to `t29`: `id` from 1 on, `next` its last digit, and in `t0` a `key` for each other table.
/// All ids up to 10 are in every table.
pub fn tables() -> Vec<String> {
    let table = |at: usize| {
        let rows = 10 + 7 * at;
        let keys: String = match at {
            0 => (1..TABLES_MAX).map(|other| format!(", v AS key{other}")).collect(),
            _ => String::new(),
        };
        format!("CREATE TABLE t{at} AS SELECT v AS id, v % 10 AS next{keys} FROM generate_series(1, {rows}) AS g(v)")
    };
    (0..TABLES_MAX).map(table).collect()
}

/// A query that counts the rows of a join of so many tables: 10 for a star or a clique.
pub fn join(shape: Shape, tables: usize) -> String {
    let from: Vec<String> = (0..tables).map(|table| format!("t{table}")).collect();
    let conditions: Vec<String> = match shape {
        Shape::Chain => (1..tables).map(|t| format!("t{}.next = t{t}.id", t - 1)).collect(),
        Shape::Star => (1..tables).map(|t| format!("t0.key{t} = t{t}.id")).collect(),
        Shape::Clique => (0..tables)
            .flat_map(|a| (a + 1..tables).map(move |b| format!("t{a}.id = t{b}.id")))
            .collect(),
    };
    let (from, conditions) = (from.join(", "), conditions.join(" AND "));
    format!("SELECT count(*) FROM {from} WHERE {conditions}")
}

/// What `EXPLAIN (SUMMARY)` says that planning took.
pub fn planning_ms(lines: &str) -> Option<f64> {
    let line = lines.lines().find_map(|line| line.strip_prefix("Planning Time: "));
    line?.strip_suffix(" ms")?.parse().ok()
}
