<?php
// PHP: PDO (both kinds of prepared statements, types, savepoints, errors, COPY, what it asks the catalogs) and the functions pg_*.
error_reporting(E_ALL);
set_error_handler(function ($level, $message) { throw new Error($message); });

function expect($found, $wanted) {
    if ($found !== $wanted) {
        throw new Exception(var_export($found, true) . ' instead of ' . var_export($wanted, true));
    }
}

function fails(string $state, callable $work): PDOException {
    try {
        $work();
    } catch (PDOException $error) {
        expect($error->getCode(), $state);
        return $error;
    }
    throw new Exception("no $state");
}

$dsn = getenv('TENON_DSN');
foreach ([false, true] as $emulate) {
    $pdo = new PDO('pgsql:' . strtr($dsn, ' ', ';'), null, null, [PDO::ATTR_EMULATE_PREPARES => $emulate]);
    $pdo->exec("CREATE TABLE things (id serial PRIMARY KEY, name varchar(20) UNIQUE NOT NULL, price numeric(8, 2), flag bool,
        raw bytea, ratio float8, big int8, at timestamptz, doc jsonb)");
    $insert = $pdo->prepare('INSERT INTO things (name, price, flag, raw, ratio, big, at, doc)
        VALUES (:name, :price, :flag, :raw, :ratio, :big, :at, :doc) RETURNING id');
    $insert->bindValue('name', "n'a\\ï");
    $insert->bindValue('price', '1.5');
    $insert->bindValue('flag', true, PDO::PARAM_BOOL);
    $insert->bindValue('raw', "\0\xff'", PDO::PARAM_LOB);
    $insert->bindValue('ratio', 0.1);
    $insert->bindValue('big', PHP_INT_MAX, PDO::PARAM_INT);
    $insert->bindValue('at', '2020-01-02 03:04:05+00');
    $insert->bindValue('doc', null, PDO::PARAM_NULL);
    $insert->execute();
    expect($insert->fetchColumn(), 1);
    expect($pdo->lastInsertId(), '1');
    expect($pdo->lastInsertId('things_id_seq'), '1');
    $row = $pdo->query('SELECT * FROM things')->fetch(PDO::FETCH_ASSOC);
    expect(stream_get_contents($row['raw']), "\0\xff'");
    unset($row['raw']);
    expect($row, ['id' => 1, 'name' => "n'a\\ï", 'price' => '1.50', 'flag' => true, 'ratio' => PHP_VERSION_ID < 80400 ? '0.1' : 0.1,
        'big' => PHP_INT_MAX, 'at' => '2020-01-02 03:04:05+00', 'doc' => null]);
    $query = $pdo->query('SELECT id, name, price, flag FROM things');
    $meta = array_map(fn ($at) => $query->getColumnMeta($at), range(0, 3));
    expect(array_column($meta, 'native_type'), ['int4', 'varchar', 'numeric', 'bool']);
    expect(array_column($meta, 'table'), array_fill(0, 4, 'things'));

    // Placeholders by place, many rows, and what stands beside the operator.
    $many = $pdo->prepare('INSERT INTO things (name, price) VALUES (?, ?)');
    foreach (range(1, 20) as $number) {
        $many->execute(["t$number", $number]);
    }
    $found = $pdo->prepare('SELECT name FROM things WHERE price BETWEEN ? AND ? ORDER BY price LIMIT ?');
    $found->bindValue(1, 3, PDO::PARAM_INT);
    $found->bindValue(2, 9, PDO::PARAM_INT);
    $found->bindValue(3, 2, PDO::PARAM_INT);
    $found->execute();
    expect($found->fetchAll(PDO::FETCH_COLUMN), ['t3', 't4']);
    $has = $pdo->prepare('SELECT \'{"a":1}\'::jsonb ?? :key');
    $has->execute(['key' => 'a']);
    expect($has->fetchColumn(), true);
    expect($pdo->prepare('UPDATE things SET flag = false WHERE price > ?')->execute([18]), true);
    expect($pdo->exec('UPDATE things SET flag = true WHERE price > 15'), 5);

    // Transactions and errors.
    $pdo->beginTransaction();
    $pdo->exec("INSERT INTO things (name) VALUES ('kept')");
    $pdo->exec('SAVEPOINT one');
    $error = fails('23505', fn () => $pdo->exec("INSERT INTO things (name) VALUES ('t1')"));
    expect(str_contains($error->getMessage(), 'Key (name)=(t1) already exists.'), true);
    fails('25P02', fn () => $pdo->query('SELECT 1'));
    $pdo->exec('ROLLBACK TO one');
    $pdo->commit();
    expect($pdo->query("SELECT count(*) FROM things WHERE name = 'kept'")->fetchColumn(), 1);
    fails('23502', fn () => $many->execute([null, 1]));
    fails('22P02', fn () => $many->execute(['x', 'no number']));
    fails('42P01', fn () => $pdo->query('SELECT * FROM absent'));

    // COPY; a cursor that goes back.
    expect($pdo->pgsqlCopyFromArray('things', ["c1\t101", "c2\t102"], "\t", '\\\\N', 'name, price'), true);
    expect($pdo->pgsqlCopyToArray('(SELECT name, price FROM things WHERE price > 100 ORDER BY 1)') , ["c1\t101.00\n", "c2\t102.00\n"]);
    $pdo->beginTransaction();
    $cursor = $pdo->prepare('SELECT id FROM things ORDER BY id', [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
    $cursor->execute();
    expect($cursor->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_LAST) !== false, true);
    expect($cursor->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_FIRST), [1]);
    $cursor = null;
    $pdo->commit();
    $pdo->exec("LISTEN news; NOTIFY news, 'hello'");
    expect($pdo->pgsqlGetNotify(PDO::FETCH_ASSOC, 1000)['payload'], 'hello');
    $pdo->exec('DROP TABLE things');
    $pdo = null;
}

// The functions pg_*.
$conn = pg_connect($dsn);
pg_query($conn, 'CREATE TABLE things (id int PRIMARY KEY, name varchar(20) DEFAULT \'x\', tags text[], raw bytea, at date)');
expect(pg_affected_rows(pg_query_params($conn, 'INSERT INTO things VALUES ($1, $2, $3)', [1, "a'b", '{q,NULL}'])), 1);
pg_prepare($conn, 'one', 'SELECT * FROM things WHERE id = $1');
$result = pg_execute($conn, 'one', [1]);
expect(pg_fetch_assoc($result), ['id' => '1', 'name' => "a'b", 'tags' => '{q,NULL}', 'raw' => null, 'at' => null]);
expect([pg_field_type($result, 0), pg_field_type($result, 2), pg_field_table($result, 0)], ['int4', '_text', 'things']);
$meta = pg_meta_data($conn, 'things');
expect(array_map(fn ($column) => $column['type'], $meta), ['id' => 'int4', 'name' => 'varchar', 'tags' => '_text', 'raw' => 'bytea', 'at' => 'date']);
expect([$meta['id']['not null'], $meta['name']['has default'], $meta['name']['not null']], [true, true, false]);
expect(pg_insert($conn, 'things', ['id' => '2', 'name' => 'two', 'at' => '2024-02-29']) !== false, true);
expect(pg_update($conn, 'things', ['name' => 'three'], ['id' => '2']), true);
expect(pg_select($conn, 'things', ['name' => 'three'])[0]['at'], '2024-02-29');
expect(pg_delete($conn, 'things', ['id' => '2']), true);
expect(pg_copy_from($conn, 'things', ["3\tc\t\\N\t\\N\t\\N\n"]), true);
expect(count(pg_copy_to($conn, 'things')), 2);
pg_send_query($conn, 'SELECT 1; SELECT * FROM absent');
expect(pg_fetch_result(pg_get_result($conn), 0, 0), '1');
expect(pg_result_error_field(pg_get_result($conn), PGSQL_DIAG_SQLSTATE), '42P01');
expect(pg_get_result($conn), false);
pg_query($conn, 'DROP TABLE things');
echo 'PHP ', PHP_VERSION, "\n";
