CREATE TABLE numbers (i int4, b int8, f float8, n numeric(10,2), s int2);
INSERT INTO numbers SELECT x, x * 1000, x / 3.0, x / 7.0, x % 100 FROM generate_series(1, 50) g(x);
CREATE TABLE texts (k int4, t text, c varchar(20), u uuid);
INSERT INTO texts SELECT x, 'text ' || x, 'c' || x, NULL FROM generate_series(1, 50) g(x);
CREATE TABLE times (d date, ts timestamp, tz timestamptz, iv interval, flag bool);
INSERT INTO times VALUES ('2024-01-01', '2024-01-01 10:00', '2024-01-01 10:00', '1 day', true), (NULL, NULL, NULL, NULL, NULL);
