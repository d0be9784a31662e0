//! Joins that are hard on a planner: random predicates over several tables at once, expressions, cross products,
//! correlated subqueries, tables that nothing is known of. Answers are checked against loops over all combinations.

use crate::common::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A row of `x` and `y`.
type Row = [Option<i64>; 2];

/// What a predicate compares: a column (table, then 0 for x or 1 for y), a sum of two, or one and a constant.
#[derive(Clone, Copy, Debug)]
enum Term {
    Column(usize, usize),
    Sum((usize, usize), (usize, usize)),
    Shifted((usize, usize), i64),
    Constant(i64),
}

impl Term {
    fn draw(rng: &mut StdRng, tables: usize) -> Self {
        let mut column = || (rng.random_range(0..tables), rng.random_range(0..2));
        let (a, b) = (column(), column());
        match rng.random_range(0..10) {
            0 => Term::Sum(a, b),
            1 => Term::Shifted(a, rng.random_range(-1..2)),
            2 => Term::Constant(rng.random_range(0..4)),
            _ => Term::Column(a.0, a.1),
        }
    }

    fn sql(self) -> String {
        let name = |(table, column): (usize, usize)| format!("r{table}.{}", ["x", "y"][column]);
        match self {
            Term::Column(table, column) => name((table, column)),
            Term::Sum(a, b) => format!("{} + {}", name(a), name(b)),
            Term::Shifted(a, by) => format!("{} + ({by})", name(a)),
            Term::Constant(value) => value.to_string(),
        }
    }

    fn value(self, rows: &[Row]) -> Option<i64> {
        let of = |(table, column): (usize, usize)| rows[table][column];
        match self {
            Term::Column(table, column) => of((table, column)),
            Term::Sum(a, b) => Some(of(a)? + of(b)?),
            Term::Shifted(a, by) => Some(of(a)? + by),
            Term::Constant(value) => Some(value),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Predicate {
    Equal(Term, Term),
    Less(Term, Term),
    /// A row of the table, under another name, whose x equals the term; or none.
    Exists(bool, usize, Term),
}

impl Predicate {
    fn draw(rng: &mut StdRng, tables: usize) -> Self {
        let mut term = || Term::draw(rng, tables);
        let (a, b) = (term(), term());
        match rng.random_range(0..10) {
            0 => Predicate::Less(a, b),
            1 => Predicate::Exists(rng.random(), rng.random_range(0..tables), a),
            _ => Predicate::Equal(a, b),
        }
    }

    fn sql(self) -> String {
        match self {
            Predicate::Equal(a, b) => format!("{} = {}", a.sql(), b.sql()),
            Predicate::Less(a, b) => format!("{} < {}", a.sql(), b.sql()),
            Predicate::Exists(yes, table, term) => {
                let not = if yes { "" } else { "NOT " };
                format!("{not}EXISTS (SELECT 1 FROM r{table} AS s WHERE s.x = {})", term.sql())
            }
        }
    }

    fn holds(self, rows: &[Row], tables: &[Vec<Row>]) -> bool {
        match self {
            Predicate::Equal(a, b) => matches!((a.value(rows), b.value(rows)), (Some(a), Some(b)) if a == b),
            Predicate::Less(a, b) => matches!((a.value(rows), b.value(rows)), (Some(a), Some(b)) if a < b),
            Predicate::Exists(yes, table, term) => {
                let wanted = term.value(rows);
                let found = wanted.is_some() && tables[table].iter().any(|row| row[0] == wanted);
                found == yes
            }
        }
    }
}

/// Combinations of rows for which all predicates hold.
fn count(tables: &[Vec<Row>], predicates: &[Predicate]) -> usize {
    let mut at = vec![0; tables.len()];
    let mut found = 0;
    if tables.iter().any(Vec::is_empty) {
        return 0;
    }
    loop {
        let rows: Vec<Row> = tables.iter().zip(&at).map(|(table, &at)| table[at]).collect();
        found += usize::from(predicates.iter().all(|predicate| predicate.holds(&rows, tables)));
        let Some(next) = (0..at.len()).find(|&t| at[t] + 1 < tables[t].len()) else {
            return found;
        };
        at[next] += 1;
        at[..next].fill(0);
    }
}

fn create(c: &mut Client, name: &str, rows: &[Row]) {
    c.run(&format!("DROP TABLE IF EXISTS {name}"));
    c.run(&format!("CREATE TABLE {name} (x int, y int)"));
    let number = |value: &Option<i64>| value.map_or("NULL".into(), |value| value.to_string());
    let rows: Vec<String> = rows
        .iter()
        .map(|[x, y]| format!("({}, {})", number(x), number(y)))
        .collect();
    if !rows.is_empty() {
        c.run(&format!("INSERT INTO {name} VALUES {}", rows.join(", ")));
    }
}

#[test]
fn joins_by_any_predicates_are_right() {
    let seed = std::env::var("TENON_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut c = Client::new();
    for _ in 0..6 {
        let tables: Vec<Vec<Row>> = (0..6)
            .map(|_| {
                let value = |rng: &mut StdRng| (rng.random_range(0..6) > 0).then(|| rng.random_range(0..4));
                let rows = if rng.random_range(0..12) == 0 {
                    0
                } else {
                    rng.random_range(1..5)
                };
                (0..rows).map(|_| [value(&mut rng), value(&mut rng)]).collect()
            })
            .collect();
        for (at, rows) in tables.iter().enumerate() {
            create(&mut c, &format!("r{at}"), rows);
        }
        for _ in 0..20 {
            let joined = rng.random_range(2..=tables.len());
            let predicates: Vec<Predicate> = (0..rng.random_range(0..2 * joined))
                .map(|_| Predicate::draw(&mut rng, joined))
                .collect();
            let from: Vec<String> = (0..joined).map(|at| format!("r{at}")).collect();
            let mut sql = format!("SELECT count(*) FROM {}", from.join(", "));
            for (at, predicate) in predicates.iter().enumerate() {
                sql += if at == 0 { " WHERE " } else { " AND " };
                sql += &predicate.sql();
            }
            let expected = count(&tables[..joined], &predicates);
            assert_eq!(c.run(&sql), [expected.to_string()], "seed {seed}: {sql}\n{tables:?}");
        }
    }
}

/// A plan made for a table of ten rows runs over a hundred thousand, and one for a hundred thousand over none.
#[test]
fn tables_may_grow_and_shrink_under_a_plan() {
    let mut c = Client::new();
    c.run("CREATE TABLE big (id int, k int)");
    c.run("CREATE TABLE small (id int, k int)");
    c.run("INSERT INTO big SELECT v, v % 7 FROM generate_series(1, 10) AS g(v)");
    c.run("INSERT INTO small SELECT v, v FROM generate_series(0, 6) AS g(v)");
    c.run("PREPARE q AS SELECT count(*), sum(big.id) FROM big, small WHERE big.k = small.k");
    c.run("PREPARE p (int) AS SELECT count(*) FROM big, small WHERE big.k = small.k AND small.id < $1");
    for (rows, change) in [
        (10, "SELECT 1"),
        (
            100_000,
            "INSERT INTO big SELECT v, v % 7 FROM generate_series(11, 100000) AS g(v)",
        ),
        (0, "TRUNCATE big"),
        (
            50,
            "INSERT INTO big SELECT v, v % 7 FROM generate_series(1, 50) AS g(v)",
        ),
    ] {
        c.run(change);
        let sum = (1..=rows as u64).sum::<u64>();
        let sum = if rows == 0 { "NULL".into() } else { sum.to_string() };
        for _ in 0..3 {
            assert_eq!(c.run("EXECUTE q"), [format!("{rows}|{sum}")], "{change}");
            assert_eq!(c.run("EXECUTE p (7)"), [rows.to_string()], "{change}");
            assert_eq!(c.run("EXECUTE p (0)"), ["0"], "{change}");
        }
    }
}
