package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.examples.webflux.Burst.Ask;
import io.github.spillgate.examples.webflux.Outcome.Answer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpHeaders;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The load on running services: one, two that share a Redis, and both during an outage of Redis. */
class LoadTest {

    private static final int LIMIT = 30;
    private static final int BEFORE = 12;
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Burst ONE_KEY = Burst.all().get(0).get(0);

    private static final HttpHeaders HEADERS = HttpHeaders.of(
            Stream.of(
                            "RateLimit-Policy",
                            "RateLimit",
                            "X-RateLimit-Limit",
                            "X-RateLimit-Remaining",
                            "X-RateLimit-Reset",
                            "Retry-After")
                    .collect(Collectors.toMap(name -> name, name -> List.of("1"))),
            (name, value) -> true);

    private static final Answer ALLOWED = new Answer(200, HEADERS, "", SECOND);
    private static final Answer DENIED = new Answer(429, HEADERS, "{\"violated-policies\":[\"validate-1m\"]}", SECOND);

    private static ExampleRedis redis;
    private static Instance one;
    private static List<Instance> two;

    @BeforeAll
    static void startAll() throws IOException {
        redis = ExampleRedis.embedded();
        one = Instance.on(redis, "one");
        two = Stream.generate(() -> Instance.on(
                        redis, "two", "--spillgate.local.share=0.5", "--customers.keys.while-it-is-stopped=paid"))
                .limit(2)
                .toList();
    }

    @AfterAll
    static void stopAll() {
        one.close();
        two.forEach(Instance::close);
        redis.close();
    }

    @BeforeEach
    void awaitRedis() {
        one.awaitDecisionsOf("REDIS");
        two.forEach(instance -> instance.awaitDecisionsOf("REDIS"));
    }

    @AfterEach
    void startRedisAgain() throws IOException {
        redis.start();
    }

    @Test
    void twoInstancesAllowExactlyTheLimits() {
        Load load = load(two);
        load.checkFresh();
        load.warmUp();
        double fellBack = load.fellBack();
        for (List<Burst> step : Burst.all()) {
            assertThat(load.send(step)).allSatisfy(outcome -> {
                int sent = outcome.burst().asks().size();
                assertThat(outcome.wrong()).isEmpty();
                assertThat(outcome.allowed() + outcome.denied()).isEqualTo(sent);
                assertThat(outcome.row()).startsWith("| " + outcome.burst().name() + " | " + sent + " | ");
            });
        }
        assertThat(load.fellBack()).isEqualTo(fellBack);
        assertThatIllegalStateException()
                .isThrownBy(load::checkFresh)
                .withMessageMatching("30 of \\S+ are used by paid-key: expected an unused service,"
                        + " for example one that has just been started");
    }

    @Test
    void oneInstanceKeepsTheLimitWhenRedisStopsUnderLoad() {
        Load load = load(List.of(one));
        long since = System.nanoTime();
        long allowed = allowed(load, "paid-key", BEFORE);
        CompletableFuture<Void> stopping = CompletableFuture.runAsync(LoadTest::stopRedis);
        do {
            allowed += allowed(load, "paid-key", 2);
        } while (!stopping.isDone());
        stopping.join();
        allowed += allowed(load, "paid-key", LIMIT);
        assertThat(allowed).isBetween((long) LIMIT, LIMIT * windows(since));
        one.awaitDecisionsOf("LOCAL");
    }

    @Test
    void twoInstancesWithHalfSharesKeepTheLimitDuringAnOutage() throws IOException {
        Load load = load(two);
        long since = System.nanoTime();
        long allowed = 0;
        // Send them one at a time, so that each instance learns the current usage.
        for (int i = 0; i < BEFORE; i++) {
            allowed += allowed(load, "while-it-is-stopped", 1);
        }
        assertThat(allowed).isEqualTo(BEFORE);
        redis.stop();
        allowed += allowed(load, "while-it-is-stopped", 4 * LIMIT);
        assertThat(allowed).isBetween((long) LIMIT, LIMIT * windows(since));
        two.forEach(instance -> instance.awaitDecisionsOf("LOCAL"));
    }

    @Test
    void oneMoreOrLessThanTheLimitIsWrong() {
        assertThat(outcome(SECOND, answers(30, ALLOWED), answers(70, DENIED)).wrong())
                .isEmpty();
        assertThat(outcome(SECOND, answers(31, ALLOWED), answers(69, DENIED)).wrong())
                .hasValue("one key: validate-1m allows 30 within PT1M, and 31 were allowed within PT1S");
        assertThat(outcome(SECOND, answers(29, ALLOWED), answers(71, DENIED)).wrong())
                .isPresent();
        // In more than a minute, the load cannot know the window of each request.
        Duration longer = Duration.ofSeconds(61);
        assertThat(outcome(longer, answers(60, ALLOWED), answers(40, DENIED)).wrong())
                .isEmpty();
        assertThat(outcome(longer, answers(61, ALLOWED), answers(39, DENIED)).wrong())
                .isPresent();
    }

    @Test
    void anUnexpectedResponseIsWrong() {
        Answer failed = new Answer(500, HEADERS, "", SECOND);
        assertThat(outcome(SECOND, answers(30, ALLOWED), answers(1, failed)).wrong())
                .hasValue("one key: status 500, expected 200 or 429");
        Answer bare = new Answer(200, HttpHeaders.of(Map.of(), (name, value) -> true), "", SECOND);
        assertThat(outcome(SECOND, answers(29, ALLOWED), answers(1, bare))
                        .wrong()
                        .orElseThrow())
                .contains("200 without RateLimit-Policy", "200 without X-RateLimit-Reset");
        Answer byAnother = new Answer(429, HEADERS, DENIED.body().replace("validate", "address"), SECOND);
        assertThat(outcome(SECOND, answers(30, ALLOWED), answers(1, byAnother)).wrong())
                .hasValue("one key: denied not by validate-1m alone");
    }

    @ParameterizedTest
    @ValueSource(strings = {"localhost:8080", "http://192.0.2.1:8080", "nonsense", "http://exa mple/"})
    void theLoadTargetsThisMachineOnly(String elsewhere) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Load.instance(elsewhere))
                .withMessage("\"" + elsewhere + "\" is no instance of the service on this machine: expected one, for"
                        + " example http://localhost:8080");
        assertThat(Load.instance("http://127.0.0.1:8081")).isEqualTo(URI.create("http://127.0.0.1:8081"));
    }

    @Test
    void aServiceThatDoesNotRunIsReported() throws IOException {
        URI unused;
        try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            unused = URI.create("http://127.0.0.1:" + closed.getLocalPort());
        }
        assertThatIllegalStateException()
                .isThrownBy(() -> new Load(List.of(unused)).checkFresh())
                .withMessageStartingWith(
                        "no service listens at one of [" + unused + "]: expected the service to run there");
    }

    private static Load load(List<Instance> instances) {
        return new Load(instances.stream().map(Instance::uri).toList());
    }

    private static long allowed(Load load, String apiKey, int validations) {
        Ask ask = new Ask("POST", "/v1/validate?number=FI12345678", apiKey, "192.0.2.100");
        Burst burst = new Burst(
                "some", ONE_KEY.limit(), ONE_KEY.window(), 0, ONE_KEY.passes(), Collections.nCopies(validations, ask));
        Outcome outcome = load.send(List.of(burst)).get(0);
        assertThat(outcome.allowed() + outcome.denied()).isEqualTo(validations);
        return outcome.allowed();
    }

    /** On a slow machine, a minute may pass and permits become available again. */
    private static long windows(long since) {
        return 1 + Duration.ofNanos(System.nanoTime() - since).dividedBy(ONE_KEY.window());
    }

    private static void stopRedis() {
        try {
            redis.stop();
        } catch (IOException e) {
            throw new CompletionException(e);
        }
    }

    private static List<Answer> answers(int count, Answer answer) {
        return Collections.nCopies(count, answer);
    }

    private static Outcome outcome(Duration took, List<Answer> some, List<Answer> others) {
        return new Outcome(
                ONE_KEY, Stream.concat(some.stream(), others.stream()).toList(), took);
    }
}
