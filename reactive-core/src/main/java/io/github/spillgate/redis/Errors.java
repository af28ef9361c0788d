package io.github.spillgate.redis;

import io.github.spillgate.ForeignValueException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreRefusedException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;

/**
 * Gives what Lettuce reports the type that says whether another try can help, and whether anything may have been done,
 * once, where it comes in.
 */
final class Errors {

    private static final Pattern FOREIGN = Pattern.compile("FOREIGN (\\d+)");

    /** The code of what went wrong; within a script, Redis 6 says it somewhere in the middle. */
    private static final Pattern CODE = Pattern.compile("(?:^|: -)([A-Z]+) ");

    /** The least that a user needs; the documentation says the same. */
    static final String RIGHTS =
            "~spillgate:* +role +script|load +evalsha +time +getrange +strlen +set +setrange +del +pexpire";

    private static final Set<String> PASSING = Set.of(
            "NOSCRIPT",
            "OOM",
            "BUSY",
            "LOADING",
            "READONLY",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "TRYAGAIN",
            "NOREPLICAS",
            "MISCONF");

    /** What a replica says, or a primary whose replicas have gone, perhaps to another one. */
    private static final Set<String> ELSEWHERE = Set.of("READONLY", "MASTERDOWN", "NOREPLICAS");

    /** What one node of a cluster says where another one is meant, or several. */
    private static final Set<String> OTHER_NODE = Set.of("MOVED", "ASK", "CROSSSLOT");

    private static final Set<String> STRANGER = Set.of("NOAUTH", "WRONGPASS");

    /** What Redis says of a command with many arguments by someone whom it does not know, before it looks at it. */
    private static final String STRANGER_WITH_MUCH = "ERR Protocol error: unauthenticated ";

    private static final Set<String> WITHOUT_RIGHT = Set.of("NOPERM");

    /** What Redis, until 7.0 and since then, says of a missing right within a script, where it gives no code. */
    private static final Pattern WITHOUT_RIGHT_IN_SCRIPT =
            Pattern.compile("The user executing the script can't|ACL failure in script");

    /** What Lettuce says of commands that it has not written to the connection. */
    private static final Pattern NOT_SENT = Pattern.compile("Connection is closed"
            + "|Currently not connected\\. Commands are rejected\\."
            + "|(Request queue|Command buffer|Internal stack) size exceeded: .*");

    /** What is said of a connection that was closed so early that nobody could ask why. */
    private static final Pattern CLOSED_EARLY =
            Pattern.compile("RedisHandshakeHandler not registered|Connection closed prematurely|.*Connection reset.*");

    /** What a Redis says that is by itself, if it is asked for its cluster. */
    private static final String NO_CLUSTER = "This instance has cluster support disabled";

    /** What is said by a server that is no Redis, such as a Sentinel. */
    private static final Pattern UNKNOWN_COMMAND = Pattern.compile("ERR unknown command [`'](\\w+)['`]");

    private static final String NO_SUCH_DATABASE = "DB index is out of range";

    /** What the JDK says where the certificate is for another host; newer ones begin with the code of it. */
    private static final Pattern OTHER_HOST = Pattern.compile("No subject alternative |No name matching ");

    /** What the JDK says where it does not know who has signed the certificate. */
    private static final String SERVER_UNKNOWN = "PKIX path building failed";

    /** What the server says to a client without a certificate, or with one that it does not trust. */
    private static final Pattern CLIENT_UNKNOWN =
            Pattern.compile("alert: (certificate_required|bad_certificate|handshake_failure|unknown_ca)");

    /** What comes of it where the server does not speak TLS. */
    private static final Pattern NO_TLS = Pattern.compile("handshake timed out |not an SSL/TLS record: ");

    private static final Pattern PLACE = Pattern.compile("Unable to connect to (.+)");

    /** Redis repeats a command that it does not know, and what comes behind it may be a password. */
    private static final Pattern REPEATED = Pattern.compile(",? with args beginning with:.*", Pattern.DOTALL);

    private Errors() {}

    /** Returns the exception of ours that says this, about a command that was given these keys. */
    static LimitStoreException translate(Throwable e, byte[][] keys) {
        Matcher foreign = FOREIGN.matcher(messageOf(e));
        return e instanceof RedisCommandExecutionException && foreign.find()
                ? foreign(keys[Integer.parseInt(foreign.group(1)) - 1], e)
                : translate(e);
    }

    /** Returns the exception of ours that says this. */
    static LimitStoreException translate(Throwable e) {
        if (e instanceof LimitStoreException ours) {
            return ours;
        }
        String message = messageOf(e);
        if (!(e instanceof RedisCommandExecutionException)) {
            return isSent(e)
                    ? new LimitStoreUnansweredException("Redis did not reply: " + message, e)
                    : new LimitStoreUnavailableException("Redis is unavailable: " + message, e);
        }
        if (isRefusal(message)) {
            String told = message + advice(message);
            return lacksRight(message)
                    ? new LimitStoreRefusedException("Redis denied this user the command: " + told, e)
                    : new LimitStoreUnreachableException("Redis rejected the connection: " + told, e);
        }
        Matcher unknown = UNKNOWN_COMMAND.matcher(message);
        if (unknown.find()) {
            // Without what comes behind it, and without the cause, which has it too: those are keys.
            return new LimitStoreUnreachableException(
                    "Redis is unavailable: the configured server replied " + unknown.group() + adviceOnUnknown(), null);
        }
        if (hasCode(message, OTHER_NODE)) {
            return new LimitStoreUnavailableException(
                    "Redis cannot decide: it is one node of a cluster, and does not hold all of the keys:"
                            + " expected a store for the cluster, for example"
                            + " RedisStore.create(RedisClusterClient.create(uri)), and in settings redis.cluster=true: "
                            + message,
                    e);
        }
        return hasCode(message, PASSING)
                ? new LimitStoreUnavailableException("Redis cannot decide: " + message, e)
                : new LimitStoreException("Redis refused the script: " + message, e);
    }

    /** Returns that of several exceptions of ours that says the most for another try. */
    static Throwable oneOf(Throwable several) {
        List<Throwable> all = Exceptions.unwrapMultiple(several);
        return all.stream()
                .filter(LimitStoreUnavailableException.class::isInstance)
                .findFirst()
                .orElse(all.get(0));
    }

    /** Returns the exception of ours that says that there is something else under this key. */
    static ForeignValueException foreign(byte[] name, @Nullable Throwable e) {
        String key = new String(name, StandardCharsets.US_ASCII);
        return new ForeignValueException(
                "the value under the Redis key \"" + key
                        + "\" was not written by Spillgate, and is left unchanged: expected a count or no value; "
                        + "delete it"
                        + " (for example DEL \"" + key + "\"), or configure another namespace",
                e);
    }

    /** Returns the exception of ours that says why there is no connection. */
    static LimitStoreException unreachable(Throwable e) {
        if (e instanceof LimitStoreException ours) {
            return ours;
        }
        if (e instanceof LinkageError) {
            return new LimitStoreUnreachableException(
                    "Redis is unavailable: Lettuce does not run with the libraries on the class path: " + e, e);
        }
        String message = messageOf(e);
        Matcher named = PLACE.matcher(message);
        // Lettuce says of every name that it is unresolved: it looks it up later.
        String place = named.matches() ? " to " + named.group(1).replace("/<unresolved>", "") : "";
        Throwable reason = reasonOf(e);
        if (reason instanceof RedisCommandExecutionException) {
            String said = messageOf(reason);
            String withoutArguments = REPEATED.matcher(said).replaceFirst("");
            return new LimitStoreUnreachableException(
                    "Redis is unavailable: no connection" + place + ", because Redis rejected the connection: "
                            + withoutArguments + advice(withoutArguments),
                    withoutArguments.equals(said) ? e : null);
        }
        SSLException tls = tlsIn(e);
        String told = tls != null
                ? "TLS: " + messageOf(tls) + adviceOnTls(messageOf(tls))
                : CLOSED_EARLY.matcher(messageOf(reason)).matches()
                        ? "closed without a reason, for example because of a wrong password, or because the server"
                                + " expects TLS: expected a URI such as rediss://user:password@host:6379 then"
                        : messageOf(reason);
        String why = reason == e && named.matches() ? "" : ": " + told;
        return new LimitStoreUnreachableException("Redis is unavailable: no connection" + place + why, e);
    }

    /** Returns the exception of ours that says that a server is a replica, and of whom. */
    static LimitStoreException replica(String primary) {
        return new LimitStoreUnreachableException(
                "Redis is unavailable: the configured server is a replica of " + primary
                        + ", and a replica rejects writes: expected the URI of the primary, for example redis://"
                        + primary + ", or of Sentinels, for example"
                        + " redis-sentinel://host:26379/0#name",
                null);
    }

    /** Returns the exception of ours that says that a server is a Sentinel, and of which primaries. */
    static LimitStoreException sentinel(List<String> names) {
        return new LimitStoreUnreachableException(
                "Redis is unavailable: the configured server is a Sentinel, which runs no scripts; it monitors "
                        + (names.isEmpty() ? "no primary" : String.join(", ", names))
                        + ": expected a URI that names a monitored primary, for example"
                        + " redis-sentinel://host:26379/0#" + (names.isEmpty() ? "name" : names.get(0)),
                null);
    }

    /**
     * Returns the exception of ours that says that a server has no cluster, if that is what has been said to whoever
     * has asked for it; else what was said.
     *
     * @param server the server that was asked
     */
    static Throwable noCluster(String server, Throwable said) {
        String message = Stream.iterate(said, cause -> cause != null, Throwable::getCause)
                // The user's client tells of each node that it has asked, further down.
                .map(Errors::messageOf)
                .collect(Collectors.joining("\n"));
        boolean isAlone = message.contains(NO_CLUSTER);
        Matcher unknown = UNKNOWN_COMMAND.matcher(message);
        if (!isAlone && !unknown.find()) {
            return said;
        }
        return new LimitStoreUnreachableException(
                "Redis is unavailable: " + server + " is not part of a cluster, and replied "
                        + (isAlone ? "ERR " + NO_CLUSTER : unknown.group())
                        + ": expected the URIs of a cluster's nodes, or a store for a single Redis, for example"
                        + (isAlone
                                ? " RedisStore.create(RedisClient.create(\"redis://host:6379\")), and in settings"
                                        + " redis.cluster=false"
                                : "; if it is a Sentinel,"
                                        + " RedisStore.create(RedisClient.create("
                                        + "\"redis-sentinel://host:26379/0#name\"))"),
                null);
    }

    /**
     * Returns what says that nothing has been asked, where this went wrong before that. An answer of Redis stays what
     * it is: it is clear enough.
     */
    static Throwable notAsked(Throwable e) {
        return e instanceof RedisCommandExecutionException || e instanceof LimitStoreException
                ? e
                : new LimitStoreUnavailableException(
                        "Redis is unavailable: no reply to SCRIPT LOAD: " + messageOf(e), e);
    }

    /** Whether the primary may be another server by now than the one that says this. */
    static boolean isToldElsewhere(@Nullable String message) {
        return message != null && hasCode(message, ELSEWHERE);
    }

    /** Redis's own words, if it has said any, or else what Lettuce has met with. */
    private static Throwable reasonOf(Throwable e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof RedisCommandExecutionException) {
                return cause;
            }
        }
        Throwable cause = e.getCause();
        return cause == null ? e : cause;
    }

    private static @Nullable SSLException tlsIn(Throwable e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof SSLException tls) {
                return tls;
            }
        }
        return null;
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
            return ": expected a server with TLS, or a URI without it, for example" + " redis://host:6379";
        }
        return message.contains(SERVER_UNKNOWN)
                ? ": expected the client to trust the CA of the server's certificate, for example with"
                        + " SslOptions.builder().trustManager(new File(\"ca.crt\"))"
                : "";
    }

    private static boolean isSent(Throwable e) {
        return !(e instanceof RedisException && NOT_SENT.matcher(messageOf(e)).matches());
    }

    /** Returns whether Redis refuses the command to this user. */
    static boolean isRefusal(Throwable e) {
        return e instanceof RedisCommandExecutionException && isRefusal(messageOf(e));
    }

    private static boolean isRefusal(String message) {
        return isStranger(message) || lacksRight(message);
    }

    private static boolean isStranger(String message) {
        return hasCode(message, STRANGER) || message.startsWith(STRANGER_WITH_MUCH);
    }

    private static boolean lacksRight(String message) {
        return hasCode(message, WITHOUT_RIGHT)
                || WITHOUT_RIGHT_IN_SCRIPT.matcher(message).find();
    }

    private static boolean hasCode(String message, Set<String> codes) {
        return CODE.matcher(message).results().anyMatch(code -> codes.contains(code.group(1)));
    }

    private static String adviceOnUnknown() {
        return ": expected a Redis; the URI of a Sentinel names a primary, for example"
                + " redis-sentinel://host:26379/0#name";
    }

    private static String advice(String message) {
        if (UNKNOWN_COMMAND.matcher(message).find()) {
            return adviceOnUnknown();
        }
        if (lacksRight(message)) {
            return ": expected a user with the rights that the store needs, for example ACL SETUSER app on >password "
                    + RIGHTS + (message.contains("'select'") ? " +select" : "");
        }
        if (message.contains(NO_SUCH_DATABASE)) {
            return ": expected a URI with a database of this Redis, 0 to 15 by default, for example"
                    + " redis://host:6379/0";
        }
        return isStranger(message)
                ? ": expected a URI with a valid user and password, for example redis://user:password@host:6379;"
                        + " for the nodes of a cluster, pass it to .nodes(uris)"
                : "";
    }

    /** What is said, or who says it, where it says nothing. */
    private static String messageOf(Throwable e) {
        String message = e.getMessage();
        return message == null ? e.getClass().getSimpleName() : message;
    }
}
