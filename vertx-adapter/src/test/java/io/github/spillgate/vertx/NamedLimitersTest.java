package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.metrics.DecisionMetrics;
import io.github.spillgate.metrics.RuleMetrics;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** The limiters of the setting {@code limiters}. */
class NamedLimitersTest extends HandlerFixture {

    @Test
    void aServiceOnRedisHasLimitersBesideItsRules() throws Exception {
        SimpleMeterRegistry meters = new SimpleMeterRegistry();
        String name = "named-" + UUID.randomUUID().toString().substring(0, 8);
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "%s", "redis": {"uri": "%s"}, "deadline": "10s",
                                 "rules": [{"name": "partner", "limits": "100/1m"}],
                                 "limiters": {"partner": {"limits": "2/1h"}, "mail": {"limits": "9/s, 5 concurrent"}}}
                                """.formatted(
                                name, RedisForTests.first().uri().toURI()))))
                .listener(RuleMetrics.of(meters))
                .listener(DecisionMetrics.of(meters))
                .start();
        done(limiting.ready());
        start(router -> router.route("/call").handler(limiting.handler()).handler(ctx -> {
            Context own = Vertx.currentContext();
            Future<Decision> decided = limiting.futures("partner").tryAcquire("calls");
            decided.onSuccess(decision -> {
                assertThat(Vertx.currentContext()).isSameAs(own);
                end(ctx, decision.isAllowed() + " " + decision.source());
            });
        }));
        assertThat(get("/call").body()).isEqualTo("true REDIS");
        assertThat(get("/call").body()).isEqualTo("true REDIS");
        assertThat(get("/call").body()).isEqualTo("false REDIS");
        RateLimiter partner = limiting.limiter("partner");
        assertThat(partner.name()).isEqualTo(name + ".partner");
        assertThat(limiting.limiter("mail").limits()).hasToString("[9/1s, 5 concurrent]");
        assertThat(partner.state()).as("one store").isEqualTo(limiting.limiter().state());
        assertThat(meters.get("spillgate.decisions")
                        .tags("rule", "limiter:" + name + ".partner", "outcome", "denied")
                        .timer()
                        .count())
                .isOne();
        done(limiting.close());
        assertThatThrownBy(() -> done(limiting.futures("partner").acquire("calls", LONG)))
                .hasStackTraceContaining("is closed");
    }

    @Test
    void theFallbackOfTheLimiterDecides() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx,
                        new RateLimitOptions()
                                .setName("named-fallback")
                                .setRedisUri("redis://localhost:1")
                                .setReadyTimeout(Duration.ZERO)
                                .addLimiter("partner", Limit.perHour(1)))
                .start();
        assertThat(done(limiting.futures("partner").tryAcquire("calls")).source())
                .isEqualTo(Source.LOCAL);
        assertThat(limiting.limiter().state().fallbacks()).isPositive();
        done(limiting.close());
    }

    @Test
    void anUnknownNameIsReportedWithThoseThatExist() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx, local().addLimiter("partner", Limit.perSecond(1)).addLimiter("mail", Limit.perSecond(1)))
                .start();
        assertThatThrownBy(() -> limiting.limiter("partners"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("no limiter has this name: did you mean partner? Expected one of partner, mail");
        done(limiting.close());
        RateLimiting without = RateLimiting.of(vertx, local()).start();
        assertThatThrownBy(() -> without.futures("partner"))
                .hasMessage("no limiter has this name: expected one of limiters, and there is none");
        done(without.close());
    }

    @Test
    void theStartIsLoggedWithItsName() throws Exception {
        try (LogForTests log = LogForTests.listen()) {
            done(RateLimiting.of(vertx, local().addLimiter("partner", Limit.perSecond(1)))
                    .start()
                    .close());
            assertThat(log.lines("other limiters: [partner]")).hasSize(1);
        }
    }

    @Test
    void newRulesMayNotChangeIt() throws Exception {
        RateLimitOptions options = local().addLimiter("partner", Limit.perSecond(1));
        RateLimiting limiting = RateLimiting.of(vertx, options).start();
        RateLimitOptions next = new RateLimitOptions(options)
                .addRule(new RuleOptions().setName("a").setLimits(Limit.perHour(5)));
        limiting.replaceRules(next);
        assertThatThrownBy(() -> limiting.replaceRules(next.addLimiter("partner", Limit.perSecond(2))))
                .hasMessageStartingWith("limiters: found {\"partner\":{\"limits\":[\"2/1s\"]}}: only a restart");
        done(limiting.close());
    }

    @Test
    void aDisabledLimiterAllowsEverything() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx, local().setEnabled(false).setDebt(-1).addLimiter("partner", Limit.perHour(1)))
                .start();
        for (int i = 0; i < 3; i++) {
            assertThat(done(limiting.futures("partner").tryAcquire("calls")).isAllowed())
                    .isTrue();
        }
        done(limiting.close());
    }

    @Test
    void settingsOfTheLimiterApply() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, local().setDebt(0).addLimiter("partner", Limit.perHour(1)))
                .start();
        FutureRateLimiter partner = limiting.futures("partner");
        done(partner.settle(done(partner.tryAcquire("calls")), 5));
        assertThat(done(partner.peek("calls")).limits().get(0).used()).isOne();
        done(limiting.close());
    }

    private static RateLimitOptions local() {
        return new RateLimitOptions().setName("named").setStore(RateLimitOptions.StoreType.LOCAL);
    }
}
