// pgjdbc: prepared statements that become the server's, batches, generated keys, fetch size, types, metadata, savepoints, COPY.
// Run as it is: java -cp postgresql.jar Pgjdbc.java

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;

public class Pgjdbc {
    static void same(Object found, Object expected, String what) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(what + ": " + found + " and not " + expected);
        }
    }

    interface Work {
        void run() throws Exception;
    }

    static void fails(String state, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException error) {
            same(error.getSQLState(), state, error.getMessage());
            return;
        }
        throw new AssertionError("should have failed with " + state);
    }

    /** All rows, each as its columns' texts joined by a bar. */
    static List<String> rows(ResultSet found, String... columns) throws SQLException {
        List<String> out = new ArrayList<>();
        while (found.next()) {
            List<String> row = new ArrayList<>();
            for (String column : columns) {
                row.add(found.getString(column));
            }
            out.add(String.join("|", row.stream().map(String::valueOf).toList()));
        }
        found.close();
        return out;
    }

    static void types(Connection conn) throws Exception {
        Statement plain = conn.createStatement();
        plain.execute("CREATE TABLE kinds (i int, big bigint, small smallint, n numeric(12, 3), f float8, r real, b boolean, t text,"
            + " v varchar(9), c char(4), d date, tm time, ts timestamp, tz timestamptz, raw bytea, u uuid, js jsonb, list int[], texts text[])");
        PreparedStatement insert = conn.prepareStatement("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb, ?, ?)");
        UUID uuid = UUID.fromString("00000000-0000-0000-0000-00000000000a");
        OffsetDateTime at = OffsetDateTime.of(2024, 2, 29, 12, 30, 15, 250_000_000, ZoneOffset.ofHours(2));
        // The driver's values go as text before the fifth execution, and binary from then on.
        for (int i = 0; i < 8; i++) {
            insert.setInt(1, i);
            insert.setLong(2, Long.MAX_VALUE - i);
            insert.setShort(3, (short) -i);
            insert.setBigDecimal(4, new BigDecimal("12.500").add(BigDecimal.valueOf(i)));
            insert.setDouble(5, 0.1 + i);
            insert.setFloat(6, 1.5f);
            insert.setBoolean(7, i % 2 == 0);
            insert.setString(8, "it's ü " + i);
            insert.setString(9, "v" + i);
            insert.setString(10, "c");
            insert.setObject(11, LocalDate.of(2024, 2, 29).plusDays(i));
            insert.setObject(12, LocalTime.of(23, 59, 58, 123_456_000));
            insert.setObject(13, LocalDateTime.of(1999, 12, 31, 23, 59, 59, 1_000));
            insert.setObject(14, at);
            insert.setBytes(15, new byte[] {0, -1, (byte) i});
            insert.setObject(16, uuid);
            insert.setString(17, "{\"k\": [1, null]}");
            insert.setArray(18, conn.createArrayOf("int4", new Integer[] {1, null, i}));
            insert.setArray(19, conn.createArrayOf("text", new String[] {"a \"b\"", null, "c,d"}));
            same(insert.executeUpdate(), 1, "inserted");
        }
        PreparedStatement select = conn.prepareStatement("SELECT * FROM kinds WHERE i = ?");
        for (int i = 0; i < 8; i++) {
            select.setInt(1, i);
            ResultSet row = select.executeQuery();
            same(row.next(), true, "a row");
            same(row.getInt("i"), i, "int");
            same(row.getLong("big"), Long.MAX_VALUE - i, "bigint");
            same(row.getShort("small"), (short) -i, "smallint");
            same(row.getBigDecimal("n"), new BigDecimal("12.500").add(BigDecimal.valueOf(i)), "numeric");
            same(row.getDouble("f"), 0.1 + i, "float8");
            same(row.getFloat("r"), 1.5f, "real");
            same(row.getBoolean("b"), i % 2 == 0, "boolean");
            same(row.getString("t"), "it's ü " + i, "text");
            same(row.getString("c"), "c   ", "char");
            same(row.getObject("d", LocalDate.class), LocalDate.of(2024, 2, 29).plusDays(i), "date");
            same(row.getObject("tm", LocalTime.class), LocalTime.of(23, 59, 58, 123_456_000), "time");
            same(row.getObject("ts", LocalDateTime.class), LocalDateTime.of(1999, 12, 31, 23, 59, 59, 1_000), "timestamp");
            same(row.getObject("tz", OffsetDateTime.class).toInstant(), at.toInstant(), "timestamptz");
            same(row.getTimestamp("tz").toInstant(), at.toInstant(), "timestamptz as Timestamp");
            same(Arrays.toString(row.getBytes("raw")), "[0, -1, " + i + "]", "bytea");
            same(row.getObject("u"), uuid, "uuid");
            same(row.getString("js"), "{\"k\": [1, null]}", "jsonb");
            same(Arrays.toString((Object[]) row.getArray("list").getArray()), "[1, null, " + i + "]", "int[]");
            same(Arrays.toString((Object[]) row.getArray("texts").getArray()), "[a \"b\", null, c,d]", "text[]");
            row.close();
        }
        ResultSetMetaData about = select.getMetaData();
        same(about.getColumnTypeName(4) + about.getPrecision(4) + "," + about.getScale(4), "numeric12,3", "metadata");
        same(about.getColumnTypeName(9) + about.getPrecision(9), "varchar9", "metadata");
        same(about.getTableName(1) + "." + about.getColumnName(1), "kinds.i", "metadata");
        same(select.getParameterMetaData().getParameterTypeName(1), "int4", "parameter");
    }

    static void changes(Connection conn) throws Exception {
        Statement plain = conn.createStatement();
        plain.execute("CREATE TABLE makers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name varchar(30) NOT NULL UNIQUE)");
        plain.execute("CREATE TABLE things (maker bigint NOT NULL, at int NOT NULL, note text, price numeric(8, 2) DEFAULT 1,"
            + " CONSTRAINT things_key PRIMARY KEY (maker, at), CONSTRAINT made_by FOREIGN KEY (maker) REFERENCES makers (id) ON DELETE CASCADE)");
        plain.execute("CREATE INDEX things_note ON things (note, price DESC)");
        plain.execute("COMMENT ON TABLE things IS 'what there is'");
        plain.execute("CREATE VIEW cheap AS SELECT maker, at FROM things WHERE price < 5");
        PreparedStatement insert = conn.prepareStatement("INSERT INTO makers (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS);
        for (String name : List.of("Ann", "Bob", "Cyd")) {
            insert.setString(1, name);
            insert.addBatch();
        }
        same(Arrays.toString(insert.executeBatch()), "[1, 1, 1]", "batch");
        same(rows(insert.getGeneratedKeys(), "id"), List.of("1", "2", "3"), "keys");
        PreparedStatement returning = conn.prepareStatement("INSERT INTO makers (name) VALUES (?)", new String[] {"id", "name"});
        returning.setString(1, "Dan");
        same(returning.executeUpdate(), 1, "insert");
        same(rows(returning.getGeneratedKeys(), "name", "id"), List.of("Dan|4"), "returned");
        conn.setAutoCommit(false);
        PreparedStatement many = conn.prepareStatement("INSERT INTO things (maker, at, note) VALUES (?, ?, ?)");
        for (int i = 0; i < 1000; i++) {
            many.setLong(1, i % 4 + 1);
            many.setInt(2, i);
            many.setString(3, i % 10 == 0 ? null : "note " + i);
            many.addBatch();
        }
        same(Arrays.stream(many.executeBatch()).filter(n -> n == 1 || n == Statement.SUCCESS_NO_INFO).count(), 1000L, "batch");
        conn.commit();
        PreparedStatement clash = conn.prepareStatement("INSERT INTO makers (name) VALUES (?)");
        for (String name : List.of("Eve", "Ann", "Fay")) {
            clash.setString(1, name);
            clash.addBatch();
        }
        try {
            clash.executeBatch();
            throw new AssertionError("should have failed");
        } catch (BatchUpdateException error) {
            same(error.getSQLState(), "23505", "batch");
        }
        fails("25P02", () -> plain.executeQuery("SELECT 1"));
        conn.rollback();
        Savepoint point = conn.setSavepoint("before");
        same(plain.executeUpdate("DELETE FROM makers WHERE name = 'Dan'"), 1, "deleted");
        conn.rollback(point);
        conn.commit();
        same(rows(plain.executeQuery("SELECT count(*) AS n FROM makers"), "n"), List.of("4"), "count");
        conn.setAutoCommit(true);
        fails("42P01", () -> plain.executeQuery("SELECT * FROM nosuch"));
        fails("22012", () -> plain.executeQuery("SELECT 1 / 0"));
        plain.setQueryTimeout(1);
        fails("57014", () -> plain.executeQuery("SELECT pg_sleep(30)"));
    }

    static void reads(Connection conn) throws Exception {
        conn.setAutoCommit(false);
        Statement pieces = conn.createStatement();
        pieces.setFetchSize(100);
        ResultSet found = pieces.executeQuery("SELECT at, note FROM things ORDER BY at");
        int n = 0;
        while (found.next()) {
            same(found.getInt(1), n, "in order");
            same(found.getString(2), n % 10 == 0 ? null : "note " + n, "note");
            n++;
        }
        same(n, 1000, "rows");
        // A statement of the server's keeps its plan past the fifth execution, and sees a table that has changed.
        PreparedStatement named = conn.prepareStatement("SELECT count(*), max(note) FROM things WHERE maker = ? AND at < ?");
        for (int i = 0; i < 12; i++) {
            named.setLong(1, 2);
            named.setInt(2, i * 4);
            ResultSet one = named.executeQuery();
            one.next();
            same(one.getInt(1), i, "count");
        }
        conn.commit();
        conn.setAutoCommit(true);
        PreparedStatement star = conn.prepareStatement("SELECT * FROM makers WHERE id = ?");
        for (int i = 0; i < 8; i++) {
            if (i == 7) {
                conn.createStatement().execute("ALTER TABLE makers ADD COLUMN seen boolean DEFAULT true");
            }
            star.setLong(1, 1);
            ResultSet one = star.executeQuery();
            same(one.next() && one.getString("name").equals("Ann"), true, "row");
            same(one.getMetaData().getColumnCount(), i == 7 ? 3 : 2, "columns");
        }
        Statement scrolls = conn.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
        ResultSet rows = scrolls.executeQuery("SELECT id, name FROM makers ORDER BY id");
        same(rows.last() && rows.getInt(1) == 4 && rows.absolute(2), true, "scrolled");
        rows.updateString("name", "Bob II");
        rows.updateRow();
        same(rows(conn.createStatement().executeQuery("SELECT name FROM makers WHERE id = 2"), "name"), List.of("Bob II"), "updated");
        StringWriter out = new StringWriter();
        var copy = conn.unwrap(PGConnection.class).getCopyAPI();
        same(copy.copyIn("COPY things (maker, at, note) FROM STDIN (FORMAT csv)", new StringReader("1,5000,\"a, b\"\n2,5001,\n")), 2L, "copied");
        copy.copyOut("COPY (SELECT at, note FROM things WHERE at >= 5000 ORDER BY at) TO STDOUT (FORMAT csv)", out);
        same(out.toString(), "5000,\"a, b\"\n5001,\n", "copied");
    }

    static void metadata(Connection conn) throws Exception {
        DatabaseMetaData about = conn.getMetaData();
        same(about.getDatabaseProductName() + about.getDatabaseMajorVersion(), "PostgreSQL15", "product");
        same(rows(about.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE", "REMARKS"),
            List.of("kinds|TABLE|null", "makers|TABLE|null", "things|TABLE|what there is", "cheap|VIEW|null"), "tables");
        same(rows(about.getColumns(null, "public", "things", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS",
            "IS_NULLABLE", "COLUMN_DEF", "IS_AUTOINCREMENT"),
            List.of("maker|int8|19|0|NO|null|NO", "at|int4|10|0|NO|null|NO", "note|text|2147483647|0|YES|null|NO", "price|numeric|8|2|YES|1|NO"),
            "columns");
        same(rows(about.getColumns(null, null, "makers", "id"), "DATA_TYPE", "IS_AUTOINCREMENT"), List.of("-5|YES"), "identity");
        same(rows(about.getColumns(null, null, "kinds", "l%"), "TYPE_NAME", "DATA_TYPE"), List.of("_int4|2003"), "array");
        same(rows(about.getPrimaryKeys(null, "public", "things"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            List.of("maker|1|things_key", "at|2|things_key"), "primary key");
        same(rows(about.getImportedKeys(null, "public", "things"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKCOLUMN_NAME", "DELETE_RULE", "FK_NAME"),
            List.of("makers|id|maker|0|made_by"), "imported keys");
        same(rows(about.getExportedKeys(null, "public", "makers"), "FKTABLE_NAME", "FKCOLUMN_NAME"), List.of("things|maker"), "exported keys");
        same(rows(about.getIndexInfo(null, "public", "things", false, false), "INDEX_NAME", "COLUMN_NAME", "NON_UNIQUE", "ASC_OR_DESC"),
            List.of("things_key|maker|f|A", "things_key|at|f|A", "things_note|note|t|A", "things_note|price|t|D"), "indexes");
        same(rows(about.getSchemas(), "TABLE_SCHEM"), List.of("information_schema", "pg_catalog", "public"), "schemas");
        same(rows(about.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true, "kinds of tables");
        same(rows(about.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "numeric", "timestamptz")), true, "types");
        same(rows(about.getBestRowIdentifier(null, "public", "makers", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME"),
            List.of("id"), "row identifier");
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> parts = new HashMap<>();
        for (String part : System.getenv("TENON_DSN").split(" ")) {
            parts.put(part.split("=")[0], part.split("=")[1]);
        }
        String url = "jdbc:postgresql://" + parts.get("host") + ":" + parts.get("port") + "/" + parts.get("dbname") + "?sslmode=disable";
        for (String mode : List.of("extended", "simple")) {
            try (Connection conn = DriverManager.getConnection(url + "&preferQueryMode=" + mode + "&reWriteBatchedInserts="
                + mode.equals("extended"), parts.get("user"), "")) {
                if (mode.equals("simple")) {
                    PreparedStatement sum = conn.prepareStatement("SELECT ? + 1 AS next, ?::text AS t");
                    sum.setInt(1, 41);
                    sum.setString(2, "it's");
                    same(rows(sum.executeQuery(), "next", "t"), List.of("42|it's"), "simple");
                    continue;
                }
                types(conn);
                changes(conn);
                reads(conn);
                metadata(conn);
                System.out.println(conn.getMetaData().getDriverName() + " " + conn.getMetaData().getDriverVersion() + ": ok");
            }
        }
    }
}
