//! Random window functions: as they are, filtered by, and grouped.

use super::{Fuzzer, NUMBERS};
use rand::prelude::*;

/// Columns that rows are put in order by. Rows that have all of these in common are the same row twice to who reads no others.
const KEYS: [&str; 8] = ["a", "b", "n", "m", "f", "d", "s", "x"];
/// Frames that have peers all in or all out.
const PEERS: [&str; 4] = [
    "",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
];
const FRAMES: [&str; 11] = [
    "",
    "",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 5 FOLLOWING AND 7 FOLLOWING",
    "ROWS BETWEEN 70 PRECEDING AND 5 PRECEDING",
    "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
];

impl Fuzzer {
    /// A query of window functions over tables' rows.
    pub fn windows(&mut self) -> String {
        let (from, mut conditions, _) = self.source();
        if self.one_in(2) {
            conditions.push(self.condition("l", 1));
        }
        let mut keys = KEYS.to_vec();
        keys.shuffle(&mut self.random);
        keys.truncate(self.random.random_range(1..5));
        let mut columns: Vec<String> = keys.iter().map(|key| format!("l.{key} AS {key}")).collect();
        let order = self.window(&keys);
        for at in 0..self.random.random_range(1..4) {
            // Which of two equal rows comes first in one order says nothing of another: there values are of peers alone.
            let (window, frame, function) = match at > 0 && self.one_in(2) {
                true => (self.window(&keys), self.pick(&PEERS), self.of_peers(&keys)),
                false => (order.clone(), self.pick(&FRAMES), self.window_function(&keys)),
            };
            columns.push(format!("{function} OVER ({window} {frame}) AS w{at}"));
        }
        let (functions, mut names) = (columns.len() - keys.len(), keys.clone());
        names.extend(&["w0", "w1", "w2"][..functions]);
        let wheres = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let rows = format!("SELECT {} FROM {from}{wheres}", columns.join(", "));
        let every = |count: usize| (1..=count).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        match self.random.random_range(0..5) {
            0 => format!(
                "SELECT {key}, count(*), count(w0), max({key}) FROM ({rows}) q GROUP BY {key} ORDER BY 1, 2, 3, 4",
                key = keys[0]
            ),
            1 => format!(
                "SELECT {} FROM ({rows}) q WHERE w0 IS NOT NULL AND {} IS NOT NULL ORDER BY {} LIMIT {}",
                names.join(", "),
                keys[0],
                every(names.len()),
                self.random.random_range(0..50)
            ),
            2 => format!("{rows} ORDER BY {} DESC", every(names.len()).replace(", ", " DESC, ")),
            _ => format!("{rows} ORDER BY {}", every(names.len())),
        }
    }

    /// A window in which rows whose values may differ are told apart.
    fn window(&mut self, keys: &[&str]) -> String {
        let mut order = keys.to_vec();
        order.shuffle(&mut self.random);
        let parts = self.random.random_range(0..order.len().min(3));
        let mut window = String::new();
        if parts > 0 {
            let of: Vec<String> = order[..parts].iter().map(|key| format!("l.{key}")).collect();
            window = format!("PARTITION BY {} ", of.join(", "));
        }
        let order = order[parts..].iter().map(|key| {
            let (way, nulls) = (
                self.pick(&["", " DESC"]),
                self.pick(&["", " NULLS FIRST", " NULLS LAST"]),
            );
            format!("l.{key}{way}{nulls}")
        });
        format!("{window}ORDER BY {}", order.collect::<Vec<_>>().join(", "))
    }

    fn number(&mut self, keys: &[&str]) -> String {
        let numbers: Vec<&str> = keys.iter().filter(|key| NUMBERS.contains(key)).copied().collect();
        match numbers.is_empty() {
            true => "1".to_string(),
            false => format!("l.{}", self.pick(&numbers)),
        }
    }

    /// A function that has one value for all peers.
    fn of_peers(&mut self, keys: &[&str]) -> String {
        let number = self.number(keys);
        match self.random.random_range(0..8) {
            0 => "rank()".into(),
            1 => "dense_rank()".into(),
            2 => "cume_dist()".into(),
            3 => "count(*)".into(),
            4 => format!("sum({number})"),
            5 => format!("avg({number})"),
            6 => format!("min({number})"),
            _ => format!("max({number})"),
        }
    }

    fn window_function(&mut self, keys: &[&str]) -> String {
        let value = format!("l.{}", self.pick(keys));
        let number = self.number(keys);
        match self.random.random_range(0..16) {
            0 => "row_number()".into(),
            1 => "rank()".into(),
            2 => "dense_rank()".into(),
            3 => self.pick(&["percent_rank()", "cume_dist()"]).into(),
            4 => format!("lag({value}, {})", self.random.random_range(-1..4)),
            5 => format!("lead({value}, {})", self.random.random_range(0..4)),
            6 => format!("lag({number}, {}, 0)", self.random.random_range(-2..4)),
            7 => format!("first_value({value})"),
            8 => format!("last_value({value})"),
            9 => "count(*)".into(),
            10 => format!("count({value})"),
            11 | 12 => format!("sum({number})"),
            13 => format!("avg({number})"),
            14 => format!("min({number})"),
            _ => format!("max({number} * 2)"),
        }
    }
}
