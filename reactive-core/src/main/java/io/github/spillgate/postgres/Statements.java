package io.github.spillgate.postgres;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.function.UnaryOperator;

/**
 * The text of the statements for a table. The files say what they do.
 *
 * @param check returns the number of the server's version, whether the table is missing, how many connections the
 *     server has, and how many it may have
 */
record Statements(
        String check, String create, String read, String write, String update, String renumber, String sweep) {
    // Design notes.
    //
    // All values are parameters, so none is quoted, and the server plans a statement once for each connection. For
    // that, each array is in a subquery: the planner would otherwise see its length, and plan again each time. Arrays
    // of numbers and of text are what R2DBC encodes, so values are in hexadecimal. The name of the table is quoted,
    // because it may be a word of SQL, such as user.
    //
    // The collation "C" compares bytes. LATERAL keeps the planner from joining with the whole table.

    static final String TABLE = "spillgate_counts";

    /** Behind the name of the table of counts: the table of what is published, which survives a crash. */
    static final String PUBLISHED = "_published";

    /** The error of a write that has found an unsafe change. */
    static final String UNSAFE = "22012";

    private static final String CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

    /**
     * Returns the statements on the table of counts.
     *
     * @param table the name of the table, in quotation marks
     * @param isLogged whether the table survives a crash
     * @param change changes the text, so that a test can set the clock
     */
    static Statements of(String table, boolean isLogged, UnaryOperator<String> change) {
        String published = published(table);
        return on(
                table,
                "SELECT current_setting('server_version_num')::int, to_regclass('" + table
                        + "') IS NULL OR to_regclass('" + published + "') IS NULL,"
                        + " (SELECT sum(numbackends)::int FROM pg_stat_database),"
                        + " current_setting('max_connections')::int",
                text("schema.sql")
                        .replace(TABLE + PUBLISHED, "PUBLISHED")
                        .replace(TABLE, table)
                        .replace("PUBLISHED", published)
                        .replace("UNLOGGED ", isLogged ? "" : "UNLOGGED "),
                change);
    }

    /** Returns those that read and write what is published. */
    Statements ofPublished(String table, UnaryOperator<String> change) {
        return on(published(table), check, create, change);
    }

    /** Returns the name of the table of what is published, for that of the table of counts, in quotation marks. */
    static String published(String table) {
        return table.substring(0, table.length() - 1) + PUBLISHED + '"';
    }

    private static Statements on(String table, String check, String create, UnaryOperator<String> change) {
        UnaryOperator<String> named =
                text -> change.apply(text.replace("CLOCK", CLOCK)).replace("TABLE", table);
        return new Statements(
                check,
                create,
                named.apply(text("read.sql")),
                named.apply(text("write.sql")),
                named.apply(text("update.sql")),
                named.apply(text("renumber.sql")),
                named.apply(text("sweep.sql")));
    }

    /** Returns the name of a table in quotation marks, with those of its schema. */
    static String quoted(String table) {
        return '"' + table.replace(".", "\".\"") + '"';
    }

    /** Returns a statement that creates the table, one transaction at a time: otherwise it may fail. */
    String lockAndCreate() {
        return "SELECT pg_advisory_xact_lock(hashtextextended('create a table of Spillgate', 0)); " + create;
    }

    /** Returns a file without its comments and line ends. */
    private static String text(String file) {
        try (InputStream in = Statements.class.getResourceAsStream(file)) {
            if (in == null) {
                throw new IllegalStateException("io/github/spillgate/postgres/" + file + " is not on the class path");
            }
            String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            return text.replaceAll("(?m)^--.*\n", "").strip().replaceAll("\\s+", " ");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
