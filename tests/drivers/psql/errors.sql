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
