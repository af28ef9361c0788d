package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.TlsForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * TLS with a private CA, on every Redis that supports it, and the errors if client and server do not agree.
 */
class TlsTest {

    private static final RedisForTests FIRST = RedisForTests.programsWithTls().get(0);
    private static final SslOptions AS_THE_JDK_TRUSTS = SslOptions.create();

    RedisForTests program = FIRST;

    private @Nullable RedisForTests redis;
    private @Nullable RedisClient client;

    @AfterEach
    void end() {
        if (client != null) {
            client.shutdown();
        }
        if (redis != null) {
            redis.close();
        }
    }

    @Test
    void aClientThatTrustsThePrivateAuthorityIsDecidedFor() {
        RedisURI uri = start(TlsForTests.ofServer());
        RateLimiter limiter = limiter(new Unprotected(storeAt(uri, trusting(TlsForTests.ofServer()))));
        assertThat(uri.isSsl()).isTrue();
        assertThat(limiter.tryAcquire(Charge.of("a", 2)).block())
                .matches(Decision::isAllowed)
                .extracting(Decision::source)
                .isEqualTo(Source.REDIS);
        assertThat(limiter.tryAcquire("a").block().isAllowed()).isFalse();
    }

    @Test
    void aClientCertificateIsAccepted() {
        TlsForTests tls = TlsForTests.ofBoth();
        SslOptions withCertificate = SslOptions.builder()
                .trustManager(tls.authority())
                .keyManager(tls.clientCertificate(), tls.clientKey(), null)
                .build();
        RateLimiter limiter = limiter(new Unprotected(storeAt(start(tls), withCertificate)));
        assertThat(limiter.tryAcquire("a").block().source()).isEqualTo(Source.REDIS);
    }

    @Test
    void aMissingClientCertificateIsReported() {
        TlsForTests tls = TlsForTests.ofBoth();
        RedisURI uri = start(tls);
        // Redis breaks the connection as soon as it has said why, and then that may be lost.
        await().untilAsserted(() -> assertThat(failureAt(uri, trusting(tls)))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith(noConnectionTo(uri) + "TLS: ")
                .hasMessageContaining("expected a client certificate that the server trusts"));
    }

    @Test
    void anUntrustedAuthorityIsReportedWithTheSetting() {
        RedisURI uri = start(TlsForTests.ofServer());
        assertThat(failureAt(uri, AS_THE_JDK_TRUSTS))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith(noConnectionTo(uri) + "TLS: ")
                .hasMessageContaining("PKIX path building failed")
                .hasMessageEndingWith("for example with SslOptions.builder().trustManager(new File(\"ca.crt\"))");
    }

    @Test
    void aServerWithAnotherNameIsNotTrusted() {
        TlsForTests tls = TlsForTests.ofServerElsewhere();
        RedisURI uri = start(tls);
        assertThat(failureAt(uri, trusting(tls)))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith(noConnectionTo(uri) + "TLS: ")
                .hasMessageContaining("No subject alternative names matching")
                .hasMessageEndingWith("for example rediss://redis.example:6379");
    }

    @Test
    void aPlaintextClientOnATlsServerIsReported() {
        RedisURI uri = plainly(start(TlsForTests.ofServer()));
        assertThat(failureAt(uri, AS_THE_JDK_TRUSTS))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith(noConnectionTo(uri))
                .hasMessageContaining("rediss://user:password@host:6379");
    }

    /** The server waits for the end of a line that does not come, so only the client's timeout shows it. */
    @Test
    void aTlsClientOnAPlaintextServerIsReported() {
        redis = program.another();
        RedisURI uri = redis.uri();
        uri.setSsl(true);
        SslOptions impatient =
                SslOptions.builder().handshakeTimeout(Duration.ofMillis(200)).build();
        assertThat(failureAt(uri, impatient))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith(noConnectionTo(uri) + "TLS: handshake timed out")
                .hasMessageEndingWith("for example redis://host:6379");
    }

    private RedisURI start(TlsForTests tls) {
        redis = program.another(tls);
        return redis.uri();
    }

    private LimitStoreException failureAt(RedisURI uri, SslOptions tls) {
        return StoreFailure.of(storeAt(uri, tls));
    }

    private RedisStore storeAt(RedisURI uri, SslOptions tls) {
        if (client != null) {
            client.shutdown();
        }
        client = RedisClient.create(uri);
        client.setOptions(ClientOptions.builder().sslOptions(tls).build());
        return RedisStore.create(client);
    }

    private static RateLimiter limiter(LimitStore store) {
        return RateLimiter.builder("api").store(store).limit(Limit.perHour(2)).build();
    }

    private static SslOptions trusting(TlsForTests tls) {
        return SslOptions.builder().trustManager(tls.authority()).build();
    }

    private static RedisURI plainly(RedisURI uri) {
        uri.setSsl(false);
        return uri;
    }

    private static String noConnectionTo(RedisURI uri) {
        return "Redis is unavailable: no connection to " + place(uri) + ": ";
    }

    private static String place(RedisURI uri) {
        return uri.getHost() + ":" + uri.getPort();
    }
}
