package io.github.spillgate.postgres;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.DecidedClaims;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Two stores on one table, as in two processes, each with 64 callers. */
class PostgresContentionTest extends PostgresFixture {

    private static final int CALLERS = 64;

    private final Queue<Throwable> errors = new ConcurrentLinkedQueue<>();

    @ParameterizedTest
    @ValueSource(strings = {"200/5h", "200/5h counter", "200/5h burst=200", "200 concurrent"})
    void aHotKeyGetsExactlyItsLimit(String text) {
        Charge hot = Charge.of("hot", Limit.parse(text));
        List<Decision> decisions = decide(limiters(), 1_000, i -> List.of(hot));
        assertThat(errors).isEmpty();
        assertThat(decisions.stream().filter(Decision::isAllowed)).hasSize(200);
        assertThat(used("hot", Limit.parse(text))).isEqualTo(200);
    }

    @ParameterizedTest
    @ValueSource(strings = {"1/5h", "1 concurrent"})
    void eachNewKeyIsGrantedOnce(String text) {
        Limit limit = Limit.parse(text);
        List<Decision> allowed = decide(limiters(), 4_000, i -> List.of(Charge.of("key-" + i / 4, limit))).stream()
                .filter(Decision::isAllowed)
                .toList();
        assertThat(errors).isEmpty();
        assertThat(allowed).hasSize(1_000);
        assertThat(allowed.stream().map(decision -> decision.limits().get(0).key()))
                .doesNotHaveDuplicates();
    }

    /** Each decision has new rows and rows that others write at the same time. */
    @Test
    void severalLimitsAndKeysAreChargedTogetherOrNotAtAll() {
        Limit log = Limit.of(40, Duration.ofHours(5));
        Limit counter = Limit.counter(30, Duration.ofHours(5));
        IntFunction<List<Charge>> charges = i -> List.of(
                Charge.of("new-" + i / 4, log),
                Charge.of("hot-" + i % 3, log, counter),
                Charge.of("newer-" + i / 4, log));
        List<Decision> allowed = decide(limiters(), 800, charges).stream()
                .filter(Decision::isAllowed)
                .toList();
        assertThat(errors).isEmpty();
        assertThat(allowed).hasSize(90);
        for (Charge charge : List.of(Charge.of("hot-0", log, counter), Charge.of("hot-1", log, counter))) {
            for (Limit limit : charge.limits()) {
                assertThat(used(charge.key(), limit)).isEqualTo(taken(allowed, charge.key(), limit));
            }
        }
        for (int i = 0; i < 200; i++) {
            assertThat(used("new-" + i, log)).isEqualTo(taken(allowed, "new-" + i, log));
        }
    }

    /** In the role's isolation, conflicts may be errors, but never a permit too many. */
    @ParameterizedTest
    @ValueSource(strings = {"repeatable read", "serializable"})
    void anotherIsolationNeverAdmitsMore(String isolation) {
        store().read(List.of("a")).block();
        String role = role("SET default_transaction_isolation = '" + isolation + "'");
        postgres.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + " TO " + role);
        List<RateLimiter> limiters = List.of(
                limiter(closing(builder(role).build())),
                limiter(closing(builder(role).build())));
        Limit limit = Limit.of(150, Duration.ofHours(5));
        List<Decision> decisions = decide(limiters, 1_000, i -> List.of(Charge.of("hot-" + i % 4, limit)));
        assertThat(errors)
                .allSatisfy(error -> assertThat(error)
                        .is(kind(Kind.UNAVAILABLE))
                        .hasMessageContainingAll("(40001)", "SET default_transaction_isolation = 'read committed'"));
        for (int i = 0; i < 4; i++) {
            String key = "hot-" + i;
            assertThat(used(key, limit))
                    .isLessThanOrEqualTo(150)
                    .isEqualTo(
                            taken(decisions.stream().filter(Decision::isAllowed).toList(), key, limit));
        }
    }

    private static long taken(List<Decision> allowed, String key, Limit limit) {
        return allowed.stream()
                .flatMap(decision -> DecidedClaims.of(decision).stream())
                .filter(claim -> claim.key().equals(key) && claim.limit().equals(limit))
                .mapToLong(Claim::permits)
                .sum();
    }

    private List<RateLimiter> limiters() {
        return List.of(limiter(store()), limiter(store()));
    }

    private List<Decision> decide(List<RateLimiter> limiters, int number, IntFunction<List<Charge>> charges) {
        List<Flux<Decision>> all = new ArrayList<>();
        for (int k = 0; k < 2; k++) {
            int store = k;
            all.add(Flux.range(0, number / 2)
                    .map(i -> 2 * i + store)
                    .flatMap(
                            i -> limiters.get(store)
                                    .tryAcquire(charges.apply(i).toArray(Charge[]::new))
                                    .onErrorResume(error -> {
                                        errors.add(error);
                                        return Mono.empty();
                                    }),
                            CALLERS));
        }
        return requireNonNull(Flux.merge(all).collectList().block(Duration.ofMinutes(2)));
    }
}
