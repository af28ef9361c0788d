package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.util.Throwables.getStackTrace;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.redis.AclTest;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisException;
import io.netty.handler.codec.DecoderException;
import java.io.IOException;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CancellationException;
import javax.net.ssl.SSLHandshakeException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Exceptions;

class ErrorsTest {

    @Test
    void theErrorNamesTheSameUserAsTheDocumentation() throws IOException {
        assertThat(AclTest.documentedUsers().get(0)).isEqualTo(Errors.RIGHTS);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "READONLY You can't write against a read only replica.",
                "LOADING Redis is loading the dataset in memory",
                "BUSY Redis is busy running a script.",
                "MASTERDOWN Link with MASTER is down",
                "NOSCRIPT No matching script.",
                "CLUSTERDOWN The cluster is down",
                "ERR Error running script (call to f_0): @user_script:177: @user_script: 177: -READONLY You can't write"
            })
    void transientErrorsAreRetryable(String message) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessage("Redis cannot decide: " + message);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "OOM command not allowed when used memory > 'maxmemory'. | a higher maxmemory",
                "ERR Error running script: @user_script: 177: -OOM command not allowed | a higher maxmemory",
                "NOREPLICAS Not enough good replicas to write. | as many connected replicas as min-replicas-to-write",
                "MISCONF Redis is configured to save RDB snapshots | a Redis that can save its data"
            })
    void transientErrorsThatDoNotPassByThemselvesHaveARemedy(String message, String remedy) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageStartingWith("Redis cannot decide: " + message + ": expected ")
                .hasMessageContaining(remedy);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ERR user_script:7: attempt to index a nil value",
                "ERR value is not an integer",
                "WRONGTYPE Operation against a key"
            })
    void permanentErrorsAreNotRetryable(String message) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .isExactlyInstanceOf(LimitStoreException.class)
                .hasMessage("Redis refused the script: " + message);
    }

    @Test
    void theTextOfAServerIsOnOneLine() {
        RedisCommandExecutionException e = new RedisCommandExecutionException("ERR a\r\nb\u001b[31m\u0085c");
        assertThat(Errors.translate(e)).hasMessage("Redis refused the script: ERR a  b [31m c");
        assertThat(Errors.unreachable(e)).hasMessageContaining("ERR a  b [31m c");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "NOAUTH Authentication required.",
                "WRONGPASS invalid username-password pair or user is disabled.",
                "ERR Protocol error: unauthenticated multibulk length"
            })
    void anUnknownUserCannotReachRedis(String message) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith("Redis rejected the connection: " + message + ": expected ");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "NOPERM this user has no permissions to run the 'evalsha' command",
                "ERR The user executing the script can't run this command or subcommand script: d1ef, on "
                        + "@user_script:1.",
                "ERR ACL failure in script: User app has no permissions to run the 'time' command script: d1ef",
                "ERR Error running script (call to f_0): @user_script:1: @user_script: 1: The user executing the script"
                        + " can't run this command or subcommand"
            })
    void missingRightsAreReportedAsRefused(String message) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .is(kind(Kind.REFUSED))
                .as("no retry helps")
                .isNot(kind(Kind.UNAVAILABLE))
                .hasMessageStartingWith("Redis denied this user the command: " + message + ": expected ");
    }

    @Test
    void aMissingReplyIsReportedAsUnanswered() {
        for (Exception e : List.of(
                new RedisCommandTimeoutException("timed out"),
                new RedisException("Connection closed"),
                new RedisException("Connection disconnected"),
                new SocketException("Connection reset"))) {
            assertThat(Errors.translate(e, new byte[0][]))
                    .is(kind(Kind.UNANSWERED))
                    .hasMessage("Redis did not reply: " + e.getMessage());
        }
        assertThat(Errors.translate(new CancellationException(), new byte[0][]))
                .is(kind(Kind.UNANSWERED))
                .hasMessage("Redis did not reply: the connection was closed");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "Connection is closed",
                "Currently not connected. Commands are rejected.",
                "Request queue size exceeded: 2. Commands are not accepted until the queue size drops.",
                "Internal stack size exceeded: 2. Commands are not accepted until the stack size drops."
            })
    void anUnsentCommandIsReportedAsUnavailable(String message) {
        assertThat(Errors.translate(new RedisException(message), new byte[0][]))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessage("Redis is unavailable: " + message);
    }

    @Test
    void aConnectionThatIsClosedBeforeLettuceLooksIsExplained() {
        for (Exception closed : List.of(
                new IllegalStateException("RedisHandshakeHandler not registered"),
                new RedisConnectionException("Connection closed prematurely"),
                new SocketException("Connection reset"),
                new IOException("recvAddress(..) failed: Connection reset by peer"))) {
            Throwable said = new RedisConnectionException("Unable to connect to 10.0.0.7/<unresolved>:6379", closed);
            assertThat(Errors.unreachable(said))
                    .is(kind(Kind.UNREACHABLE))
                    .hasMessage("Redis is unavailable: no connection to 10.0.0.7:6379: closed without a reason, for"
                            + " example because of a wrong password, because the server expects TLS, or because a"
                            + " proxy does not know HELLO or CLIENT: expected a URI such as"
                            + " rediss://user:password@host:6379, or for a proxy ClientOptions with"
                            + " protocolVersion(ProtocolVersion.RESP2) and a RedisURI with setLibraryName(\"\") and"
                            + " setLibraryVersion(\"\")");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "No subject alternative DNS name matching redis found. | rediss://redis.example:6379",
                "(certificate_unknown) No name matching redis found | rediss://redis.example:6379",
                "PKIX path building failed: unable to find valid certification path | trustManager(new "
                        + "File(\"ca.crt\"))",
                "(certificate_unknown) PKIX path building failed: unable to find | trustManager(new File(\"ca.crt\"))",
                "(certificate_required) Received fatal alert: certificate_required | keyManager(new "
                        + "File(\"client.crt\")",
                "Received fatal alert: unknown_ca | keyManager(new File(\"client.crt\")",
                "handshake timed out after 10000ms | redis://host:6379",
                "not an SSL/TLS record: 2d455252 | redis://host:6379"
            })
    void tlsErrorsAreReportedWithTheExpectedSetting(String message, String example) {
        for (Throwable reason :
                List.of(new SSLHandshakeException(message), new DecoderException(new SSLHandshakeException(message)))) {
            assertThat(Errors.unreachable(new RedisConnectionException("Unable to connect to redis:6379", reason)))
                    .is(kind(Kind.UNREACHABLE))
                    .hasMessageStartingWith(
                            "Redis is unavailable: no connection to redis:6379: TLS: " + message + ": expected ")
                    .hasMessageContaining(example);
        }
    }

    @Test
    void ofSeveralErrorsTheRetryableOneIsReported() {
        LimitStoreException foreign = Errors.foreign("a".getBytes(StandardCharsets.US_ASCII), null);
        LimitStoreException refused = new LimitStoreException(Kind.REJECTED, "refused");
        LimitStoreException passing = new LimitStoreException(Kind.UNAVAILABLE, "passing");
        assertThat(Errors.oneOf(Exceptions.multiple(foreign, passing, refused))).isSameAs(passing);
        assertThat(Errors.oneOf(Exceptions.multiple(foreign, refused))).isSameAs(foreign);
    }

    @Test
    void aSentinelWithoutPrimariesIsReportedToo() {
        assertThat(Errors.sentinel(List.of()))
                .hasMessageContaining("monitors no primary: expected")
                .hasMessageEndingWith("redis-sentinel://host:26379/0#name");
        assertThat(Errors.sentinel(List.of("one", "other")))
                .hasMessageContaining("monitors one, other: expected")
                .hasMessageEndingWith("redis-sentinel://host:26379/0#one");
    }

    /** Redis repeats what it does not understand, and a password must not get into a log. */
    @Test
    void aPasswordInARedisErrorIsRemoved() {
        Throwable said = new RedisConnectionException(
                "Unable to connect to localhost/<unresolved>:6379",
                new RedisCommandExecutionException(
                        "ERR unknown command 'AUTH', with args beginning with: 'pa55word' "));
        assertThat(getStackTrace(Errors.unreachable(said)))
                .contains("no connection to localhost:6379")
                .contains("ERR unknown command 'AUTH'")
                .doesNotContain("pa55word");
    }
}
