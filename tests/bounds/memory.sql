-- Each asks for far more memory than queries have.
select repeat('x', 1000000000)
select length(repeat('x', 2000000000))
select length(lpad('x', 2000000000, 'y'))
select lpad('x', 2000000000, 'y')
select rpad('x', 200000000, 'ä')
select length(repeat('x', 500000000) || repeat('y', 500000000))
select length(repeat('x', 100000000) || repeat('y', 100000000))
select length(replace(repeat('a', 10000000), 'a', repeat('b', 1000)))
select length(regexp_replace(repeat('a', 10000000), 'a', repeat('b', 1000), 'g'))
select length(upper(repeat('x', 300000000)))
select length(concat(repeat('x', 300000000), repeat('y', 300000000)))
select length(concat_ws(repeat('x', 300000000), 'a', 'b', 'c'))
select length(translate(repeat('x', 300000000), 'x', 'y'))
select length(reverse(repeat('x', 300000000)))
select length(initcap(repeat('x', 300000000)))
select length(format('%1000000000s', 'x'))
select length(format('%*s', 1000000000, 'x'))
select length(overlay(repeat('x', 300000000) placing repeat('y', 300000000) from 2))
select length(encode(repeat('x', 300000000)::bytea, 'hex'))
select length(md5(repeat('x', 300000000)))
select cardinality(string_to_array(repeat('a,', 100000000), ','))
select cardinality(string_to_array(repeat('a', 100000000), NULL))
select cardinality(regexp_split_to_array(repeat('a,', 10000000), ','))
select cardinality(array_fill(1, array[1000000000]))
select cardinality(array_fill(1, array[100000, 100000]))
select generate_series(1, 1000000000000)
select count(*) from (select generate_series(1, 1000000000000)) q
select sum(g) over () from generate_series(1, 1000000000) g(g)
select row_number() over (order by g) from generate_series(1, 1000000000) g(g)
select lag(g) over (order by g desc) from generate_series(1, 100000000) g(g)
select max(s) from (select repeat('x', g) s from generate_series(1, 1000000) g(g)) q
select count(distinct repeat('x', g % 1000 + 100) || g) from generate_series(1, 10000000) g(g)
select length(string_agg(repeat('x', 1000), ',')) from generate_series(1, 10000000)
select cardinality(array_agg(g)) from generate_series(1, 1000000000) g(g)
select cardinality(array_agg(repeat('x', 1000))) from generate_series(1, 10000000) g(g)
select g from generate_series(1, 100000000) g(g) order by g % 1000, g desc
select repeat('x', 1000) || g as s from generate_series(1, 10000000) g(g) order by s
select count(*) from (select a, b from generate_series(1, 10000) a(a), generate_series(1, 10000) b(b) order by a * b % 1000, a) q
with recursive r(n, s) as (select 1, 'x' union all select n + 1, s || s from r where n < 40) select max(length(s)) from r
with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r
with recursive r(n) as (select 1 union select n + 1 from r) select count(*) from r
with recursive r(n) as (select 1 union all select n from r, generate_series(1, 10)) select count(*) from r
select count(*) from generate_series(1, 100000) a(a) join generate_series(1, 100000) b(b) on a % 10 = b % 10
select a.g, b.g, repeat('x', 1000) from generate_series(1, 100000) a(g), generate_series(1, 100000) b(g) order by 3, 1, 2
select g, count(*) from generate_series(1, 100000000) g(g) group by g
select distinct g::text || repeat('y', 100) from generate_series(1, 10000000) g(g)
select g from generate_series(1, 50000000) g(g) except select g from generate_series(1, 50000000) h(g)
select g from generate_series(1, 50000000) g(g) union select g + 1 from generate_series(1, 50000000) h(g)
select case when g % 2 = 0 then repeat('x', 100000000) else 'y' end from generate_series(1, 16000) g(g)
select coalesce(nullif(repeat('x', 100000000), ''), 'y') from generate_series(1, 16000) g(g)
select length(repeat('x', 100000000) || g) from generate_series(1, 16000) g(g)
select length(repeat(repeat('x', 10000), 100000))
select length(repeat('x', g)) from generate_series(900000000, 1000000000) g(g)
select array_agg(a) from (select array_agg(g) a from generate_series(1, 10000000) g(g) group by g % 1000000) q
select unnest(array_agg(g)) from generate_series(1, 100000000) g(g)
select unnest(string_to_array(repeat('a,', 100000000), ','))
select json_agg(g) from generate_series(1, 100000000) g(g)
select length(array_to_string(array_agg(repeat('x', 1000)), ',')) from generate_series(1, 10000000)
select percentile_cont(0.5) within group (order by g) from generate_series(1, 100000000) g(g)
select count(*) from generate_series(1, 1000000000) a(a) where a in (select b from generate_series(1, 1000000000) b(b))
select (select string_agg(repeat('x', 1000000), '') from generate_series(1, 2000))
values (repeat('x', 500000000)), (repeat('y', 500000000))
select repeat('x', 100000) from generate_series(1, 100000) order by 1
select array_fill(1, array[10000, 10000])
select array_cat(array_fill(1, array[10000000]), array_fill(1, array[10000000])) from generate_series(1, 100)
select unnest(array_fill(1, array[100000000]))
select string_agg(md5(g::text), ',') over (order by g) from generate_series(1, 100000) g(g)
select array_agg(repeat('x', 10000)) over (order by g) from generate_series(1, 100000) g(g)
select string_agg(md5(g::text), ',') over (order by g rows between 50000 preceding and current row) from generate_series(1, 100000) g(g)
select sum(g::float8) over (order by g rows between 100000 preceding and current row) from generate_series(1, 300000) g(g)
select jsonb_agg(g) over (order by g) from generate_series(1, 100000) g(g)
select to_char(1, repeat('9', 20000000))
select to_char(now(), repeat('YYYY', 50000000))
select string_to_table(repeat('a,', 50000000), ',')
select regexp_split_to_table(repeat('a,', 50000000), ',')
