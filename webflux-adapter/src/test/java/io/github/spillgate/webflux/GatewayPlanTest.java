package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.webflux.GatewayRateLimiter.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GatewayPlanTest {

    @ParameterizedTest
    @CsvSource({
        "10, 20, 1, 10/1s burst=20 name=gateway-r-1s",
        "3, 10, 1, 3/1s burst=10 name=gateway-r-1s",
        "1, 60, 60, 1/1s burst=60 name=gateway-r-1s",
        "1, 100, 60, 1/1s burst=100 name=gateway-r-1s",
        // The bucket is filled once a second, and what is not enough for a request is lost.
        "10, 1, 1, 1/1s burst=1 name=gateway-r-1s",
        "10, 5, 2, 4/1s burst=5 name=gateway-r-1s",
        // As good as unlimited.
        "2147483647, 9007199254740991, 1, 2147483647/1s burst=1000000000000 name=gateway-r-1s",
        "1, 9007199254740991, 1, 1/1s burst=3162240000 name=gateway-r-1s"
    })
    void aBucketKeepsItsRateAndItsBurst(int rate, long burst, int tokens, String limit) {
        assertThat(plan(rate, burst, tokens).limits())
                .singleElement()
                .extracting(Object::toString)
                .asString()
                .isEqualTo(limit);
    }

    @Test
    void invalidSettingsAreReported() {
        assertWrong(new Config(), "replenishRate is 0", "limits: 10/s, 3000/10m");
        assertWrong(bucket(1, 10, 0), "requestedTokens is 0", "for example 1");
        assertWrong(bucket(1, -1, 1), "burstCapacity is -1", "expected at least 1, or 0 to deny all");
        assertWrong(bucket(1, 1, 60), "burstCapacity is 1", "expected at least 60, or 0 to deny all");
        assertWrong(bucket(1, 1, 1).setLimits("10/s"), "it has limits, \"10/s\", and replenishRate, 1");
        assertWrong(new Config().setLimits("10/s,"), "limit \"\"");
        assertWrong(
                new Config().setLimits("10/s, 20 concurrent hold=90s"),
                "limit \"20 concurrent hold=90s\"",
                "spillgate.rules[0].limits=20 concurrent hold=90s");
        assertWrong(
                new Config().setLimits("20 concurrent retry=5s"),
                "limit \"20 concurrent retry=5s\" holds permits until a response has ended",
                "expected limits with a window, for example 10/s",
                "spillgate.rules[0].limits=20 concurrent retry=5s");
        assertWrong(
                new Config().setLimits("10/s, 5/1m").setRequestedTokens(6),
                "requestedTokens is 6",
                "limit \"5/1m\"",
                "at most 5");
    }

    @Test
    void limitNamesAreDerivedFromTheRoute() {
        assertThat(named("orders", "10/s")).isEqualTo("gateway-orders-1s");
        assertThat(named("lb://öffentlich", "10/s name=burst")).isEqualTo("gateway-lb____ffentlich-burst");
        assertThat(named("r".repeat(100), "10/s name=burst")).hasSize(64).endsWith("r-burst");
    }

    private static String named(String route, String limit) {
        return GatewayPlan.of(route, new Config().setLimits(limit))
                .limits()
                .get(0)
                .name();
    }

    private static GatewayPlan plan(int rate, long burst, int tokens) {
        return GatewayPlan.of("r", bucket(rate, burst, tokens));
    }

    private static Config bucket(int rate, long burst, int tokens) {
        return new Config().setReplenishRate(rate).setBurstCapacity(burst).setRequestedTokens(tokens);
    }

    private static void assertWrong(Config config, String... told) {
        assertThatThrownBy(() -> GatewayPlan.of("r", config))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("rate limiter of route r: ")
                .hasMessageContainingAll(told);
    }
}
