-- A session: prepared statements, \gset, \gx, \gexec, \bind-free scripts, several statements on a line.
CREATE TABLE t AS SELECT i AS id, 'n' || i AS name FROM generate_series(1, 5) AS g(i);
SELECT max(id) AS top FROM t \gset
\echo top is :top
SELECT * FROM t WHERE id = :top \gx
SELECT format('SELECT %s AS x', id) FROM t WHERE id < 3 ORDER BY id \gexec
SELECT 1; SELECT 2 AS two;
PREPARE p(int) AS SELECT name FROM t WHERE id = $1;
EXECUTE p(3);
SELECT id, name FROM t ORDER BY id \g (format=unaligned)
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id;
FETCH 2 FROM c;
CLOSE c;
COMMIT;
\set AUTOCOMMIT off
INSERT INTO t VALUES (6, 'six');
ROLLBACK;
\set AUTOCOMMIT on
SELECT count(*) FROM t;
\set FETCH_COUNT 2
SELECT id FROM t ORDER BY id;
