package io.github.spillgate.webflux;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.GatewayRateLimiter.Config;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;

/** The gateway's own script and our limiter get the same requests, with the same arguments, at the same times. */
class GatewayScriptComparisonTest {

    private static final int HISTORIES = 60;
    private static final long MILLIS = 30_000;

    private static RedisClient client;
    private static RedisCommands<String, String> redis;
    private static String script;

    private final ManualClock clock = new ManualClock();

    @BeforeAll
    static void load() throws IOException {
        client = RedisClient.create(RedisForTests.first().uri());
        redis = client.connect().sync();
        try (InputStream in = requireNonNull(
                RedisRateLimiter.class.getResourceAsStream("/META-INF/scripts/request_rate_limiter.lua"))) {
            script = redis.scriptLoad(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    @AfterAll
    static void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /**
     * The gateway fills its bucket at full seconds. So the levels of the two buckets are apart by up to the tokens of a
     * second, and each may be full or empty when the other is not.
     */
    @Test
    void bothAdmitTheSameNumber() {
        long allOfOurs = 0;
        long allOfTheirs = 0;
        for (int seed = 0; seed < HISTORIES; seed++) {
            Random random = new Random(seed);
            int rate = 1 + random.nextInt(20);
            int burst = rate + random.nextInt(3 * rate);
            int tokens = 1 + random.nextInt(Math.min(burst, 4));
            History history = new History(rate, burst, tokens);
            int mostPause = 2_000 * tokens / rate / (1 + random.nextInt(5));
            long end = clock.millis() + MILLIS;
            while (clock.millis() < end) {
                clock.advanceMillis(random.nextInt(10) == 0 ? random.nextInt(3_000) : random.nextInt(mostPause + 1));
                history.request();
                assertThat(Math.abs(history.ours - history.theirs) * tokens)
                        .as("%s, seed %d, ours %d, theirs %d", history.plan, seed, history.ours, history.theirs)
                        .isLessThanOrEqualTo(4L * rate + tokens);
            }
            allOfOurs += history.ours;
            allOfTheirs += history.theirs;
        }
        assertThat((double) allOfOurs / allOfTheirs).isBetween(0.98, 1.02);
    }

    /** A burst, and then requests at exactly the rate: all of them pass. */
    @Test
    void aSteadyClientIsServedRightAfterItsBurst() {
        History history = new History(10, 20, 1);
        for (int i = 0; i < 20; i++) {
            history.request();
        }
        for (int i = 0; i < 50; i++) {
            clock.advanceMillis(100);
            history.request();
        }
        assertThat(history.ours).isEqualTo(70);
    }

    private final class History {

        private final GatewayPlan plan;
        private final RateLimiter limiter =
                RateLimiter.builder("api").store(LocalStore.bounded(16, clock)).build();
        private final String key = UUID.randomUUID().toString();
        private long ours;
        private long theirs;

        History(int rate, int burst, int tokens) {
            plan = GatewayPlan.of(
                    "r",
                    new Config().setReplenishRate(rate).setBurstCapacity(burst).setRequestedTokens(tokens));
        }

        void request() {
            Config config = plan.config();
            List<Long> theirDecision = redis.evalsha(
                    script,
                    ScriptOutputType.MULTI,
                    new String[] {"{" + key + "}.tokens", "{" + key + "}.timestamp"},
                    "" + config.replenishRate,
                    "" + config.burstCapacity,
                    "" + clock.millis() / 1_000,
                    "" + config.requestedTokens);
            theirs += theirDecision.get(0);
            Decision ourDecision = requireNonNull(
                    limiter.tryAcquire(Charge.of(key, plan.limits()).permits(config.requestedTokens))
                            .block());
            ours += ourDecision.isAllowed() ? 1 : 0;
        }
    }
}
