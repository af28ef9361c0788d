package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.http.response.ResponseFields;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Mono;

/** The verdicts that an adapter keeps with a request and reports in its response. */
class RequestVerdictsTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int THREADS = 4;
    private static final String EXPOSE = "Access-Control-Expose-Headers";
    private static final String ALL_NAMES = "RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining,"
            + " X-RateLimit-Reset, Retry-After";

    private final LocalStore store = LocalStore.bounded(100);

    @AutoClose
    private final RateLimiter limiter = RateLimiter.builder("test").store(store).build();

    private final RequestVerdicts verdicts = new RequestVerdicts();
    private final Fields response = new Fields();

    /** A handler may call several annotated methods at once. */
    @Test
    void nothingIsLostIfSeveralThreadsRecord() {
        int number = 1_000;
        List<Rule> rules = IntStream.range(0, number)
                .mapToObj(i -> rule("rule-" + i, 5).build())
                .toList();
        try (RateLimiter many = RateLimiter.builder("many")
                .store(LocalStore.bounded(10 * number))
                .build()) {
            List<Verdict> made =
                    rules.stream().map(rule -> decide(many, rule.toBuilder())).toList();
            inParallel(number, i -> verdicts.isNew(rules.get(i)));
            inParallel(number / 2, i -> verdicts.forget(rules.get(i)));
            inParallel(number, i -> verdicts.denied(rules.get(i), made.get(i)));
            inParallel(number, i -> verdicts.note(made.get(i)));
            inParallel(number, i -> verdicts.cost(rules.get(i).name(), 2));
            assertThat(verdicts.decisions()).hasSize(number);
            assertThat(rules).allMatch(rule -> verdicts.denial(rule) != null);
            assertThat(rules.subList(0, number / 2)).allMatch(verdicts::isNew);
            assertThat(rules.subList(number / 2, number)).noneMatch(verdicts::isNew);
            verdicts.settle().block(LONG);
            assertThat(rules)
                    .allSatisfy(rule -> assertThat(decide(many, rule.toBuilder())
                                    .decision()
                                    .orElseThrow()
                                    .remaining())
                            .as("with the cost of %s", rule.name())
                            .isEqualTo(2));
        }
    }

    private static void inParallel(int number, IntConsumer record) {
        CyclicBarrier start = new CyclicBarrier(THREADS);
        CompletableFuture.allOf(IntStream.range(0, THREADS)
                        .mapToObj(thread -> CompletableFuture.runAsync(
                                () -> {
                                    await(start);
                                    for (int i = thread; i < number; i += THREADS) {
                                        record.accept(i);
                                    }
                                },
                                task -> new Thread(task).start()))
                        .toArray(CompletableFuture[]::new))
                .join();
    }

    private static void await(CyclicBarrier barrier) {
        try {
            barrier.await();
        } catch (InterruptedException | BrokenBarrierException e) {
            throw new IllegalStateException(e);
        }
    }

    // Decisions.

    @Test
    void decisionsAreKeptInOrderWithoutDuplicates() {
        Verdict before = decide(rule("before", 5));
        Verdict after = decide(rule("after", 3));
        assertThat(verdicts.note(before)).isEmpty();
        List<Decision> seen = verdicts.decisions();
        assertThat(verdicts.note(after)).isEmpty();
        assertThat(verdicts.note(before)).isEmpty();
        assertThat(verdicts.decisions())
                .containsExactly(
                        before.decision().orElseThrow(), after.decision().orElseThrow());
        assertThat(seen).as("what a handler has got stays as it is").hasSize(1);
    }

    @Test
    void permitsTakenAfterTheEndOfTheResponseAreReleasedAtOnce() {
        verdicts.release();
        Disposable late = Disposables.single();
        verdicts.hold(late);
        assertThat(late.isDisposed()).isTrue();
    }

    @Test
    void aLaterDenialReleasesThePermitsThatTheRequestHolds() {
        Disposable held = Disposables.single();
        SentRequest request = SentRequest.get("/").remembering();
        request.verdicts().hold(held);
        Rules rules = Rules.of(
                limiter,
                SentRequest.syntax(),
                List.of(Rule.named("all")
                        .key(KeySource.constant("k"))
                        .limit(Limit.perHour(1))
                        .build()));
        assertThat(rules.decide(SentRequest.get("/")).block(LONG).isAllowed()).isTrue();
        assertThat(held.isDisposed()).isFalse();
        assertThat(rules.decide(request).block(LONG).isAllowed()).isFalse();
        assertThat(held.isDisposed()).isTrue();
    }

    @Test
    void aDenialNamesLimitsAsTheHeadersDo() {
        Rule.Builder hourly = Rule.named("q")
                .key(KeySource.constant("k"))
                .limit(Limit.perHour(1).named("all"));
        Rule.Builder daily = Rule.named("q")
                .key(KeySource.constant("k"))
                .limit(Limit.perDay(1).named("all"));
        decide(daily);
        verdicts.note(decide(hourly));
        Problem problem = verdicts.note(decide(daily)).orElseThrow();
        assertThat(problem.toString()).contains("[\"q-all#2\"]");
        verdicts.write(RateLimitHeaders.all(), response);
        assertThat(response.line("RateLimit-Policy")).contains("\"q-all#2\"");
    }

    @Test
    void aRefusalWithoutADecisionWritesNoFields() {
        Verdict refused = Verdict.refusal(Problem.undecided());
        assertThat(verdicts.note(refused)).isEqualTo(refused.problem()).isPresent();
        assertThat(verdicts.decisions()).isEmpty();
        response.set("Access-Control-Allow-Origin", "*");
        verdicts.write(RateLimitHeaders.all(), response);
        assertThat(response.names()).containsExactly("access-control-allow-origin");
    }

    // Header fields.

    @Test
    void fieldsOfTheServiceStay() {
        verdicts.note(decide(rule("address", 5)));
        response.set("x-ratelimit-limit", "of the service");
        verdicts.write(RateLimitHeaders.all(), response);
        assertThat(response.line("X-RateLimit-Limit")).isEqualTo("of the service");
        assertThat(response.line("X-RateLimit-Remaining")).isEqualTo("4");
        assertThat(response.names()).doesNotContain(EXPOSE.toLowerCase(Locale.ROOT));
    }

    @Test
    void fieldsAreExposedToOtherOriginsBesideThoseOfTheService() {
        verdicts.note(decide(rule("address", 5)));
        response.set("Access-Control-Allow-Origin", "https://shop.example");
        response.lines(EXPOSE, "X-Own, ratelimit,, x-own", " Retry-After ");
        verdicts.write(RateLimitHeaders.all(), response);
        assertThat(response.line(EXPOSE))
                .isEqualTo("X-Own, ratelimit, Retry-After, RateLimit-Policy, X-RateLimit-Limit,"
                        + " X-RateLimit-Remaining, X-RateLimit-Reset");
    }

    @Test
    void onlyEnabledFieldsAreExposed() {
        verdicts.note(decide(rule("address", 5)));
        response.set("Access-Control-Allow-Origin", "*");
        verdicts.write(RateLimitHeaders.all().xRateLimit(false), response);
        assertThat(response.line(EXPOSE)).isEqualTo("RateLimit-Policy, RateLimit, Retry-After");
    }

    @Test
    void aStarExposesAllFieldsUnlessCredentialsAreAllowed() {
        verdicts.note(decide(rule("address", 5)));
        response.set("Access-Control-Allow-Origin", "https://shop.example");
        response.set(EXPOSE, "*");
        verdicts.write(RateLimitHeaders.all(), response);
        assertThat(response.line(EXPOSE)).isEqualTo("*");
        response.set("Access-Control-Allow-Credentials", "true");
        verdicts.write(RateLimitHeaders.all(), response);
        assertThat(response.line(EXPOSE)).isEqualTo("*, " + ALL_NAMES);
    }

    // Refunds.

    @Test
    void eachVerdictThatDependsOnTheStatusRefunds() {
        Rule.Builder failures = rule("failures", 1).refundWhen("2xx");
        Rule.Builder other = rule("other", 1).refundWhen("200");
        Rule.Builder always = rule("always", 1);
        for (Rule.Builder rule : List.of(failures, always, other)) {
            verdicts.note(decide(rule));
        }
        verdicts.refund(204).block(LONG);
        assertThat(decide(failures).isAllowed()).isTrue();
        assertThat(decide(other).isAllowed()).isFalse();
        assertThat(decide(always).isAllowed()).isFalse();
    }

    @Test
    void nothingIsRefundedIfNoVerdictDependsOnTheStatus() {
        assertThat(verdicts.refund(200).blockOptional(LONG)).isEmpty();
        verdicts.note(decide(rule("address", 1)));
        assertThat(verdicts.refund(200).blockOptional(LONG)).isEmpty();
        assertThat(decide(rule("address", 1)).isAllowed()).isFalse();
    }

    @Test
    void aFailedRefundIsLoggedAndDoesNotAffectOthers() {
        try (RateLimiter failing = RateLimiter.builder("failing")
                        .store(new Unprotected(LocalStore.bounded(100)) {
                            @Override
                            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                                return Mono.error(new IllegalStateException("not now\nor ever"));
                            }
                        })
                        .build();
                LogForTests log = LogForTests.listen()) {
            Rule.Builder rule = rule("failures", 1).refundWhen("2xx");
            verdicts.note(decide(failing, rule));
            verdicts.note(decide(rule));
            verdicts.refund(200).block(LONG);
            assertThat(decide(rule).isAllowed()).isTrue();
            assertThat(log.lines("Refund for response status 200 failed: "))
                    .singleElement()
                    .satisfies(line -> assertThat(line).contains("not now\\u000aor ever"));
        }
    }

    // Costs.

    @Test
    void aCostForARuleThatDoesNotApplyIsLoggedOnce() {
        try (LogForTests log = LogForTests.listen()) {
            for (int i = 0; i < 3; i++) {
                RequestVerdicts ofRequest = allowed(rule("tokens", 100), rule("address", 100));
                ofRequest.cost("tokns\n", 5);
                ofRequest.cost("address", 5);
                ofRequest.settle().block(LONG);
            }
            assertThat(log.lines("A cost was set"))
                    .singleElement()
                    .asString()
                    .endsWith("A cost was set for rule \"tokns\\u000a\", which does not apply to the request,"
                            + " so it has no effect: did you mean tokens? Expected one of address, tokens");
        }
    }

    @Test
    void costsOfRulesThatApplyAreNotLogged() {
        try (LogForTests log = LogForTests.listen()) {
            RequestVerdicts ofRequest = allowed(rule("tokens", 100));
            ofRequest.cost("tokens", 5);
            ofRequest.cost(3);
            ofRequest.settle().block(LONG);
            assertThat(log.lines("A cost was set")).isEmpty();
        }
    }

    private RequestVerdicts allowed(Rule.Builder... rules) {
        SentRequest request = SentRequest.get("/").remembering();
        List<Rule> built = Stream.of(rules).map(Rule.Builder::build).toList();
        Verdict verdict =
                Rules.of(limiter, SentRequest.syntax(), built).decide(request).block(LONG);
        request.verdicts().note(Objects.requireNonNull(verdict));
        return request.verdicts();
    }

    private static Rule.Builder rule(String name, long permits) {
        return Rule.named(name).key(KeySource.constant("k")).limit(Limit.perMinute(permits));
    }

    private Verdict decide(Rule.Builder rule) {
        return decide(limiter, rule);
    }

    private static Verdict decide(RateLimiter limiter, Rule.Builder rule) {
        return Objects.requireNonNull(Rules.of(limiter, SentRequest.syntax(), List.of(rule.build()))
                .decide(SentRequest.get("/"))
                .block(LONG));
    }

    /** The fields of a response that is about to be sent. */
    private static final class Fields implements ResponseFields {

        private final Map<String, List<String>> lines = new LinkedHashMap<>();

        @Override
        public List<String> get(String name) {
            return lines.getOrDefault(name.toLowerCase(Locale.ROOT), List.of());
        }

        @Override
        public void set(String name, String value) {
            lines(name, value);
        }

        void lines(String name, String... values) {
            lines.put(name.toLowerCase(Locale.ROOT), List.of(values));
        }

        String line(String name) {
            assertThat(get(name)).hasSize(1);
            return get(name).get(0);
        }

        Stream<String> names() {
            return lines.keySet().stream();
        }
    }
}
