package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.testkit.LogForTests;
import java.lang.reflect.Proxy;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Mono;

/**
 * A store fails because a class or a method is missing: the fallback decides, and the state and the log name what is
 * missing.
 */
class ResilientStoreLinkageErrorTest {

    private static final String MISSING = "io.netty.missing.Method";

    static Stream<Supplier<Mono<Decision>>> ways() {
        return Stream.of(
                () -> {
                    throw new NoSuchMethodError(MISSING);
                },
                () -> Mono.defer(() -> {
                    throw new NoClassDefFoundError(MISSING);
                }),
                () -> Mono.error(new NoSuchMethodError(MISSING)));
    }

    @ParameterizedTest
    @MethodSource("ways")
    void theFallbackDecidesAndStateAndLogNameWhatIsMissing(Supplier<Mono<Decision>> how) {
        try (LogForTests log = LogForTests.listen()) {
            RateLimiter limiter = RateLimiter.builder("unusable")
                    .store(store(how))
                    .limit(Limit.perMinute(10))
                    .build();
            for (int i = 0; i < 3; i++) {
                assertThat(limiter.tryAcquire("a").block().source()).isEqualTo(Source.LOCAL);
            }
            assertThat(limiter.state().source()).isEqualTo(Source.LOCAL);
            assertThat(limiter.state().problem()).get().asString().contains(MISSING);
            assertThat(log.lines("Falling back")).singleElement().asString().contains(MISSING);
            limiter.close();
        }
    }

    private static LimitStore store(Supplier<Mono<Decision>> how) {
        return (LimitStore) Proxy.newProxyInstance(
                ResilientStoreLinkageErrorTest.class.getClassLoader(),
                new Class<?>[] {LimitStore.class},
                (proxy, method, arguments) -> {
                    return switch (method.getName()) {
                        case "take" -> how.get();
                        case "toString" -> "UnusableStore";
                        case "deadline" -> Optional.empty();
                        case "part" -> "";
                        case "state" -> StoreState.of(Source.OTHER);
                        default -> Mono.empty();
                    };
                });
    }
}
