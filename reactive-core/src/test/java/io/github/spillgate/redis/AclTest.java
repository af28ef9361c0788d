package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.anyOf;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.util.Throwables.getStackTrace;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Snippets;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCredentials;
import io.lettuce.core.RedisCredentialsProvider;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/**
 * The documented rights are sufficient for everything that the store does, and each is necessary. Errors name missing
 * rights.
 */
public class AclTest {

    private static final Path PAGE = Path.of("../docs/redis.md");
    private static final String SET_USER = "ACL SETUSER app on >password ";
    private static final String PASSWORD = "pa55word";
    private static final InstantSource NOW = InstantSource.fixed(Instant.ofEpochMilli(1_000));

    Supplier<RedisForTests> servers = RedisForTests::startOwn;

    private final List<RedisClient> clients = new ArrayList<>();
    private RedisForTests redis;
    private StatefulRedisConnection<String, String> admin;

    @BeforeEach
    void start() {
        redis = servers.get();
        admin = client(redis.uri()).connect();
    }

    @AfterEach
    void end() {
        clients.forEach(RedisClient::shutdown);
        redis.close();
    }

    @Test
    void theDocumentedUserHasAllRightsOfTheStore() throws IOException {
        user(documented());
        assertThat(failingOperations(RedisStore.create(client(asUser())))).isEmpty();
    }

    @Test
    void withoutAnyOneOfTheCommandsSomethingFails() throws IOException {
        List<String> rights = List.of(documented().split(" "));
        assertThat(rights).filteredOn(right -> right.startsWith("+")).hasSizeGreaterThan(5);
        for (String missing : rights) {
            List<String> others = new ArrayList<>(rights);
            others.remove(missing);
            user(String.join(" ", others));
            admin.sync().flushall();
            admin.sync().scriptFlush();
            if (missing.equals("+role")) {
                // Needed for nothing else than this.
                assertThat(isRefusedByAReplica()).as("without %s", missing).isFalse();
                user(documented());
                assertThat(isRefusedByAReplica()).isTrue();
            } else {
                assertThat(failingOperations(RedisStore.create(client(asUser()))))
                        .as("without %s", missing)
                        .isNotEmpty()
                        .allSatisfy(e -> assertThat(e)
                                .is(anyOf(kind(Kind.REFUSED), kind(Kind.UNREACHABLE)))
                                .hasMessageContaining("expected a user with the rights that the store needs")
                                .hasMessageContaining(SET_USER + documented()));
            }
        }
    }

    /** The head of a log is written, and then its expiry cannot be. */
    @Test
    void aScriptThatFailsHalfwayIsNotChargedAgain() throws IOException {
        user(documented().replace(" +pexpire", ""));
        // Two limits, because a request on a single log gets its expiry first.
        Charge charge = Charge.of("c", Limit.parse("9/4s"), Limit.perHour(1_000));
        RateLimiter limiter = Unprotected.limiter(RedisStore.create(client(asUser())));
        Decision first = limiter.tryAcquire(charge).block();
        await().until(() -> limiter.peek(charge).block().at().isAfter(first.at()));
        // From the second slot on there is room for the next, and the log is not written as a whole.
        Decision second = limiter.tryAcquire(charge).block();
        // Until a hit needs another expiry than the one that was written with some to spare.
        await().until(() ->
                limiter.peek(charge).block().at().isAfter(second.at().plusMillis(4_000 / 8)));
        assertThat(StoreFailure.of(limiter.tryAcquire(charge)))
                .hasMessageContaining("expected a user with the rights that the store needs");
        assertThat(limiter.peek(charge).block().limits().get(0).used()).isEqualTo(3);
    }

    @Test
    void severalNamespacesTakeAPatternEach() throws IOException {
        user(documented() + " ~shop:prod:*");
        RedisClient client = client(asUser());
        for (String namespace : List.of("spillgate", "shop:prod")) {
            assertThat(failingOperations(
                            RedisStore.builder(client).namespace(namespace).build()))
                    .as(namespace)
                    .isEmpty();
        }
    }

    @Test
    void aKeyOutsideThePatternIsRefused() throws IOException {
        user(documented());
        RedisStore elsewhere =
                RedisStore.builder(client(asUser())).namespace("spillgate2").build();
        assertThat(StoreFailure.of(elsewhere))
                .is(kind(Kind.REFUSED))
                .hasMessageContaining("NOPERM")
                .hasMessageContaining("~spillgate:*");
        assertThat(admin.sync().keys("*")).isEmpty();
    }

    @Test
    void aDatabaseTakesOneMore() throws IOException {
        RedisURI uri = asUser();
        uri.setDatabase(3);
        user(documented());
        String needed = documented() + " +select";
        RedisStore store = RedisStore.create(client(uri));
        // Lettuce gives up such a connection at once, and sometimes tells only that it has been closed.
        await().untilAsserted(() -> assertThat(StoreFailure.of(store))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContaining("NOPERM")
                .hasMessageEndingWith(needed));
        user(needed);
        assertThat(failingOperations(RedisStore.create(client(uri)))).isEmpty();
    }

    @Test
    void aChangedPasswordIsUsedByTheNextConnectionAndNeverLogged() throws IOException {
        user(documented());
        AtomicReference<String> current = new AtomicReference<>(PASSWORD);
        RedisURI uri = redis.uri();
        uri.setCredentialsProvider(RedisCredentialsProvider.from(
                () -> RedisCredentials.just("app", current.get().toCharArray())));
        RedisStore store = RedisStore.create(client(uri));
        RateLimiter limiter = limiter(store);
        limiter.tryAcquire("a").block();

        acl("SETUSER", "app", "<" + PASSWORD, ">n3wpassword");
        assertThat(limiter.tryAcquire("a").block().source()).isEqualTo(Source.REDIS);
        killConnections();
        // While the old connection breaks that is what is told; and what Redis says may be lost with the new one.
        await().untilAsserted(() -> assertThat(StoreFailure.of(store))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContaining("WRONGPASS")
                .hasMessageContaining("for example redis://user:password@host:6379")
                .satisfies(e ->
                        assertThat(getStackTrace(e)).doesNotContain(PASSWORD).doesNotContain("n3wpassword")));

        current.set("n3wpassword");
        assertThat(limiter.tryAcquire("a").block().source()).isEqualTo(Source.REDIS);
    }

    /** Does all that the store can, and returns what went wrong. */
    private List<LimitStoreException> failingOperations(RedisStore store) {
        RateLimiter limiter = Unprotected.limiter(store);
        List<LimitStoreException> failures = new ArrayList<>();
        collect(failures, store.prepare(""));
        for (String limit : List.of("9/1h", "9/1h counter", "9/1h counter aligned", "9/1h counting-denied")) {
            Charge charge = Charge.of("a", Limit.parse(limit)).permits(2);
            Charge other = Charge.of("b", Limit.parse(limit));
            Decision first = collect(failures, limiter.tryAcquire(charge, other));
            admin.sync().scriptFlush();
            collect(failures, limiter.tryAcquire(charge, other));
            collect(failures, limiter.tryAcquire(charge.permits(10)));
            collect(failures, limiter.peek(charge));
            if (first != null) {
                assertThat(first.source()).isEqualTo(Source.REDIS);
                collect(failures, limiter.refund(first));
                List<Claim> claims = DecidedClaims.of(first);
                // What has not been charged is not refunded either: the last of it goes here.
                collect(failures, store.correct(RefundOldest.of(claims)));
                for (String id : List.of("1", "2")) {
                    collect(
                            failures,
                            store.correct(claims.stream()
                                    .map(claim -> Reconciliation.of(
                                            id, 1, claim, List.of(new Grants(980, 990, 2)), List.of(), NOW))
                                    .toList()));
                }
                collect(failures, store.reset(claims, LimitStore.NO_DEADLINE));
            }
        }
        Decision held = collect(failures, limiter.tryAcquire(Charge.of("held", Limit.concurrent(2))));
        if (held != null) {
            collect(failures, limiter.release(held));
        }
        if (failures.isEmpty()) {
            useForAWhile(failures, limiter);
        }
        return failures;
    }

    /** So that a log that is there gets a later expiry. A short one on its own would be written as a whole. */
    private static void useForAWhile(List<LimitStoreException> failures, RateLimiter limiter) {
        Charge charge = Charge.of("c", Limit.parse("9/1s"), Limit.perHour(1_000));
        for (int i = 0; i < 3; i++) {
            Decision taken = collect(failures, limiter.tryAcquire(charge));
            Decision now = taken;
            while (now != null && now.at().isBefore(taken.at().plusMillis(1_000 / 8))) {
                now = collect(failures, limiter.peek(charge));
            }
        }
    }

    private static <T> @Nullable T collect(List<LimitStoreException> failures, Mono<T> asked) {
        try {
            return asked.block();
        } catch (LimitStoreException e) {
            failures.add(e);
            return null;
        }
    }

    private boolean isRefusedByAReplica() {
        try (RedisForTests primary = servers.get()) {
            admin.sync().replicaof("127.0.0.1", primary.uri().getPort());
            LimitStoreException failure = StoreFailure.of(RedisStore.create(client(asUser())));
            admin.sync().replicaofNoOne();
            return failure.getMessage().contains("is a replica of");
        }
    }

    private static RateLimiter limiter(RedisStore store) {
        return Unprotected.limiter(store, Limit.perHour(100));
    }

    private static String documented() throws IOException {
        return documentedUsers().get(0);
    }

    /** Returns the rights of the users that the documentation names: of a single Redis, and then of a cluster. */
    public static List<String> documentedUsers() throws IOException {
        return Snippets.of(PAGE, "text").stream()
                .map(String::strip)
                .filter(block -> block.startsWith(SET_USER))
                .map(block -> block.substring(SET_USER.length()))
                .toList();
    }

    private void user(String rights) {
        acl(("SETUSER app reset on >" + PASSWORD + " " + rights).split(" "));
    }

    private void acl(String... words) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        for (String word : words) {
            args.add(word);
        }
        admin.sync().dispatch(CommandType.ACL, new StatusOutput<>(StringCodec.UTF8), args);
    }

    private void killConnections() {
        admin.sync().clientKill(KillArgs.Builder.typeNormal().skipme());
    }

    private RedisURI asUser() {
        RedisURI uri = redis.uri();
        uri.setCredentialsProvider(
                RedisCredentialsProvider.from(() -> RedisCredentials.just("app", PASSWORD.toCharArray())));
        return uri;
    }

    private RedisClient client(RedisURI uri) {
        RedisClient client = RedisClient.create(uri);
        clients.add(client);
        return client;
    }
}
