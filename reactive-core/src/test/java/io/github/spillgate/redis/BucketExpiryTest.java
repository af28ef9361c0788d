package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How long Redis keeps a bucket: as long as anything has not returned, and not much longer. */
class BucketExpiryTest {

    RedisForTests redis = RedisForTests.first();

    private RedisClient client;
    private Keyspace keyspace;
    private RateLimiter limiter;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        keyspace = new Keyspace(client);
        limiter = Unprotected.limiter(
                RedisStore.builder(client).namespace(keyspace.namespace()).build());
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    /** Also if its rate changes, which delays when it is empty. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1s burst=50", "1000/1s burst=1000", "7/3s burst=2", "1/1ms burst=3", "4/366d burst=90"})
    void aBucketLivesUntilItIsEmptyAndNotMuchLonger(String text) {
        Limit limit = Limit.parse(text);
        Limit slower = Limit.bucket((limit.permits() + 1) / 2, limit.window(), limit.capacity());
        long longest = LimitKind.reach(slower) / 2 * 3 + 2_000;
        Random random = new Random(1);
        List<Decision> allowed = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            Charge charge = Charge.of("a", random.nextInt(8) == 0 ? slower : limit);
            Decision decision = take(charge.permits(1 + random.nextInt(2)));
            if (decision.isAllowed()) {
                allowed.add(decision);
                assertThatItLives(decision, longest);
            }
            if (!allowed.isEmpty() && random.nextInt(3) == 0) {
                limiter.refund(allowed.remove(random.nextInt(allowed.size()))).block();
            }
        }
    }

    /** Redis keeps a key for the whole millisecond in which it expires. */
    private void assertThatItLives(Decision decision, long longest) {
        String key =
                keyspace.namespace() + ":3:" + DecidedClaims.of(decision).get(0).identity();
        long emptyAt = decision.limits().get(0).wholeAt().toEpochMilli();
        long left = keyspace.commands().pttl(key);
        assertThat(keyspace.now() + Math.max(0, left)).isGreaterThanOrEqualTo(emptyAt - 1);
        assertThat(left).isLessThanOrEqualTo(longest);
    }

    private Decision take(Charge charge) {
        return Objects.requireNonNull(limiter.tryAcquire(charge).block());
    }

    /** The first is busy, and the second soon empty. */
    @ParameterizedTest
    @CsvSource({"60000/1m burst=60000, 100, 20", "1000000/1s burst=1000, 1, 100"})
    void mostTakesDoNotWriteTheExpiry(String limit, int cost, int writes) {
        Charge charge = Charge.of("a", Limit.parse(limit)).permits(cost);
        long before = keyspace.callsOf("set");
        for (int i = 0; i < 200; i++) {
            assertThat(take(charge).isAllowed()).isTrue();
        }
        assertThat(keyspace.callsOf("set") - before).isLessThan(writes);
    }

    @Test
    void aBucketThatWasEmptyHas24BytesAndOthersHave36() {
        Charge charge = Charge.of("a", Limit.perHour(100).burst(100));
        Decision first = take(charge);
        do {
            assertThat(keyspace.commands().strlen(keyspace.onlyKey())).isEqualTo(24);
        } while (take(charge).at().equals(first.at()));
        assertThat(keyspace.commands().strlen(keyspace.onlyKey())).isEqualTo(36);
    }
}
