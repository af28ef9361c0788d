package io.github.spillgate.http;

import static io.github.spillgate.http.Decisions.written;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Decisions.Found;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.greenbytes.http.sfv.Item;
import org.greenbytes.http.sfv.Parametrizable;
import org.greenbytes.http.sfv.Parser;

/** A parser of structured fields that is not ours is the witness. */
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

    /** Whoever waits as long as he is told finds that what he asked for fits. */
    @Property
    void nobodyWhoKeepsToThemComesTooEarly(@ForAll("decisions") Decision decision) {
        Map<String, String> written = written(RateLimitHeaders.all(), decision);
        Instant reset = Instant.ofEpochSecond(Long.parseLong(written.get("X-RateLimit-Reset")));
        assertThat(written.containsKey("Retry-After")).isEqualTo(!decision.isAllowed());
        long longest = parse(written.get("RateLimit")).stream()
                .filter(state -> decision.violated().stream()
                        .anyMatch(limit -> state.get().toString().startsWith(limit.name())))
                .mapToLong(state -> (Long) state.getParams().get("t").get())
                .max()
                .orElse(0);
        for (Usage usage : decision.limits()) {
            if (!decision.isAllowed()) {
                long seconds = Long.parseLong(written.get("Retry-After"));
                assertThat(decision.at().plusSeconds(seconds)).isAfterOrEqualTo(usage.fitsAt());
                assertThat(reset).isAfterOrEqualTo(usage.fitsAt());
            }
        }
        if (!decision.isAllowed()) {
            Instant end = decision.at().plusSeconds(longest);
            assertThat(end)
                    .isAfterOrEqualTo(decision.at().plus(decision.retryAfter().orElseThrow()));
        }
    }

    @Property
    void anyTextIsAStringAndNothingElse(@ForAll("texts") String text) {
        StringBuilder field = new StringBuilder();
        StructuredField.appendString(field, text);
        StructuredField.appendParameter(field, "q", 1);
        assertThat(parse(field.toString())).singleElement().satisfies(item -> {
            assertThat(item.get()).isEqualTo(text.replaceAll("[^ -~]", "?"));
            assertThat(item.getParams()).containsOnlyKeys("q");
        });
    }

    @Property
    void anyNumberIsAnInteger(@ForAll long number) {
        StringBuilder field = new StringBuilder("\"a\"");
        StructuredField.appendParameter(field, "q", number);
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
