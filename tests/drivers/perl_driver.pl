# DBD::Pg: placeholders of all kinds, types in and out, arrays and bytes, what it asks the catalogs, COPY, savepoints,
# errors, notifications, queries that do not wait, cursors.
use strict;
use warnings;
use DBI qw(:sql_types);
use DBD::Pg qw(:pg_types);
use Data::Dumper;

$Data::Dumper::Indent = 0;
$Data::Dumper::Terse = $Data::Dumper::Sortkeys = $Data::Dumper::Useqq = 1;

sub expect {
    my ($found, $wanted) = map { Dumper($_) } @_;
    die "$found instead of $wanted, line " . (caller)[2] if $found ne $wanted;
}

my $dbh = DBI->connect("dbi:Pg:$ENV{TENON_DSN}" =~ s/ /;/gr, undef, undef, { RaiseError => 1, PrintError => 0 });

sub fails {
    my ($state, $work) = @_;
    expect(scalar(eval { $work->(); 1 }), undef);
    expect($dbh->state, $state);
}

die $dbh->{pg_server_version} if $dbh->{pg_server_version} < 150000;
$dbh->do("CREATE TABLE things (id serial PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'x', price numeric(8, 2), raw bytea,
    numbers int[], words text[], doc jsonb, flag bool, ratio float8)");
$dbh->do("CREATE UNIQUE INDEX things_name ON things (name, price DESC) WHERE flag");
$dbh->do("CREATE TABLE parts (id int REFERENCES things ON DELETE CASCADE, x int CHECK (x > 0), PRIMARY KEY (id, x))");
$dbh->do("COMMENT ON COLUMN things.name IS 'the name'");

# Values in and out.
my $sth = $dbh->prepare("INSERT INTO things (name, price, raw, numbers, words, doc, flag, ratio) VALUES (?,?,?,?,?,?,?,?) RETURNING id");
my $raw = "\x00\xff'\\";
$sth->bind_param(3, $raw, { pg_type => PG_BYTEA });
$sth->execute('naïve', 1.5, $raw, [1, undef, 3], ['a b', 'c"d', undef], '{"a": 1}', 1, 0.1);
expect($sth->fetchall_arrayref, [[1]]);
expect([$dbh->last_insert_id(undef, 'public', 'things', undef)], [1]);
my $row = $dbh->selectrow_hashref("SELECT * FROM things");
expect([@$row{qw(price raw numbers words doc flag ratio)}],
    ['1.50', $raw, [1, undef, 3], ['a b', 'c"d', undef], '{"a": 1}', 1, 0.1]);
$sth = $dbh->prepare("SELECT id, name, price, flag FROM things");
$sth->execute;
expect([@$sth{qw(NAME TYPE PRECISION NULLABLE)}],
    [[qw(id name price flag)], [SQL_INTEGER, SQL_VARCHAR, SQL_NUMERIC, SQL_BOOLEAN], [4, 24, 8, 1], [0, 0, 1, 1]]);
expect($dbh->selectrow_array("SELECT '{{1,2},{3,4}}'::int[]"), [[1, 2], [3, 4]]);

# Placeholders: `?`, `$1`, `:name`, beside the operator; with and without a prepared statement.
$sth = $dbh->prepare("SELECT :a::int + :b::int");
$sth->bind_param(':a', 1);
$sth->bind_param(':b', 2);
$sth->execute;
expect($sth->fetchall_arrayref, [[3]]);
expect($dbh->selectcol_arrayref('SELECT $1::text || $2', undef, 'a', 'b'), ['ab']);
$sth = $dbh->prepare(q{SELECT '{"a":1}'::jsonb \? ?});
$sth->execute('a');
expect($sth->fetchall_arrayref, [[1]]);
$sth = $dbh->prepare("SELECT ?, ?::int + 1", { pg_server_prepare => 0 });
$sth->execute("a'b\\", 3);
expect($sth->fetchall_arrayref, [["a'b\\", 4]]);
$sth = $dbh->prepare("INSERT INTO things (name, price) VALUES (?, ?)");
expect([$sth->execute_array({}, ['x1', 'x2'], [1, 2])], [2, 2]);
expect($dbh->selectcol_arrayref("SELECT name FROM things WHERE name = ANY (?) ORDER BY 1", undef, ['x1', 'x2']), ['x1', 'x2']);

# COPY.
$dbh->do("COPY things (name, price) FROM STDIN");
$dbh->pg_putcopydata("c$_\t$_\n") for 1 .. 1000;
$dbh->pg_putcopyend;
$dbh->do("COPY (SELECT name FROM things WHERE price > 998 ORDER BY id) TO STDOUT");
my ($line, @lines) = '';
push @lines, $line while $dbh->pg_getcopydata($line) >= 0;
expect(\@lines, ["c999\n", "c1000\n"]);

# What it asks the catalogs.
sub told { my ($sth, @names) = @_; [map { [@$_{@names}] } @{ $sth->fetchall_arrayref({}) }] }
expect(told($dbh->table_info(undef, 'public', '%', 'TABLE'), 'TABLE_NAME'), [['parts'], ['things']]);
expect([@{ told($dbh->column_info(undef, 'public', 'things', '%'), qw(COLUMN_NAME TYPE_NAME COLUMN_SIZE NULLABLE COLUMN_DEF REMARKS)) }[0, 1, 2]],
    [['id', 'integer', 4, 0, "nextval('things_id_seq'::regclass)", undef],
     ['name', 'character varying', 20, 0, "'x'::character varying", 'the name'], ['price', 'numeric', '2,8', 1, undef, undef]]);
expect([$dbh->primary_key(undef, 'public', 'parts')], ['id', 'x']);
expect(told($dbh->foreign_key_info(undef, 'public', 'things', undef, 'public', 'parts'), qw(UK_COLUMN_NAME FK_COLUMN_NAME DELETE_RULE)),
    [['id', 'id', 0]]);
expect(told($dbh->statistics_info(undef, 'public', 'things', 1, 0), qw(INDEX_NAME COLUMN_NAME ASC_OR_DESC pg_null_ordering)),
    [['things_name', 'name', 'A', 'last'], ['things_name', 'price', 'D', 'first'], ['things_pkey', 'id', 'A', 'last']]);

# Transactions and errors.
$dbh->begin_work;
$dbh->do("INSERT INTO things (name) VALUES ('kept')");
$dbh->pg_savepoint('one');
fails('23505', sub { $dbh->do("INSERT INTO things (id) VALUES (1)") });
fails('25P02', sub { $dbh->do("SELECT 1") });
$dbh->pg_rollback_to('one');
$dbh->commit;
expect($dbh->selectcol_arrayref("SELECT count(*) FROM things WHERE name = 'kept'"), [1]);
fails('23502', sub { $dbh->do("INSERT INTO things (name) VALUES (NULL)") });
expect([map { $dbh->pg_error_field($_) } qw(schema table column)], [qw(public things name)]);
fails('23514', sub { $dbh->do("INSERT INTO parts VALUES (1, 0)") });
fails('42P01', sub { $dbh->do("SELECT * FROM absent") });
expect($dbh->pg_error_field('statement_position'), 15);

# Notifications; queries that do not wait; cursors.
$dbh->do("LISTEN news");
$dbh->do("NOTIFY news, 'hello'");
expect([@{ $dbh->pg_notifies }[0, 2]], ['news', 'hello']);
$sth = $dbh->prepare("SELECT 42, pg_sleep(0.01)", { pg_async => PG_ASYNC });
$sth->execute;
$dbh->pg_result;
expect(($sth->fetchrow_array)[0], 42);
$sth = $dbh->prepare("SELECT pg_sleep(60)", { pg_async => PG_ASYNC });
$sth->execute;
expect($dbh->pg_cancel, 1);
$dbh->begin_work;
$dbh->do("DECLARE own CURSOR FOR SELECT id FROM things ORDER BY id");
expect($dbh->selectcol_arrayref("FETCH 2 FROM own"), [1, 2]);
expect(scalar @{ $dbh->selectcol_arrayref("FETCH ALL FROM own") }, 1003 - 1);
$dbh->commit;
$dbh->disconnect;
print "DBD::Pg $DBD::Pg::VERSION\n";
