package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;

/** Maps Lettuce errors to ours: is the request retryable, and may Redis have executed it? */
public final class Errors {
    // Design notes.
    //
    // A remedy begins with ": expected ", and has no text of the server: the log of an outage names each remedy once
    // (OutageLog), and a message without a remedy once for its code.

    private static final Pattern FOREIGN = Pattern.compile("FOREIGN (\\d+)");

    /** The code of an error; in a script's error, Redis 6 has it in the middle. */
    private static final Pattern CODE = Pattern.compile("(?:^|: -)([A-Z]+) ");

    /** The smallest set of rights for a user; the documentation has the same line. */
    static final String RIGHTS =
            "~spillgate:* +role +eval +evalsha +time +getrange +strlen +set +setrange +del +pexpire";

    /** The codes of a Redis that cannot decide now, and for what does not pass by itself, the remedy. */
    private static final Map<String, String> TRANSIENT = Map.of(
            "NOSCRIPT",
            "",
            "OOM",
            ": expected free memory, for example by a higher maxmemory",
            "BUSY",
            "",
            "LOADING",
            "",
            "READONLY",
            "",
            "MASTERDOWN",
            "",
            "CLUSTERDOWN",
            "",
            "TRYAGAIN",
            "",
            "NOREPLICAS",
            ": expected as many connected replicas as min-replicas-to-write demands",
            "MISCONF",
            ": expected a Redis that can save its data, as its own log explains, or one with"
                    + " stop-writes-on-bgsave-error no");

    /** The codes of a replica, or of a primary without its replicas, which may follow another primary. */
    private static final Set<String> DEMOTED = Set.of("READONLY", "MASTERDOWN", "NOREPLICAS");

    /** The codes of a cluster node that does not own all keys. */
    private static final Set<String> OTHER_NODE = Set.of("MOVED", "ASK", "CROSSSLOT");

    private static final Set<String> UNAUTHENTICATED = Set.of("NOAUTH", "WRONGPASS");

    /** The error for a long command without authentication, which Redis rejects before it parses it. */
    private static final String UNAUTHENTICATED_LONG = "ERR Protocol error: unauthenticated ";

    private static final Set<String> NO_PERMISSION = Set.of("NOPERM");

    /** The error for a missing right in a script, of Redis before 7.0 and since; it has no code. */
    private static final Pattern NO_PERMISSION_IN_SCRIPT =
            Pattern.compile("The user executing the script can't|ACL failure in script");

    /** Lettuce's messages for commands that it has not written to the connection. */
    private static final Pattern NOT_SENT = Pattern.compile("Connection is closed"
            + "|Currently not connected\\. Commands are rejected\\."
            + "|(Request queue|Command buffer|Internal stack) size exceeded: .*");

    /** Lettuce's message for a handshake that has failed before Lettuce listened for its result. */
    private static final String REASON_LOST = "RedisHandshakeHandler not registered";

    /** Lettuce's messages for a connection that was closed during the handshake, without a reason. */
    private static final Pattern CLOSED_EARLY =
            Pattern.compile(REASON_LOST + "|Connection closed prematurely|.*Connection reset.*");

    /** Lettuce's message for a connection without a reply to the handshake. */
    private static final Pattern NO_HANDSHAKE = Pattern.compile("Connection initialization timed out after .*");

    /** The reply of a single Redis to CLUSTER commands. */
    private static final String NO_CLUSTER = "This instance has cluster support disabled";

    /** The reply of a server of another kind, such as a Sentinel. */
    private static final Pattern UNKNOWN_COMMAND = Pattern.compile("ERR unknown command [`'](\\w+)['`]");

    private static final Set<String> SCRIPT_COMMANDS = Set.of("EVAL", "EVALSHA");

    /** The errors of servers that run no scripts, or not all commands in scripts. */
    private static final Pattern RESTRICTED = Pattern.compile(
            "unknown|unsupported|not (?:allowed|supported|permitted)|disabled|disallowed", Pattern.CASE_INSENSITIVE);

    private static final String RUNS_SCRIPTS = ": expected a Redis, or a proxy, that runs EVAL and EVALSHA, with TIME,"
            + " GETRANGE, STRLEN, SET, SETRANGE, DEL and PEXPIRE in scripts";

    /** The settings of a client that sends no HELLO and no CLIENT. */
    private static final String FOR_A_PROXY = "ClientOptions with protocolVersion(ProtocolVersion.RESP2) and a RedisURI"
            + " with setLibraryName(\"\") and setLibraryVersion(\"\")";

    private static final String EXPECTED_REPLY =
            ": expected a Redis that this host can reach, rediss:// only if it uses TLS, or for a proxy that drops"
                    + " HELLO or CLIENT, " + FOR_A_PROXY + "; retrying";

    /** Control characters of a server's text, which may forge lines in a log. */
    private static final Pattern CONTROL = Pattern.compile("[\\x00-\\x1f\\x7f-\\x9f]");

    private static final String NO_SUCH_DATABASE = "DB index is out of range";

    private static final String NO_SELECT = "SELECT is not allowed";

    private static final String WITHOUT_DATABASE = ": expected a URI without a database, for example redis://host:6379";

    /** The JDK's messages for a certificate of another host; newer versions put a code before them. */
    private static final Pattern OTHER_HOST = Pattern.compile("No subject alternative |No name matching ");

    /** The JDK's message for a certificate of an unknown CA. */
    private static final String SERVER_UNKNOWN = "PKIX path building failed";

    /** The server's alerts for a missing or untrusted client certificate. */
    private static final Pattern CLIENT_UNKNOWN =
            Pattern.compile("alert: (certificate_required|bad_certificate|handshake_failure|unknown_ca)");

    /** The messages if the server does not use TLS. */
    private static final Pattern NO_TLS = Pattern.compile("handshake timed out |not an SSL/TLS record: ");

    private static final Pattern UNCONNECTED = Pattern.compile("Unable to connect to (.+)");

    /** Redis repeats the arguments of an unknown command, and one of them may be a password. */
    private static final Pattern ARGUMENTS = Pattern.compile(",? with args beginning with:.*", Pattern.DOTALL);

    private Errors() {}

    /** Returns our exception for an error of a command with these keys. */
    public static LimitStoreException translate(Throwable e, byte[][] keys) {
        Matcher foreign = FOREIGN.matcher(messageOf(e));
        return e instanceof RedisCommandExecutionException && foreign.find()
                ? foreign(keys[Integer.parseInt(foreign.group(1)) - 1], e)
                : translate(e);
    }

    /** Returns our exception for an error. */
    public static LimitStoreException translate(Throwable e) {
        if (e instanceof LimitStoreException ours) {
            return ours;
        }
        String message = messageOf(e);
        if (!(e instanceof RedisCommandExecutionException)) {
            return isSent(e)
                    ? new LimitStoreException(Kind.UNANSWERED, "Redis did not reply: " + message, e)
                    : new LimitStoreException(Kind.UNAVAILABLE, "Redis is unavailable: " + message, e);
        }
        if (isUnauthenticated(message) || isNoPermission(message)) {
            String detail = message + advice(message);
            return isNoPermission(message)
                    ? new LimitStoreException(Kind.REFUSED, "Redis denied this user the command: " + detail, e)
                    : new LimitStoreException(Kind.UNREACHABLE, "Redis rejected the connection: " + detail, e);
        }
        Matcher unknown = UNKNOWN_COMMAND.matcher(message);
        if (unknown.find()) {
            // Without the arguments, and without the cause, which has them too: they contain keys.
            return unreachable("the configured server replied " + unknown.group() + adviceOnUnknown(unknown.group(1)));
        }
        if (hasCode(message, OTHER_NODE)) {
            return new LimitStoreException(
                    Kind.UNAVAILABLE,
                    "Redis cannot decide: it is one node of a cluster, and does not hold all of the keys:"
                            + " expected a store for the cluster, for example"
                            + " RedisStore.create(RedisClusterClient.create(uri)), and in settings redis.cluster=true: "
                            + message,
                    e);
        }
        String transientCode =
                codes(message).filter(TRANSIENT::containsKey).findFirst().orElse(null);
        return transientCode != null
                ? new LimitStoreException(
                        Kind.UNAVAILABLE, "Redis cannot decide: " + message + TRANSIENT.get(transientCode), e)
                : new LimitStoreException(
                        Kind.REJECTED,
                        "Redis refused the script: " + message
                                + (RESTRICTED.matcher(message).find() ? RUNS_SCRIPTS : ""),
                        e);
    }

    /** Returns one of several exceptions of ours, preferably a retryable one. */
    public static Throwable oneOf(Throwable several) {
        List<Throwable> all = Exceptions.unwrapMultiple(several);
        return all.stream().filter(one -> Kind.of(one).isOutage()).findFirst().orElse(all.get(0));
    }

    /** Returns our exception for a key with a value that this library has not written. */
    static LimitStoreException foreign(byte[] keyBytes, @Nullable Throwable e) {
        String key = new String(keyBytes, StandardCharsets.US_ASCII);
        return new LimitStoreException(
                Kind.FOREIGN_VALUE,
                "the value under the Redis key \"" + key
                        + "\" was not written by Spillgate, and is left unchanged: expected a count or no value;"
                        + " delete it (for example DEL \"" + key + "\"), or configure another namespace",
                e);
    }

    /** Returns our exception for a failed attempt to connect. */
    public static LimitStoreException unreachable(Throwable e) {
        if (e instanceof LimitStoreException ours) {
            return ours;
        }
        if (e instanceof LinkageError) {
            return new LimitStoreException(
                    Kind.UNREACHABLE,
                    "Redis is unavailable: Lettuce does not run with the libraries on the class path: " + e,
                    e);
        }
        String message = messageOf(e);
        Matcher named = UNCONNECTED.matcher(message);
        // Lettuce calls every host name unresolved, because it resolves it later.
        String address = named.matches() ? " to " + named.group(1).replace("/<unresolved>", "") : "";
        Throwable reason = reasonOf(e);
        if (reason instanceof RedisCommandExecutionException) {
            String reply = messageOf(reason);
            String withoutArguments = ARGUMENTS.matcher(reply).replaceFirst("");
            return new LimitStoreException(
                    Kind.UNREACHABLE,
                    "Redis is unavailable: no connection" + address + ", because Redis rejected the connection: "
                            + withoutArguments + advice(withoutArguments),
                    withoutArguments.equals(reply) ? e : null);
        }
        SSLException tls = first(SSLException.class, e);
        String detail = tls != null
                ? "TLS: " + messageOf(tls) + adviceOnTls(messageOf(tls))
                : CLOSED_EARLY.matcher(messageOf(reason)).matches()
                        ? "closed without a reason, for example because of a wrong password, because the server"
                                + " expects TLS, or because a proxy does not know HELLO or CLIENT: expected a URI such"
                                + " as rediss://user:password@host:6379, or for a proxy " + FOR_A_PROXY
                        : messageOf(reason)
                                + (NO_HANDSHAKE.matcher(messageOf(reason)).matches() ? EXPECTED_REPLY : "");
        String why = reason == e && named.matches() ? "" : ": " + detail;
        return new LimitStoreException(Kind.UNREACHABLE, "Redis is unavailable: no connection" + address + why, e);
    }

    /** Returns whether Lettuce has lost the reason of a failed attempt to connect. Another attempt may find it out. */
    static boolean isReasonLost(Throwable e) {
        return causes(e).anyMatch(cause -> messageOf(cause).equals(REASON_LOST));
    }

    /** Returns our exception for a server to which there is no connection after this time. */
    static LimitStoreException notConnected(int seconds) {
        return unreachable("no connection within " + seconds + " s" + EXPECTED_REPLY);
    }

    /**
     * Returns our exception for a server that accepts connections, but runs no scripts.
     *
     * @param observed what it did instead
     */
    static LimitStoreException noScripts(String observed) {
        return unreachable("the server opened a connection, but " + observed
                + ": expected a Redis, or a proxy that passes EVAL and EVALSHA on, and drops no other command;"
                + " retrying");
    }

    /** Returns our exception for a server that is a replica of this primary. */
    public static LimitStoreException replica(String primary) {
        return unreachable("the configured server is a replica of " + primary
                + ", and a replica rejects writes: expected the URI of the primary, for example redis://" + primary
                + ", or of Sentinels, for example redis-sentinel://host:26379/0#name");
    }

    /** Returns our exception for a server that is a Sentinel and monitors these primaries. */
    public static LimitStoreException sentinel(List<String> names) {
        return unreachable("the configured server is a Sentinel, which runs no scripts; it monitors "
                + (names.isEmpty() ? "no primary" : String.join(", ", names))
                + ": expected a URI that names a monitored primary, for example redis-sentinel://host:26379/0#"
                + (names.isEmpty() ? "name" : names.get(0)));
    }

    /**
     * Returns our exception for a server that is not part of a cluster, if that is the error; otherwise the error.
     *
     * @param server the name of the server
     * @param error the error of a CLUSTER command
     */
    public static Throwable noCluster(String server, Throwable error) {
        // The caller's client has the error of each node among the causes.
        String message = causes(error).map(Errors::messageOf).collect(Collectors.joining("\n"));
        boolean isStandalone = message.contains(NO_CLUSTER);
        Matcher unknown = UNKNOWN_COMMAND.matcher(message);
        if (!isStandalone && !unknown.find()) {
            return error;
        }
        String expected = isStandalone
                ? " RedisStore.create(RedisClient.create(\"redis://host:6379\")), and in settings redis.cluster=false"
                : "; if it is a Sentinel,"
                        + " RedisStore.create(RedisClient.create(\"redis-sentinel://host:26379/0#name\"))";
        return unreachable(server + " is not part of a cluster, and replied "
                + (isStandalone ? "ERR " + NO_CLUSTER : unknown.group())
                + ": expected the URIs of a cluster's nodes, or a store for a single Redis, for example" + expected);
    }

    private static LimitStoreException unreachable(String why) {
        return new LimitStoreException(Kind.UNREACHABLE, "Redis is unavailable: " + why);
    }

    /** Returns whether a server does not know this command. */
    public static boolean isUnknownCommand(Throwable e, String command) {
        Matcher unknown = UNKNOWN_COMMAND.matcher(messageOf(e));
        return unknown.find() && unknown.group(1).equalsIgnoreCase(command);
    }

    /** Returns whether an error may come from a demoted primary. */
    static boolean isDemotion(@Nullable String message) {
        return message != null && hasCode(message, DEMOTED);
    }

    /** Returns the reply of Redis among the causes; otherwise Lettuce's reason. */
    private static Throwable reasonOf(Throwable e) {
        Throwable reason = first(RedisCommandExecutionException.class, e);
        if (reason == null) {
            reason = e.getCause();
        }
        return reason == null ? e : reason;
    }

    private static <T extends Throwable> @Nullable T first(Class<T> type, Throwable e) {
        return causes(e).filter(type::isInstance).map(type::cast).findFirst().orElse(null);
    }

    /** Returns the error and its causes. */
    private static Stream<Throwable> causes(Throwable e) {
        return Stream.iterate(e, cause -> cause != null, Throwable::getCause);
    }

    private static String adviceOnTls(String message) {
        if (OTHER_HOST.matcher(message).find()) {
            return ": expected a URI with the host of the server's certificate, for example"
                    + " rediss://redis.example:6379";
        }
        if (CLIENT_UNKNOWN.matcher(message).find()) {
            return ": expected a client certificate that the server trusts, for example with"
                    + " SslOptions.builder().keyManager(new File(\"client.crt\"), new File(\"client.key\"), null)";
        }
        if (NO_TLS.matcher(message).find()) {
            return ": expected a server with TLS, or a URI without it, for example redis://host:6379";
        }
        return message.contains(SERVER_UNKNOWN)
                ? ": expected the client to trust the CA of the server's certificate, for example with"
                        + " SslOptions.builder().trustManager(new File(\"ca.crt\"))"
                : "";
    }

    private static boolean isSent(Throwable e) {
        return !(e instanceof RedisException && NOT_SENT.matcher(messageOf(e)).matches());
    }

    /** Returns whether Redis runs no command on this connection. */
    static boolean isUnauthenticated(RedisCommandExecutionException e) {
        return isUnauthenticated(messageOf(e));
    }

    private static boolean isUnauthenticated(String message) {
        return hasCode(message, UNAUTHENTICATED) || message.startsWith(UNAUTHENTICATED_LONG);
    }

    private static boolean isNoPermission(String message) {
        return hasCode(message, NO_PERMISSION)
                || NO_PERMISSION_IN_SCRIPT.matcher(message).find();
    }

    private static boolean hasCode(String message, Set<String> codes) {
        return codes(message).anyMatch(codes::contains);
    }

    private static Stream<String> codes(String message) {
        return CODE.matcher(message).results().map(code -> code.group(1));
    }

    private static String adviceOnUnknown(String command) {
        String name = command.toUpperCase(Locale.ROOT);
        String expected = SCRIPT_COMMANDS.contains(name)
                ? RUNS_SCRIPTS
                : name.equals("SELECT") ? WITHOUT_DATABASE : ": expected a Redis";
        return expected + "; the URI of a Sentinel names a primary, for example redis-sentinel://host:26379/0#name";
    }

    private static String advice(String message) {
        Matcher unknown = UNKNOWN_COMMAND.matcher(message);
        if (unknown.find()) {
            return adviceOnUnknown(unknown.group(1));
        }
        if (isNoPermission(message)) {
            return ": expected a user with the rights that the store needs (ACL LOG names the denied command or key),"
                    + " for example for the namespace spillgate: ACL SETUSER app on >password "
                    + RIGHTS + (message.contains("'select'") ? " +select" : "");
        }
        if (message.contains(NO_SUCH_DATABASE)) {
            return ": expected a URI with a database of this Redis, 0 to 15 by default, for example"
                    + " redis://host:6379/0";
        }
        if (message.contains(NO_SELECT)) {
            return WITHOUT_DATABASE;
        }
        return isUnauthenticated(message)
                ? ": expected a URI with a valid user and password, for example redis://user:password@host:6379;"
                        + " for the nodes of a cluster, pass it to .nodes(uris)"
                : "";
    }

    /** Returns the message on one line, or the name of the type if there is none. */
    static String messageOf(Throwable e) {
        if (e instanceof CancellationException) {
            // Lettuce's way to end the commands of a connection.
            return "the connection was closed";
        }
        String message = e.getMessage();
        return message == null
                ? e.getClass().getSimpleName()
                : CONTROL.matcher(message).replaceAll(" ");
    }
}
