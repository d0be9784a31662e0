-- How errors look: the line, the place, the hint, the state.
CREATE TABLE t (alpha int, beta text);
SELECT alpha, gamma FROM t;
SELECT *
  FROM t
 WHERE zzzzzz = 1;
SELECT * FROM nosuch;
SELEC 1;
SELECT 'open;
';
SELECT 1 / 0;
\set VERBOSITY sqlstate
SELECT 1 / 0;
SELECT alpha FROM nosuch;
\set VERBOSITY default
BEGIN;
INSERT INTO t VALUES (1, 'x');
SELECT 1 / 0;
SELECT 1;
ROLLBACK;
SELECT count(*) FROM t;
COMMIT;
DROP TABLE IF EXISTS nosuch;
\echo :SQLSTATE
-- Rows that fail are shown.
CREATE TABLE kinds (a bool NOT NULL, b int[], c bytea, d jsonb, e timestamptz, f int4range, g float8, h numeric, i bit(3), j interval,
    k int[][], l text[], m timestamptz[], n text, CONSTRAINT never CHECK (a));
INSERT INTO kinds VALUES (false, '{1,null}', '\x00ff', '{"a":1}', '2020-01-01 00:00+02', '[1,3]', 1e20, 1.50, '101', '1 day 2 hours',
    '{{1,2},{3,4}}', '{"a b",null,"null",""}', '{2020-01-01}', repeat('é', 40));
INSERT INTO kinds (b, k, l) VALUES ('{}', '{}', '{}');
DROP TABLE kinds;
