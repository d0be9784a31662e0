-- What \d and \di show of indexes.
CREATE TABLE people (id int PRIMARY KEY, name varchar(20) NOT NULL, "Pay Day" date, note text);
CREATE INDEX ON people (name, id DESC);
CREATE UNIQUE INDEX people_day ON people ("Pay Day" DESC NULLS LAST);
CREATE UNIQUE INDEX one_note ON people (note) NULLS NOT DISTINCT;
CREATE INDEX patterns ON people (name text_pattern_ops);
CREATE INDEX people_day ON people (id);
CREATE INDEX IF NOT EXISTS people_day ON people (id);
\d people
\di
\d people_day
\d people_name_id_idx
\d people_pkey
SELECT * FROM pg_indexes WHERE tablename = 'people' ORDER BY indexname;
INSERT INTO people VALUES (1, 'Ann', '2024-01-31', NULL);
INSERT INTO people VALUES (2, 'Bo', '2024-01-31', 'x');
INSERT INTO people VALUES (2, 'Bo', '2024-02-29', NULL);
CREATE UNIQUE INDEX on people (nosuch);
ALTER TABLE people DROP COLUMN "Pay Day";
INSERT INTO people VALUES (3, 'Ann', 'y');
CREATE UNIQUE INDEX twice ON people (name);
DROP INDEX people_pkey;
DROP INDEX nosuch;
DROP INDEX IF EXISTS nosuch;
DROP INDEX people;
DROP TABLE patterns;
ALTER INDEX patterns RENAME TO people_pkey;
ALTER INDEX patterns RENAME TO by_name;
DROP INDEX by_name, one_note;
\di
