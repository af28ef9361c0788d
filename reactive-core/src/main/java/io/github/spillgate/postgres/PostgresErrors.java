package io.github.spillgate.postgres;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Text;
import io.r2dbc.spi.R2dbcException;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** Translates errors: may the statement have been executed, can a retry help, and what is to be done? */
final class PostgresErrors {

    /** The oldest version with scans of some pages of a table. */
    private static final int OLDEST = 14;

    private static final int LONGEST = 300;
    private static final String DEADLOCK = "40P01";

    private final String table;
    private final String create;

    /**
     * Creates the translation.
     *
     * @param create the statement that creates the table
     */
    PostgresErrors(String table, String create) {
        this.table = table;
        this.create = create;
    }

    /** What failed, which says whether rows may have been written. */
    enum Step {
        CONNECT,
        READ,
        WRITE
    }

    /** Returns our exception for an error of the driver or of the server. */
    Throwable translate(Throwable error, Step step) {
        if (error instanceof LimitStoreException) {
            return error;
        }
        String state = error instanceof R2dbcException e ? e.getSqlState() : null;
        String why = error instanceof TimeoutException ? "no reply within the timeout" : reason(error, state);
        if (step == Step.CONNECT) {
            return new LimitStoreException(Kind.UNREACHABLE, "PostgreSQL is unavailable: " + why, error);
        } else if ("42501".equals(state)) {
            return new LimitStoreException(Kind.REFUSED, "PostgreSQL refused a statement: " + why, error);
        }
        return step == Step.WRITE && mayBeDone(state)
                ? new LimitStoreException(Kind.UNANSWERED, "PostgreSQL is unavailable: " + why, error)
                : new LimitStoreException(Kind.UNAVAILABLE, "PostgreSQL is unavailable: " + why, error);
    }

    /** Returns whether a statement may have been executed: the connection ended, or the reply was lost. */
    private static boolean mayBeDone(@Nullable String state) {
        return state == null || state.startsWith("08") || state.startsWith("57P") || state.equals("40003");
    }

    /** Returns our exception for a server that rejects writes. */
    LimitStoreException readOnly() {
        return unavailable("the server is read-only, such as a standby" + remedy("25006"));
    }

    /** Returns our exception for a server of this version. */
    LimitStoreException tooOld(int versionNumber) {
        return unavailable("the server has version " + versionNumber / 10_000 + ": expected " + OLDEST + " or newer");
    }

    static boolean isTooOld(int versionNumber) {
        return versionNumber < OLDEST * 10_000;
    }

    /** Returns our exception for a table that does not exist and that the store does not create. */
    LimitStoreException noTable() {
        return unavailable("table " + table + " does not exist, and the store does not create it" + remedy("42P01"));
    }

    /** Returns whether a write was undone because of another one, so that its rows must be read again. */
    static boolean isUnwritten(Throwable error) {
        return error instanceof R2dbcException e
                && (Statements.UNSAFE.equals(e.getSqlState()) || DEADLOCK.equals(e.getSqlState()));
    }

    private static LimitStoreException unavailable(String why) {
        return new LimitStoreException(Kind.UNREACHABLE, "PostgreSQL is unavailable: " + why);
    }

    private String reason(Throwable error, @Nullable String state) {
        String text = Text.line(error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage());
        Throwable cause = error.getCause();
        String more = cause == null || cause.getMessage() == null ? "" : ": " + Text.line(cause.getMessage());
        // The driver resolves names itself.
        String whole = (text + more).replace("/<unresolved>", "");
        return whole.substring(0, Math.min(LONGEST, whole.length()))
                + (state == null ? "" : " (" + state + ")" + remedy(state));
    }

    private String remedy(String state) {
        return switch (state) {
            case "42P01" -> ": expected a table, for example " + create;
            case "42703", "42883", "42P10" ->
                ": expected a table of Spillgate, or a name that no other table has; to create it: " + create;
            case "57014", "55P03" ->
                ": expected no statement_timeout or lock_timeout below the timeout of the store, for example ALTER ROLE"
                        + " app SET statement_timeout = '5s'; and no transaction that locks the table";
            case "42P05", "26000" ->
                ": expected pgbouncer 1.21 or newer in transaction mode, or no named statements, for example"
                        + " r2dbc:postgresql://host:6432/database?preparedStatementCacheQueries=0";
            case "3F000" -> ": expected its schema, for example CREATE SCHEMA limits, and then a table: " + create;
            case "42501" ->
                ": expected GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + ", " + Statements.published(table)
                        + " TO the role of the store, and a table; if the role may not create it: " + create;
            case "25006", "0A000" ->
                ": expected the primary, for example"
                        + " r2dbc:postgresql:failover://host-1,host-2/database?targetServerType=primary";
            case "53300" ->
                ": expected a max_connections above instances × connections, or fewer connections, for example"
                        + " PostgresStore.builder(factory).connections(1)";
            case "40001" ->
                ": expected the isolation of the role to be read committed, for example ALTER ROLE app SET"
                        + " default_transaction_isolation = 'read committed'";
            case "28000", "28P01" ->
                ": expected a valid user and password, for example r2dbc:postgresql://user:password@host:5432/database";
            case "3D000" -> ": expected a database of this server, for example r2dbc:postgresql://host:5432/postgres";
            default -> "";
        };
    }
}
