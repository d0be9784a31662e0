-- What \d and its kin show.
CREATE TABLE people (id int PRIMARY KEY, name varchar(20) NOT NULL, pay numeric(10, 2) DEFAULT 0, born date, note text);
CREATE VIEW adults AS SELECT id, name FROM people WHERE born < '2006-01-01';
\d
\dt
\dv
\d people
\dt nosuch*
INSERT INTO people VALUES (1, 'Ann', 10.50, '1990-05-06', NULL), (2, 'Bo', 7, NULL, 'x');
SELECT * FROM people ORDER BY id;
\x
SELECT * FROM people ORDER BY id LIMIT 1;
\x
\pset null (null)
SELECT note, born FROM people ORDER BY id;
\echo :ROW_COUNT rows
