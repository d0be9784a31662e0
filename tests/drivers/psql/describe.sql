-- What \d and its kin show.
CREATE TABLE people (id int PRIMARY KEY, name varchar(20) NOT NULL, pay numeric(10, 2) DEFAULT 0, born date, note text);
CREATE VIEW adults AS SELECT id, name FROM people WHERE born < '2006-01-01';
\d
\dt
\dv
\d people
\d adults
\d+ people
\d people_pkey
\di
\dt nosuch*
CREATE TABLE empty (a int, b bigint);
\dt+ empty
\dn
\du tenon
\l tenon
\df
\df nosuch
\dT
\ds
\dm
\dx
\dp people
\dD
CREATE SCHEMA other;
CREATE TABLE other.things (id int, tag char(3) DEFAULT 'new', ok bool DEFAULT true);
\dt other.*
\d other.things
\dt *.things
SELECT 'people'::regclass, 'other.things'::regclass, 'people_pkey'::regclass::oid = 'people_pkey'::regclass AS same;
SELECT attrelid::regclass, attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'people'::regclass AND attnum > 0 ORDER BY attnum;
SELECT to_regclass('nosuch'), to_regtype('int4'), to_regtype('nosuch'), 'double precision'::regtype::oid;
SELECT conname, conkey, contype, conrelid::regclass FROM pg_constraint WHERE conrelid = 'people'::regclass;
SELECT indkey, indisprimary FROM pg_index WHERE indrelid = 'people'::regclass;
INSERT INTO people VALUES (1, 'Ann', 10.50, '1990-05-06', NULL), (2, 'Bo', 7, NULL, 'x');
SELECT * FROM people ORDER BY id;
\x
SELECT * FROM people ORDER BY id LIMIT 1;
\x
\pset null (null)
SELECT note, born FROM people ORDER BY id;
\echo :ROW_COUNT rows
