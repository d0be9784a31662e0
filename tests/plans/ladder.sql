CREATE TABLE t10 AS SELECT v AS id, 'name ' || v AS name FROM generate_series(1, 10) AS g(v);
CREATE TABLE t1k AS SELECT v AS id, v % 10 + 1 AS t10_id, v % 7 AS kind FROM generate_series(1, 1000) AS g(v);
CREATE TABLE t100k AS SELECT v AS id, v % 1000 + 1 AS t1k_id, v % 97 AS kind, v / 100.0 AS price FROM generate_series(1, 100000) AS g(v);
CREATE TABLE t1m AS SELECT v AS id, v % 100000 + 1 AS t100k_id, v % 1000 + 1 AS t1k_id, (v % 50) * (v % 20) AS amount FROM generate_series(1, 1000000) AS g(v);
-- The smaller input is hashed, whichever is written first.
SELECT count(*) FROM t1m JOIN t1k ON t1m.t1k_id = t1k.id;
SELECT count(*) FROM t1k JOIN t1m ON t1m.t1k_id = t1k.id;
-- A filter makes the larger table the smaller input.
SELECT count(*) FROM t1m JOIN t100k ON t100k_id = t100k.id WHERE t1m.id < 500;
-- A selective dimension is joined before the others.
SELECT count(*) FROM t1m, t100k, t1k, t10 WHERE t100k_id = t100k.id AND t100k.t1k_id = t1k.id AND t10_id = t10.id AND name = 'name 3';
SELECT count(*) FROM t1m, t100k, t1k WHERE t100k_id = t100k.id AND t1m.t1k_id = t1k.id AND t100k.kind = 5 AND price < 10;
-- Semi and anti joins go where they help.
SELECT count(*) FROM t1m WHERE t100k_id IN (SELECT id FROM t100k WHERE kind = 3);
SELECT count(*) FROM t1m, t1k WHERE t1m.t1k_id = t1k.id AND EXISTS (SELECT 1 FROM t100k WHERE t100k.id = t100k_id AND price < 1);
SELECT count(*) FROM t1k WHERE NOT EXISTS (SELECT 1 FROM t100k WHERE t100k.t1k_id = t1k.id AND kind = 3);
-- An outer join waits for the inner join that leaves few rows.
SELECT count(name) FROM t1k LEFT JOIN t10 ON t10_id = t10.id JOIN t100k ON t100k.t1k_id = t1k.id WHERE t100k.id < 100;
SELECT count(*) FROM t1k LEFT JOIN t10 ON t10_id = t10.id WHERE t10.id IS NULL;
-- Cross products come last, and small.
SELECT count(*) FROM t10, t1k a, t1k b WHERE a.id = b.id;
SELECT count(*) FROM t1m, t10 a, t10 b WHERE t1m.t1k_id = a.id;
-- A band.
SELECT count(*) FROM t1k a JOIN t1k b ON a.id BETWEEN b.id - 2 AND b.id + 2;
-- Groups, few and many.
SELECT kind, count(*) FROM t100k GROUP BY kind;
SELECT t100k_id, sum(amount) FROM t1m GROUP BY t100k_id ORDER BY 2 DESC LIMIT 5;
-- A column of a union is no key, though columns of its inputs may be.
SELECT count(*) FROM (SELECT id, t1k_id FROM t100k UNION ALL SELECT id, t1k_id FROM t1m) u, t1k, t10 WHERE u.t1k_id = t1k.id AND t10_id = t10.id AND t1k.kind = 3 AND name = 'name 3';
-- A join's condition that NULLs do not meet makes an inner join of the outer one below.
SELECT count(*) FROM t100k LEFT JOIN t1k ON t1k_id = t1k.id, t10 WHERE t10_id = t10.id AND name = 'name 3';
-- What is made once for several is made of what one of them reads.
WITH sums AS (SELECT t1k_id, kind, sum(price) AS total FROM t100k GROUP BY t1k_id, kind) SELECT count(*) FROM sums a, sums b WHERE a.t1k_id = b.t1k_id AND a.kind = 3 AND b.kind = 4 AND b.total > 10;
