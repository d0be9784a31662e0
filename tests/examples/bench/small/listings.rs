//! Queries as applications send them: the first rows of an order that an index has, keys that are expressions, joins by key; and
//! the last of these where rows change between. Each gives what it should before it is timed.

use anyhow::{Context, Result, ensure};

use super::postgres::told;
use super::{pgbench, trivial};

/// Rows of the table that is listed.
const ROWS: usize = 300_000;

/// A case: its name, pgbench's script, and a query like it with its answer.
pub struct Case {
    pub name: &'static str,
    script: &'static str,
    /// pgbench's.
    mode: &'static str,
    asked: &'static str,
    answer: &'static str,
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let case = |name, script, asked, answer| Case {
        name,
        script,
        mode: "prepared",
        asked,
        answer,
    };
    vec![
        case(
            "ORDER BY an indexed column LIMIT 20",
            "\\set at random(1, 290000)\nSELECT id, person, note FROM posts WHERE at > :at ORDER BY at LIMIT 20;\n",
            "SELECT min(id), max(id) FROM (SELECT id FROM posts WHERE at > 5000 ORDER BY at LIMIT 20) p",
            "12995|294969",
        ),
        case(
            "WHERE person = ... ORDER BY at DESC LIMIT 20",
            "\\set p random(1, 999)\nSELECT id, note FROM posts WHERE person = :p ORDER BY at DESC LIMIT 20;\n",
            "SELECT count(*), max(at) FROM (SELECT at FROM posts WHERE person = 5 ORDER BY at DESC LIMIT 20) p",
            "20|298810",
        ),
        case(
            "WHERE lower(note) = ...",
            "\\set n random(1, 299999)\nSELECT id, at FROM posts WHERE lower(note) = 'note ' || :n;\n",
            "SELECT id FROM posts WHERE lower(note) = 'note ' || 777",
            "777",
        ),
        case(
            "JOIN by key",
            "\\set n random(1, 299999)\nSELECT note, name FROM posts JOIN people ON people.id = person WHERE posts.id = :n;\n",
            "SELECT name FROM posts JOIN people ON people.id = person WHERE posts.id = 2777",
            "person 777",
        ),
        case(
            "UPDATE, JOIN by key",
            "\\set n random(1, 299999)\nUPDATE posts SET seen = seen + 1 WHERE id = :n;\nSELECT note, name, seen FROM posts JOIN people ON people.id = person WHERE posts.id = :n;\n",
            "SELECT name FROM posts JOIN people ON people.id = person WHERE posts.id = 2777",
            "person 777",
        ),
        Case {
            mode: "simple",
            ..case(
                "GROUP BY of a hundred rows, simple",
                "\\set n random(1, 299900)\n\\set m :n + 99\nSELECT person % 10 AS p, count(*), max(note) FROM posts WHERE id BETWEEN :n AND :m GROUP BY p ORDER BY p;\n",
                "SELECT count(*), sum(c) FROM (SELECT person % 10 AS p, count(*) AS c FROM posts WHERE id BETWEEN 500 AND 599 GROUP BY p) q",
                "10|100",
            )
        },
        Case {
            mode: "simple",
            ..case(
                "IN of ten, functions of texts, simple",
                "\\set n random(1, 29990)\nSELECT id, upper(note) || '!', length(note) FROM posts WHERE id IN (:n, 1:n, 2:n, 3, 4, 5, 6, 7, 8, 9) AND note LIKE 'Note%';\n",
                "SELECT sum(length(upper(note) || '!')) FROM posts WHERE id IN (10, 110, 210, 3, 4, 5, 6, 7, 8, 9) AND note LIKE 'Note%'",
                "75",
            )
        },
        case(
            "two ranges by OR",
            "\\set n random(1, 290000)\nSELECT count(person) FROM posts WHERE at BETWEEN :n AND :n + 5 OR at BETWEEN :n + 1000 AND :n + 1005;\n",
            "SELECT count(person) FROM posts WHERE at BETWEEN 5000 AND 5005 OR at BETWEEN 6000 AND 6005",
            "12",
        ),
        case(
            "a page: LIMIT 20 OFFSET of any",
            "\\set n random(1, 50)\nSELECT id, note FROM posts WHERE person = 7 ORDER BY at LIMIT 20 OFFSET :n;\n",
            "SELECT count(*), max(at) FROM (SELECT at FROM posts WHERE person = 7 ORDER BY at LIMIT 20 OFFSET 30) p",
            "20|49847",
        ),
        Case {
            mode: "simple",
            ..case(
                "a comment in the text, simple",
                "\\set n random(1, 299999)\n/* request :n */ SELECT note FROM posts WHERE id = :n;\n",
                "/* of it */ SELECT note FROM posts WHERE id = 2777",
                "Note 2777",
            )
        },
    ]
}

pub fn fill(server: &str) -> Result<()> {
    trivial::with_client(server, async |client| {
        let tables = format!(
            "CREATE TABLE people (id int PRIMARY KEY, name text);
             INSERT INTO people SELECT g, 'person ' || g FROM generate_series(0, 9999) AS g;
             CREATE TABLE posts (id int PRIMARY KEY, person int, at int, note text, seen int DEFAULT 0);
             INSERT INTO posts SELECT g, g % 1000, g::bigint * 7919 % 300007, 'Note ' || g FROM generate_series(1, {ROWS}) AS g;
             CREATE INDEX ON posts (at); CREATE INDEX ON posts (person, at); CREATE INDEX ON posts (lower(note))"
        );
        client.batch_execute(&tables).await?;
        Ok(client.batch_execute("ANALYZE").await?)
    })
}

/// Transactions of a case a second.
pub fn rate(server: &str, case: &Case, clients: usize, seconds: u64) -> Result<f64> {
    let file = tempfile::Builder::new().prefix("tenon-bench.").tempfile()?;
    std::fs::write(file.path(), case.script)?;
    let path = file.path().to_str().context("a path that is no text")?;
    let found = told("psql", &["-XAtq", "-d", server, "-c", case.asked])?;
    ensure!(found.trim() == case.answer, "{}: {found}", case.name);
    Ok(pgbench::script(server, (path, case.mode), clients, seconds)?.0)
}
