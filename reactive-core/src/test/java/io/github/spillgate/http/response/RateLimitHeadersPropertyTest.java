package io.github.spillgate.http.response;

import static io.github.spillgate.http.response.Decisions.written;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.response.Decisions.Found;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ManualClock;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.From;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.Size;
import org.greenbytes.http.sfv.Item;
import org.greenbytes.http.sfv.Parametrizable;
import org.greenbytes.http.sfv.Parser;

/** Checks the fields with an independent parser of structured fields. */
class RateLimitHeadersPropertyTest {

    @Property
    void bothFieldsAreListsOfNamedItems(@ForAll("decisions") Decision decision) {
        Map<String, String> written = written(RateLimitHeaders.all(), decision);
        List<Parametrizable<?>> policies = parse(written.get("RateLimit-Policy"));
        List<Parametrizable<?>> states = parse(written.get("RateLimit"));

        assertThat(policies).extracting(Parametrizable::get).doesNotHaveDuplicates();
        assertThat(states)
                .extracting(Parametrizable::get)
                .isEqualTo(policies.stream().map(Parametrizable::get).toList());
        for (Parametrizable<?> policy : policies) {
            Map<String, Item<?>> parameters = policy.getParams();
            assertThat(parameters).containsKey("q");
            assertThat(parameters.keySet()).isSubsetOf("q", "w");
            assertThat((Long) parameters.get("q").get()).isPositive();
            if (parameters.containsKey("w")) {
                assertThat((Long) parameters.get("w").get()).isPositive();
            }
        }
        for (Parametrizable<?> state : states) {
            Map<String, Item<?>> parameters = state.getParams();
            assertThat(parameters.keySet()).containsExactly("r", "t");
            assertThat((Long) parameters.get("r").get()).isNotNegative();
            assertThat((Long) parameters.get("t").get()).isNotNegative();
        }
    }

    @Property
    void theEffectiveWindowIsAtLeastASecondAndAtMostTheWindow(@ForAll("decisions") Decision decision) {
        Map<String, String> written = written(RateLimitHeaders.all(), decision);
        List<Parametrizable<?>> policies = parse(written.get("RateLimit-Policy"));
        List<Parametrizable<?>> states = parse(written.get("RateLimit"));
        for (int i = 0; i < policies.size(); i++) {
            long t = (Long) states.get(i).getParams().get("t").get();
            assertThat(t).isPositive();
            Item<?> w = policies.get(i).getParams().get("w");
            if (w != null) {
                assertThat(t).isLessThanOrEqualTo((Long) w.get());
            }
        }
    }

    @Property
    void noWaitThatADenialNamesIsTooShort(@ForAll("decisions") Decision decision) {
        Map<String, String> written = written(RateLimitHeaders.all(), decision);
        assertThat(written.containsKey("Retry-After")).isEqualTo(!decision.isAllowed());
        if (decision.isAllowed()) {
            return;
        }
        Instant reset = Instant.ofEpochSecond(Long.parseLong(written.get("X-RateLimit-Reset")));
        long seconds = Long.parseLong(written.get("Retry-After"));
        for (Usage usage : decision.limits()) {
            assertThat(decision.at().plusSeconds(seconds)).isAfterOrEqualTo(usage.fitsAt());
            assertThat(reset).isAfterOrEqualTo(usage.fitsAt());
        }
    }

    /** Sends requests of random costs at random times to a real store. */
    @Property(tries = 300)
    void aClientThatWaitsForRetryAfterIsServed(
            @ForAll("countedLimits") Limit limit, @ForAll @Size(min = 1, max = 40) List<@From("steps") Step> steps) {
        ManualClock clock = new ManualClock(Decisions.AT);
        long millis = limit.quotaWindow().toMillis();
        long window = -Math.floorDiv(-millis, 1_000L);
        try (RateLimiter limiter = RateLimiter.builder("test")
                .store(LocalStore.bounded(16, clock))
                .limit(limit)
                .build()) {
            for (Step step : steps) {
                clock.advanceMillis(step.millis % (2 * millis));
                long cost = 1 + step.cost % limit.capacity();
                Decision decision =
                        requireNonNull(limiter.tryAcquire(Charge.of("a", cost)).block());
                Map<String, String> written = written(RateLimitHeaders.all(), decision);

                assertThat(parse(written.get("RateLimit")))
                        .singleElement()
                        .satisfies(state -> assertThat(
                                        (Long) state.getParams().get("t").get())
                                .isBetween(1L, window));
                long reset = 1_000 * Long.parseLong(written.get("X-RateLimit-Reset"));
                if (!decision.isAllowed()) {
                    clock.advance(Duration.ofSeconds(Long.parseLong(written.get("Retry-After"))));
                    assertThat(limiter.tryAcquire(Charge.of("a", cost)).block())
                            .as("%s after Retry-After of %s", cost, decision)
                            .returns(true, Decision::isAllowed);
                } else if (decision.remaining() == 0) {
                    clock.advanceMillis(reset - clock.millis());
                    assertThat(limiter.peek("a").block())
                            .as("at X-RateLimit-Reset of %s", decision)
                            .returns(limit.capacity(), Decision::remaining);
                } else {
                    assertThat(reset - clock.millis()).isLessThan(millis + 1_000);
                }
            }
        }
    }

    @Provide
    Arbitrary<Limit> countedLimits() {
        Arbitrary<Long> permits = Arbitraries.longs().between(1, 20);
        Arbitrary<Long> seconds = Arbitraries.of(1L, 2L, 60L);
        return Combinators.combine(permits, seconds, Arbitraries.integers().between(0, 6))
                .as((most, length, kind) -> {
                    Duration window = Duration.ofSeconds(length);
                    return switch (kind) {
                        case 0 -> Limit.counter(most, window);
                        case 1 -> Limit.counter(most, window).alignedToClock();
                        case 2 -> Limit.of(most, window).resolution(window);
                        case 3 -> Limit.of(most, window.plusMillis(500)).resolution(Duration.ofMillis(100));
                        case 4 -> Limit.bucket(most, window, 7);
                        case 5 -> Limit.bucket(3, window, most);
                        default -> Limit.of(most, window);
                    };
                });
    }

    @Provide
    Arbitrary<Step> steps() {
        Arbitrary<Long> soon = Arbitraries.longs().between(0, 200);
        Arbitrary<Long> later = Arbitraries.longs().between(0, 200_000);
        return Combinators.combine(Arbitraries.longs().between(0, 50), Arbitraries.oneOf(soon, later))
                .as(Step::new);
    }

    /** A request of {@code 1 + cost % permits} after {@code millis}, two windows at most. */
    record Step(long cost, long millis) {}

    @Property
    void anyTextIsAStringAndNothingElse(@ForAll("texts") String text) {
        StringBuilder field = new StringBuilder();
        RateLimitDraft11.appendString(field, text);
        RateLimitDraft11.appendParameter(field, "q", 1);
        assertThat(parse(field.toString())).singleElement().satisfies(item -> {
            assertThat(item.get()).isEqualTo(text.replaceAll("[^ -~]", "?"));
            assertThat(item.getParams()).containsOnlyKeys("q");
        });
    }

    @Property
    void anyNumberIsAnInteger(@ForAll long number) {
        StringBuilder field = new StringBuilder("\"a\"");
        RateLimitDraft11.appendParameter(field, "q", number);
        assertThat(parse(field.toString()))
                .singleElement()
                .satisfies(item -> assertThat(item.getParams().get("q").get())
                        .isEqualTo(Math.max(0, Math.min(number, 999_999_999_999_999L))));
    }

    private static List<Parametrizable<?>> parse(String field) {
        return List.copyOf(new Parser(field).parseList().get());
    }

    @Provide
    Arbitrary<String> texts() {
        Arbitrary<String> nasty =
                Arbitraries.strings().withChars("\"\\,;= a~\n\u007f\u00fc").ofMaxLength(12);
        return Arbitraries.oneOf(nasty, Arbitraries.strings().ofMaxLength(12));
    }

    @Provide
    Arbitrary<Decision> decisions() {
        return found().list()
                .ofMinSize(1)
                .ofMaxSize(8)
                .map(list -> Decisions.of(IntStream.range(0, list.size())
                        .mapToObj(i -> list.get(i).of("key" + i))
                        .toArray(Found[]::new)));
    }

    private static Arbitrary<OfKey> found() {
        Arbitrary<Limit> limits = Combinators.combine(
                        Arbitraries.longs().between(1, 1_000),
                        Arbitraries.of(1L, 250L, 1_000L, 1_500L, 60_000L, 86_400_000L),
                        Arbitraries.of("", "burst", "A.b_c-9"))
                .as((permits, millis, name) -> {
                    Limit limit = Limit.of(permits, Duration.ofMillis(millis));
                    return name.isEmpty() ? limit : limit.named(name);
                });
        return Combinators.combine(
                        limits,
                        Arbitraries.longs().between(0, 2_000),
                        Arbitraries.of(true, false),
                        Arbitraries.longs().between(0, 200_000_000))
                .as((limit, used, violated, millis) -> key -> new Found(key, limit, used, violated, millis));
    }

    private interface OfKey {
        Found of(String key);
    }
}
