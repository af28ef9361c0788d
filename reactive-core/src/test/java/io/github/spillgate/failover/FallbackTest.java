package io.github.spillgate.failover;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.StoreForTests;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Mono;

/** The fallbacks that count nothing, used as the only store. */
class FallbackTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    static Stream<LimitStore> allowAndDeny() {
        return Stream.of(Fallback.allow(), Fallback.deny());
    }

    @ParameterizedTest
    @MethodSource("allowAndDeny")
    void allowAndDenyCountNothing(LimitStore fallback) {
        RateLimiter limiter = limiter(fallback);
        Decision before = limiter.peek("a").block(LONG);
        for (int i = 0; i < 3; i++) {
            limiter.tryAcquire("a").block(LONG);
        }
        limiter.refund("a", 1).block(LONG);
        limiter.refund(Charge.of("a"), Charge.of("b")).block(LONG);
        limiter.reset("a").block(LONG);
        Decision after = limiter.peek("a").block(LONG);
        assertThat(after.isAllowed()).isEqualTo(before.isAllowed());
        assertThat(after.limits()).isEmpty();
        assertThat(after.source()).isEqualTo(Source.FALLBACK);
        assertThat(StoreForTests.refund(fallback, (StoreDecision) after).blockOptional(LONG))
                .isEmpty();
    }

    @Test
    void errorFailsEveryOperation() {
        LimitStore nothing = Fallback.error();
        RateLimiter limiter = limiter(nothing);
        Decision decision = limiter(Fallback.allow()).tryAcquire("a").block(LONG);
        for (Mono<?> question : List.of(
                limiter.tryAcquire("a"),
                limiter.peek("a"),
                limiter.refund("a", 1),
                StoreForTests.refund(nothing, (StoreDecision) decision),
                limiter.reset("a"))) {
            assertThatExceptionOfType(LimitStoreException.class)
                    .isThrownBy(() -> question.block(LONG))
                    .is(kind(Kind.UNAVAILABLE))
                    .withMessage("the store does not answer, and there is nothing to fall back on");
        }
    }

    @Test
    void fallbacksNeedNoResilientStore() {
        for (LimitStore fallback : List.of(Fallback.allow(), Fallback.deny(), Fallback.error())) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> ResilientStore.of(fallback))
                    .withMessageContaining("store " + fallback + " has a deadline of its own");
        }
        assertThat(Fallback.allow()).hasToString("Fallback[allow]");
        assertThat(Fallback.deny()).hasToString("Fallback[deny]");
        assertThat(Fallback.error()).hasToString("Fallback[error]");
    }

    private static RateLimiter limiter(LimitStore store) {
        return RateLimiter.builder("api").store(store).limit(Limit.perMinute(2)).build();
    }
}
