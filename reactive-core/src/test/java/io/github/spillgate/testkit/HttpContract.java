package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static io.github.spillgate.testkit.Told.field;
import static io.github.spillgate.testkit.Told.items;
import static io.github.spillgate.testkit.Told.names;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.http.ClientAddress;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Match;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests.Answer;
import java.net.http.HttpClient.Version;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.blockhound.BlockingOperationError;
import reactor.core.publisher.Mono;

/**
 * What a client sees of the limiter, whatever framework the service is made of. An adapter extends this class, and starts a small
 * service on a real server; the client is the JDK's, and Redis is a real one.
 *
 * <p>The service has two phases of rules with an authentication between them, which believes whatever name a field {@code X-User}
 * has, and lets those pass who have none. It answers:
 *
 * <table>
 * <caption>What the service answers</caption>
 * <tr><td>{@code GET} and {@code HEAD /hello}</td><td>{@code hello}</td></tr>
 * <tr><td>{@code POST /hello}</td><td>{@code hello}, whatever the body</td></tr>
 * <tr><td>{@code POST /echo}</td><td>{@link #echo(byte[])}</td></tr>
 * <tr><td>{@code GET /status/<code>}</td><td>nothing, with that status</td></tr>
 * <tr><td>{@code GET /items/<id>}</td><td>{@code item <id>}</td></tr>
 * <tr><td>{@code GET /own}</td><td>a field {@code X-RateLimit-Limit} that says {@value #OWN}</td></tr>
 * <tr><td>{@code GET /open}</td><td>to scripts of all origins, who may read a field {@code X-Own}</td></tr>
 * <tr><td>{@code GET /decisions}</td><td>{@link #text(List)} of the decisions that the handler sees</td></tr>
 * </table>
 */
public abstract class HttpContract {

    /** What the handler of {@code /own} says by itself. */
    public static final String OWN = "of the handler";

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    /** No test but one is about a Redis that does not answer; a slow machine must not look like it. */
    private static final Duration LONG_DEADLINE = Duration.ofSeconds(20);

    private static final String ORIGIN = "https://shop.example";

    /** A service that has been started. */
    public interface Server extends AutoCloseable {

        /** Where it listens, on 127.0.0.1. */
        int port();

        @Override
        void close();
    }

    /**
     * How a service is to be set up.
     *
     * @param rules limit all requests to it
     * @param headers what responses tell
     * @param handled called by each handler, each time
     */
    public record Setup(Rules rules, RateLimitHeaders headers, Runnable handled) {}

    private final LimiterForTests limiter = LimiterForTests.on(RedisForTests.first(), LONG_DEADLINE);
    private final AtomicInteger handled = new AtomicInteger();
    private final Heard heard = new Heard();
    private @Nullable Server server;
    private ClientForTests client;

    /** How the adapter's users write paths. */
    protected abstract PathSyntax syntax();

    /** A pattern such as {@code /items/{id}} or {@code /items/**}, as the adapter's users write it. */
    protected abstract String pattern(String pattern);

    /** Starts the service, with HTTP/1.1 and, without encryption, HTTP/2. */
    protected abstract Server start(Setup setup);

    /** What {@code /echo} answers: how long the body was, and its digest. */
    public static String echo(byte[] body) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(body);
            return body.length + " " + Base64.getEncoder().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** What {@code /decisions} answers: of each decision what it was, who made it, and what is left. */
    public static String text(List<Decision> decisions) {
        return String.join(
                "; ",
                decisions.stream()
                        .map(decision -> (decision.isAllowed() ? "allowed" : "denied") + " by " + decision.source()
                                + ", " + decision.remaining() + " left")
                        .toList());
    }

    @AfterEach
    void close() {
        if (server != null) {
            server.close();
        }
        limiter.close();
    }

    // What a client is told.

    @Test
    void whoIsAllowedIsToldWhatIsLeft() {
        serve(address("address", 3));
        HttpResponse<String> response = client.get("/hello");
        assertThat(response.statusCode()).isEqualTo(200);
        assertThat(response.body()).isEqualTo("hello");
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("address-1m", Map.of("q", 3L, "w", 60L)));
        assertThat(items(response, "RateLimit")).singleElement().satisfies(item -> {
            assertThat(item.getKey()).isEqualTo("address-1m");
            assertThat(item.getValue()).containsOnlyKeys("r", "t").containsEntry("r", 2L);
            assertThat(item.getValue().get("t")).isBetween(1L, 60L);
        });
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("3");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("2");
        long now = System.currentTimeMillis() / 1000;
        assertThat(Long.parseLong(field(response, "X-RateLimit-Reset"))).isBetween(now, now + 61);
        assertThat(response.headers().firstValue("Retry-After")).isEmpty();
        assertThat(response.headers().firstValue("Cache-Control")).isEmpty();
    }

    @Test
    void whoIsDeniedIsToldWhyAndForHowLong() {
        serve(address("address", 1));
        client.get("/hello");
        HttpResponse<String> response = client.get("/hello");
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(field(response, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(response, "Cache-Control")).isEqualTo("no-store");
        long retryAfter = Long.parseLong(field(response, "Retry-After"));
        assertThat(retryAfter).isBetween(1L, 61L);
        assertThat(response.body())
                .isEqualTo("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                        + "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"status\":429,"
                        + "\"violated-policies\":[\"address-1m\"],\"retry-after\":" + retryAfter + "}");
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("address-1m", Map.of("q", 1L, "w", 60L)));
        assertThat(items(response, "RateLimit"))
                .containsExactly(Map.entry("address-1m", Map.of("r", 0L, "t", Math.min(60L, retryAfter))));
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("1");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("0");
        assertThat(Long.parseLong(field(response, "X-RateLimit-Reset")))
                .isGreaterThanOrEqualTo(System.currentTimeMillis() / 1000);
    }

    @Test
    void whoIsDeniedReachesNoHandler() {
        serve(address("address", 2));
        IntStream.range(0, 5).forEach(i -> client.get("/hello"));
        assertThat(handled).hasValue(2);
    }

    @Test
    void whoKeepsToRetryAfterSucceeds() {
        serve(Rule.named("address").key(LimiterForTests.ADDRESS).limit(Limit.perSecond(1)));
        HttpResponse<String> denied = client.get("/hello");
        for (int i = 0; i < 100 && denied.statusCode() != 429; i++) {
            denied = client.get("/hello");
        }
        assertThat(denied.statusCode()).isEqualTo(429);
        Duration told = Duration.ofSeconds(Long.parseLong(field(denied, "Retry-After")));
        Mono.delay(told).block();
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
    }

    @Test
    void nothingIsToldOfARequestThatNoRuleIsAbout() {
        serve(address("address", 1).paths(pattern("/items/**")));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(Told.all(response)).isEmpty();
        }
        assertThat(heard.all()).isEmpty();
    }

    @Test
    void fieldsCanBeSwitchedOff() {
        serve(RateLimitHeaders.all().xRateLimit(false).rateLimit(false), address("address", 1));
        assertThat(Told.all(client.get("/hello"))).isEmpty();
        assertThat(Told.all(client.get("/hello"))).containsExactly("Retry-After");
    }

    @Test
    void whatAHandlerSaysOfItsOwnLimitsStays() {
        serve(address("address", 5));
        HttpResponse<String> response = client.get("/own");
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo(OWN);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    @ParameterizedTest
    @ValueSource(ints = {204, 302, 401, 404, 500})
    void everyStatusTellsWhatIsLeft(int status) {
        serve(address("address", 5));
        HttpResponse<String> response = client.get("/status/" + status);
        assertThat(response.statusCode()).isEqualTo(status);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    @Test
    void alsoARequestThatNoHandlerIsForIsLimited() {
        serve(address("address", 1));
        HttpResponse<String> response = client.get("/nothing/there");
        assertThat(response.statusCode()).isEqualTo(404);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("0");
        assertThat(client.get("/nothing/there").statusCode()).isEqualTo(429);
    }

    @Test
    void headIsDeniedWithoutABody() {
        serve(address("address", 1));
        client.get("/hello");
        HttpResponse<String> response = client.send(client.request("/hello").method("HEAD", BodyPublishers.noBody()));
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(response.body()).isEmpty();
        assertThat(Told.all(response)).hasSize(6);
    }

    // Which rules.

    @Test
    void rulesThatMatchAreOneVerdict() {
        serve(
                address("wide", 100),
                address("narrow", 1).paths(pattern("/items/**")),
                address("other", 100).paths(pattern("/other")));
        HttpResponse<String> allowed = client.get("/items/1");
        assertThat(names(allowed)).containsExactly("wide-1m", "narrow-1m");
        assertThat(field(allowed, "X-RateLimit-Limit")).isEqualTo("1");
        HttpResponse<String> denied = client.get("/items/2");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("[\"narrow-1m\"]");
        assertThat(items(denied, "RateLimit").get(0).getValue()).containsEntry("r", 99L);
        assertThat(items(client.get("/hello"), "RateLimit").get(0).getValue()).containsEntry("r", 98L);
        assertThat(heard.all())
                .containsExactly(
                        "wide ALLOWED", "narrow ALLOWED", "wide DENIED_BY_OTHERS", "narrow DENIED", "wide ALLOWED");
    }

    @Test
    void bothPhasesAreToldInOneResponse() {
        serve(address("before", 5), address("after", 3).phase(Phase.AFTER_AUTHENTICATION));
        HttpResponse<String> response = client.get("/hello");
        assertThat(names(response)).containsExactly("before-1m", "after-1m");
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("3");
        client.get("/hello");
        client.get("/hello");
        HttpResponse<String> after = client.get("/hello");
        assertThat(after.statusCode()).isEqualTo(429);
        assertThat(after.body()).contains("[\"after-1m\"]");
        assertThat(items(after, "RateLimit").get(0).getValue()).containsEntry("r", 1L);
        client.get("/hello");
        HttpResponse<String> before = client.get("/hello");
        assertThat(before.body()).contains("[\"before-1m\"]");
        assertThat(names(before)).containsExactly("before-1m");
        assertThat(handled).hasValue(3);
    }

    @Test
    void aRuleForUsersLeavesThoseAloneWhoAreNotKnownYet() {
        serve(Rule.named("user").key(KeySource.principal()).limit(Limit.perMinute(1)), address("address", 100));
        assertThat(names(client.get("/hello"))).containsExactly("address-1m");
        assertThat(names(client.get("/hello", "X-User", "ann"))).containsExactly("address-1m", "user-1m");
    }

    @Test
    void headCountsAsGet() {
        serve(address("address", 1).methods("get"));
        HttpResponse<String> head = client.send(client.request("/hello").method("HEAD", BodyPublishers.noBody()));
        assertThat(head.statusCode()).isEqualTo(200);
        assertThat(field(head, "X-RateLimit-Remaining")).isEqualTo("0");
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
    }

    @Test
    void otherMethodsAreNotMeant() {
        serve(address("address", 1).paths("/hello").methods("POST"));
        assertThat(Told.all(client.get("/hello"))).isEmpty();
        assertThat(client.post("/hello", "").statusCode()).isEqualTo(200);
        assertThat(client.post("/hello", "").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
    }

    @Test
    void whoIsExceptedIsNotLimited() {
        serve(address("address", 1)
                .unless(match -> match.request().headers("X-Internal").contains("yes")));
        for (int i = 0; i < 3; i++) {
            assertThat(Told.all(client.get("/hello", "X-Internal", "yes"))).isEmpty();
        }
        assertThat(client.get("/hello", "X-Internal", "no").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello", "X-Internal", "yes").statusCode()).isEqualTo(200);
    }

    @Test
    void aShadowLetsPassAndReports() {
        serve(address("tried", 1).shadow(true), address("real", 10));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(names(response)).containsExactly("real-1m");
        }
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(heard.of("tried"))
                        .containsExactlyInAnyOrder("tried ALLOWED", "tried DENIED", "tried DENIED"));
    }

    @Test
    void aShadowAloneTellsNothing() {
        serve(address("tried", 1).shadow(true));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(Told.all(response)).isEmpty();
        }
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(heard.of("tried")).hasSize(3));
    }

    // Who is charged.

    static Stream<Arguments> keys() {
        byte[] secret = "sixteen bytes at least".getBytes(StandardCharsets.US_ASCII);
        KeySource plan = match -> Mono.delay(Duration.ofMillis(1))
                .map(late -> String.valueOf(match.request().headers("X-Tenant")));
        Sent plain = Sent.to("/hello");
        return Stream.of(
                arguments(
                        "header",
                        KeySource.header("x-api-key"),
                        plain.with("X-Api-Key", "a"),
                        plain.with("X-Api-Key", "b")),
                arguments("query", KeySource.query("key"), Sent.to("/hello?key=a&x=1"), Sent.to("/hello?key=b&x=1")),
                arguments(
                        "decoded",
                        KeySource.query("k y"),
                        Sent.to("/hello?k%20y=%C3%A4"),
                        Sent.to("/hello?k+y=%C3%B6")),
                arguments(
                        "cookie",
                        KeySource.cookie("session"),
                        plain.with("Cookie", "x=1; session=a"),
                        plain.with("Cookie", "session=b; y=1")),
                arguments("principal", KeySource.principal(), plain.with("X-User", "ann"), plain.with("X-User", "bob")),
                arguments(
                        "joined",
                        KeySource.joined(KeySource.header("X-Api-Key"), KeySource.principal()),
                        plain.with("X-Api-Key", "a").with("X-User", "ann"),
                        plain.with("X-Api-Key", "a").with("X-User", "bob")),
                arguments(
                        "first that is there",
                        KeySource.firstOf(KeySource.principal(), KeySource.header("X-Api-Key")),
                        plain.with("X-Api-Key", "a"),
                        plain.with("X-Api-Key", "a").with("X-User", "a")),
                arguments("own function", plan, plain.with("X-Tenant", "a"), plain.with("X-Tenant", "b")),
                arguments(
                        "hashed",
                        KeySource.header("X-Api-Key").hashed(secret),
                        plain.with("X-Api-Key", "a"),
                        plain.with("X-Api-Key", "b")));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("keys")
    void eachKeyHasALimitOfItsOwn(String name, KeySource key, Sent one, Sent other) {
        serve(Rule.named("who").key(key).limit(Limit.perMinute(1)).timeout(PATIENCE));
        assertThat(status(one)).isEqualTo(200);
        assertThat(status(one)).isEqualTo(429);
        assertThat(status(other)).isEqualTo(200);
        assertThat(status(other)).isEqualTo(429);
        assertThat(status(one)).isEqualTo(429);
    }

    @Test
    void aVariableOfThePathIsAKey() {
        serve(Rule.named("item")
                .paths(pattern("/items/{id}"))
                .key(KeySource.pathVariable("id"))
                .limit(Limit.perMinute(1)));
        assertThat(client.get("/items/1").statusCode()).isEqualTo(200);
        assertThat(client.get("/items/2").statusCode()).isEqualTo(200);
        assertThat(client.get("/items/1?x=y").statusCode()).isEqualTo(429);
        assertThat(client.get("/items/%32").statusCode()).isEqualTo(429);
        assertThat(client.get("/items/%C3%A4").statusCode()).isEqualTo(200);
        assertThat(client.get("/items/%c3%a4").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        assertThat(handled).hasValue(4);
    }

    @Test
    void oneKeyForAllIsShared() {
        serve(Rule.named("all").key(KeySource.constant("everybody")).limit(Limit.perMinute(2)));
        assertThat(client.get("/hello", "X-User", "ann").statusCode()).isEqualTo(200);
        assertThat(client.get("/items/1", "X-User", "bob").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-User", "eve").statusCode()).isEqualTo(429);
    }

    @Test
    void allWhoHaveNoKeyShareOneUnlessTheRuleSaysOtherwise() {
        serve(Rule.named("key").key(KeySource.header("X-Api-Key")).limit(Limit.perMinute(1)));
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
        // Two that differ are none.
        assertThat(client.get("/hello", "X-Api-Key", "a", "X-Api-Key", "b").statusCode())
                .isEqualTo(429);
        assertThat(client.get("/hello", "X-Api-Key", "").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello", "X-Api-Key", "a").statusCode()).isEqualTo(200);
    }

    @Test
    void whoHasNoKeyMayBeLeftAlone() {
        serve(Rule.named("key")
                .key(KeySource.cookie("session"))
                .limit(Limit.perMinute(1))
                .whenMissing(WhenMissing.SKIP));
        for (int i = 0; i < 3; i++) {
            assertThat(Told.all(client.get("/hello"))).isEmpty();
        }
        assertThat(client.get("/hello", "Cookie", "session=a").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "Cookie", "session=a").statusCode()).isEqualTo(429);
    }

    @Test
    void whoHasNoKeyMayBeTurnedAway() {
        serve(Rule.named("key")
                .key(KeySource.query("key"))
                .limit(Limit.perMinute(1))
                .whenMissing(WhenMissing.DENY));
        HttpResponse<String> refused = client.get("/hello");
        assertThat(refused.statusCode()).isEqualTo(429);
        assertThat(field(refused, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(refused, "Cache-Control")).isEqualTo("no-store");
        assertThat(refused.body())
                .contains("\"violated-policies\":[\"key-1m\"]")
                .doesNotContain("retry-after");
        assertThat(refused.headers().firstValue("Retry-After")).isEmpty();
        assertThat(handled).hasValue(0);
        assertThat(heard.all()).containsExactly("key refused");
        assertThat(client.get("/hello?key=a").statusCode()).isEqualTo(200);
    }

    static Stream<Arguments> lookupsThatFindNothing() {
        KeySource failing = match -> Mono.error(new IllegalStateException("no directory"));
        KeySource failingLater = match -> Mono.delay(Duration.ofMillis(1)).then(failing.find(match));
        KeySource throwing = match -> {
            throw new IllegalStateException("no directory");
        };
        KeySource hanging = match -> Mono.never();
        return Stream.of(
                arguments("fails", failing),
                arguments("fails later", failingLater),
                arguments("throws", throwing),
                arguments("hangs", hanging));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("lookupsThatFindNothing")
    void whereNoKeyCanBeFoundTheRuleSaysWhatHolds(String how, KeySource key) {
        serve(
                Rule.named("open").paths("/hello").key(key).limit(Limit.perMinute(1)),
                Rule.named("strict")
                        .paths(pattern("/items/**"))
                        .key(key)
                        .limit(Limit.perMinute(1))
                        .whenUndecided(WhenUndecided.DENY));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(Told.all(response)).isEmpty();
        }
        HttpResponse<String> denied = client.get("/items/1");
        assertThat(denied.statusCode()).isEqualTo(503);
        assertThat(field(denied, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(denied, "Cache-Control")).isEqualTo("no-store");
        assertThat(handled).hasValue(3);
        assertThat(heard.of("open")).containsOnly("open undecided").hasSize(3);
        assertThat(heard.of("strict")).containsExactly("strict undecided");
    }

    @Test
    void aFunctionThatBlocksIsFoundOut() {
        CountDownLatch never = new CountDownLatch(1);
        serve(Rule.named("blocking").limit(Limit.perMinute(1)).key(match -> {
            try {
                return Mono.just("waited: " + never.await(1, TimeUnit.MILLISECONDS));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }));
        client.get("/hello");
        assertThat(heard.why()).singleElement().isInstanceOf(BlockingOperationError.class);
    }

    // How much.

    @Test
    void costsMayBeLookedUp() {
        serve(address("units", 10)
                .cost(match -> Mono.justOrEmpty(
                        match.request().headers("X-Units").stream().findFirst().map(Long::valueOf))));
        assertThat(field(client.get("/hello", "X-Units", "4"), "X-RateLimit-Remaining"))
                .isEqualTo("6");
        assertThat(field(client.get("/hello"), "X-RateLimit-Remaining")).isEqualTo("5");
        assertThat(client.get("/hello", "X-Units", "6").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello", "X-Units", "5").statusCode()).isEqualTo(200);
        // What can never fit is told so, and not to wait.
        HttpResponse<String> never = client.get("/hello", "X-Units", "11");
        assertThat(never.statusCode()).isEqualTo(429);
        assertThat(never.headers().firstValue("Retry-After")).isEmpty();
    }

    @Test
    void everyPlanHasLimitsOfItsOwn() {
        serve(Rule.named("plan")
                .key(KeySource.principal())
                .limit(Limit.perMinute(1))
                .limits((match, user) -> switch (user) {
                    case "gold" -> Mono.delay(Duration.ofMillis(1)).thenReturn(List.of(Limit.perMinute(3)));
                    case "silver" -> Mono.just(List.of(Limit.perMinute(2)));
                    default -> Mono.empty();
                })
                .timeout(PATIENCE));
        Map.of("gold", 3, "silver", 2, "nobody", 1).forEach((user, permits) -> {
            for (int left = permits - 1; left >= 0; left--) {
                HttpResponse<String> response = client.get("/hello", "X-User", user);
                assertThat(response.statusCode()).as(user).isEqualTo(200);
                assertThat(field(response, "X-RateLimit-Limit")).isEqualTo(permits.toString());
                assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo(Integer.toString(left));
            }
            assertThat(client.get("/hello", "X-User", user).statusCode())
                    .as(user)
                    .isEqualTo(429);
        });
    }

    /** As in the first seconds of a cold service: some plans are found in time, and others are not. */
    @Test
    void aPlanThatIsNotFoundInTimeLetsNoRequestPassUnlimited() {
        Duration lookup = Duration.ofMillis(3);
        AtomicInteger asked = new AtomicInteger();
        serve(
                Rule.named("plan")
                        .key(KeySource.header("X-Api-Key"))
                        .limit(Limit.perHour(5))
                        .limits((match, key) -> {
                            Mono<List<Limit>> plan = Mono.delay(lookup).thenReturn(List.of(Limit.perHour(8)));
                            return switch (asked.getAndIncrement() % 4) {
                                case 0 -> Mono.never();
                                case 1 -> plan.then(Mono.error(new IllegalStateException("no plan")));
                                default -> plan;
                            };
                        })
                        .timeout(lookup),
                address("address", 1_000));
        List<CompletableFuture<HttpResponse<String>>> answers = IntStream.range(0, 60)
                .mapToObj(i -> client.sendLater(
                        client.request("/hello").header("X-Api-Key", "ann").GET()))
                .toList();
        // Of one name and window the two share a count, so the higher of them is the most.
        assertThat(answers.stream().filter(answer -> answer.join().statusCode() == 200))
                .hasSizeBetween(5, 8);
        assertThat(answers)
                .allSatisfy(answer -> assertThat(answer.join().statusCode()).isIn(200, 429));
        assertThat(handled.get()).isBetween(5, 8);
        assertThat(heard.of("plan")).doesNotContain("plan undecided");
        assertThat(heard.of("address")).hasSize(60).doesNotContain("address undecided");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aClientThatMakesACostFailIsLimitedAllTheSame(boolean isAtOnce) {
        serve(address("units", 10)
                .cost(5)
                .cost(match -> isAtOnce
                        ? Mono.just(Long.parseLong(
                                match.request().headers("X-Units").get(0)))
                        : Mono.delay(Duration.ofMillis(1))
                                .map(late -> Long.parseLong(
                                        match.request().headers("X-Units").get(0))))
                .timeout(PATIENCE));
        assertThat(client.get("/hello", "X-Units", "none").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-Units", "-1").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
        assertThat(handled).hasValue(2);
    }

    @Test
    void failuresOnlyMayBeCounted() {
        Rules rules = serve(address("login", 2).paths(pattern("/status/**")).refundWhen("2xx"), address("all", 100));
        for (int i = 0; i < 5; i++) {
            assertThat(client.get("/status/200").statusCode()).isEqualTo(200);
            awaitRemaining(rules, "login", 2);
        }
        assertThat(client.get("/status/401").statusCode()).isEqualTo(401);
        assertThat(client.get("/status/401").statusCode()).isEqualTo(401);
        assertThat(client.get("/status/200").statusCode()).isEqualTo(429);
        awaitRemaining(rules, "login", 0);
        awaitRemaining(rules, "all", 93);
    }

    private void awaitRemaining(Rules rules, String rule, long remaining) {
        await().atMost(PATIENCE)
                .untilAsserted(
                        () -> assertThat(rules.peek(rule, "127.0.0.1").block().remaining())
                                .isEqualTo(remaining));
    }

    // Other origins.

    @Test
    void aScriptOfAnotherOriginCanReadTheFields() {
        serve(address("address", 1));
        HttpResponse<String> allowed = client.get("/open", "Origin", ORIGIN);
        assertThat(allowed.statusCode()).isEqualTo(200);
        HttpResponse<String> denied = client.get("/open", "Origin", ORIGIN);
        assertThat(denied.statusCode()).isEqualTo(429);
        for (HttpResponse<String> response : List.of(allowed, denied)) {
            assertThat(field(response, "Access-Control-Allow-Origin")).isEqualTo("*");
            assertThat(field(response, "Access-Control-Expose-Headers"))
                    .isEqualTo("X-Own, RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining,"
                            + " X-RateLimit-Reset, Retry-After");
        }
        HttpResponse<String> closed = client.get("/hello", "Origin", ORIGIN);
        assertThat(closed.statusCode()).isEqualTo(429);
        assertThat(closed.headers().firstValue("Access-Control-Allow-Origin")).isEmpty();
        assertThat(closed.headers().firstValue("Access-Control-Expose-Headers")).isEmpty();
    }

    @Test
    void aPreflightIsLetThrough() {
        serve(address("address", 1));
        client.get("/hello");
        String[] asking = {"Origin", ORIGIN, "Access-Control-Request-Method", "GET"};
        HttpResponse<String> open = options("/open", asking);
        assertThat(open.statusCode()).isBetween(200, 299);
        assertThat(field(open, "Access-Control-Allow-Origin")).isEqualTo("*");
        assertThat(Told.all(open)).isEmpty();
        // Whatever it is answered where no other origin is allowed.
        assertThat(options("/hello", asking).statusCode()).isNotEqualTo(429);
        // These are none.
        assertThat(options("/hello").statusCode()).isEqualTo(429);
        assertThat(options("/hello", "Origin", ORIGIN).statusCode()).isEqualTo(429);
        String[] withPassword = {
            "Origin", ORIGIN, "Access-Control-Request-Method", "GET", "Authorization", "Basic YW5uOnNlY3JldA=="
        };
        assertThat(options("/hello", withPassword).statusCode()).isEqualTo(429);
    }

    private HttpResponse<String> options(String path, String... headers) {
        return client.send(client.request(path, headers).method("OPTIONS", BodyPublishers.noBody()));
    }

    // Whom it believes.

    @Test
    void noHeaderOfAnybodyMakesAnotherClientOfHim() {
        serve(Rule.named("address")
                .key(KeySource.clientAddress(ClientAddress.ofXForwardedFor("10.0.0.0/8")))
                .limit(Limit.perMinute(1)));
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-Forwarded-For", "203.0.113.7").statusCode())
                .isEqualTo(429);
        assertThat(client.get("/hello", "Forwarded", "for=203.0.113.7").statusCode())
                .isEqualTo(429);
        assertThat(client.get("/hello", "X-Real-IP", "203.0.113.7").statusCode())
                .isEqualTo(429);
    }

    @Test
    void aTrustedProxySaysInXForwardedForWhoAsks() {
        serve(Rule.named("address")
                .key(KeySource.clientAddress(ClientAddress.ofXForwardedFor("127.0.0.1", "10.0.0.0/8")))
                .limit(Limit.perMinute(1)));
        assertThat(forwarded("203.0.113.7")).isEqualTo(200);
        assertThat(forwarded("203.0.113.7")).isEqualTo(429);
        assertThat(forwarded("203.0.113.8")).isEqualTo(200);
        // What the client has written itself, before his proxy, or before two.
        assertThat(forwarded("198.51.100.1, 203.0.113.7")).isEqualTo(429);
        assertThat(forwarded("198.51.100.1, 203.0.113.7, 10.1.2.3")).isEqualTo(429);
        assertThat(client.get("/hello", "X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "203.0.113.7")
                        .statusCode())
                .isEqualTo(429);
        assertThat(forwarded("::ffff:203.0.113.7")).isEqualTo(429);
        // One network of IPv6 is one client.
        assertThat(forwarded("2001:db8:1:2::1")).isEqualTo(200);
        assertThat(forwarded("2001:db8:1:2:ffff::2")).isEqualTo(429);
        assertThat(forwarded("2001:db8:1:3::1")).isEqualTo(200);
        // Nothing that can be read: the peer.
        assertThat(forwarded("nonsense")).isEqualTo(200);
        assertThat(forwarded("unknown")).isEqualTo(429);
        assertThat(forwarded("10.1.2.3")).isEqualTo(429);
        assertThat(client.get("/hello", "Forwarded", "for=203.0.113.99").statusCode())
                .isEqualTo(429);
    }

    private int forwarded(String value) {
        return client.get("/hello", "X-Forwarded-For", value).statusCode();
    }

    @Test
    void aTrustedProxySaysInForwardedWhoAsks() {
        serve(Rule.named("address")
                .key(KeySource.clientAddress(ClientAddress.ofForwarded("127.0.0.0/8")))
                .limit(Limit.perMinute(1)));
        assertThat(client.get("/hello", "Forwarded", "for=203.0.113.7;proto=https")
                        .statusCode())
                .isEqualTo(200);
        assertThat(client.get("/hello", "Forwarded", "for=198.51.100.1, For=\"203.0.113.7:4711\"")
                        .statusCode())
                .isEqualTo(429);
        assertThat(client.get("/hello", "Forwarded", "for=\"[2001:db8::1]\"").statusCode())
                .isEqualTo(200);
        assertThat(client.get("/hello", "Forwarded", "for=\"[2001:db8::2]:80\"").statusCode())
                .isEqualTo(429);
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-Forwarded-For", "203.0.113.99").statusCode())
                .isEqualTo(429);
    }

    // No way around a limit.

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/hello",
                "/hello?x=y",
                "/hello?",
                "/hello/",
                "/hello//",
                "//hello",
                "///hello",
                "/./hello",
                "/hello/.",
                "/a/../hello",
                "/a/b/../../hello",
                "/../hello",
                "/hello/a/..",
                "/%68ello",
                "/%68%65%6C%6c%6f",
                "/%2568ello",
                "/%2e/hello",
                "/a/%2e%2e/hello",
                "/a/%2E%2E/hello",
                "/hello%2F",
                "/%2Fhello",
                "/%2fhello",
                "/hello%20",
                "/hello%00",
                "/hello%",
                "/hello%zz",
                "/hello;x=y",
                "/;x=y/hello",
                "/hello;",
                "/hello%3Bx",
                "/hello#x",
                "/HELLO",
                "/Hello",
                "/hello.",
                "/hello.json",
                "/hell\u00f6",
                "\\hello",
                "/\\hello",
                "/a\\..\\hello",
                "/%5Chello",
                "hello",
                "http://localhost/hello",
                "http://localhost//hello",
                "http://localhost/a/../hello",
                "HTTP://localhost/hello",
                "http:/hello",
                "http:hello",
                "//localhost/hello",
                "?/hello",
                "/?/../hello",
                "*"
            })
    void noSpellingOfAPathIsAWayAroundItsRule(String path) {
        serve(address("hello", 1).paths("/hello"));
        client.get("/hello");
        assertThat(handled).hasValue(1);
        for (String method : List.of("GET", "HEAD")) {
            String status = client.answerTo(method + " " + path + " HTTP/1.1", "Host: localhost");
            assertThat(status).doesNotContain(" 200 ").doesNotContain(" 5");
        }
        assertThat(handled).hasValue(1);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/items/1",
                "/items/1/",
                "/items//1",
                "//items/1",
                "/items/%31",
                "/%69tems/1",
                "/items/1?2",
                "/items/2/../1",
                "/items/%32/../%31",
                "/items/./1",
                "/items/1;x=y",
                "/items;x=y/1",
                "/items/1%3B",
                "/items/2%2F..%2F1",
                "/items/%2e%2e/items/1"
            })
    void noSpellingOfAVariableIsAnotherKey(String path) {
        serve(Rule.named("item")
                .paths(pattern("/items/{id}"))
                .key(KeySource.pathVariable("id"))
                .limit(Limit.perMinute(1)));
        client.get("/items/1");
        String answered = client.pipelined(List.of(path)).get(0).body();
        assertThat(answered).isNotEqualTo("item 1");
    }

    @Test
    void aQueryThatCannotBeReadIsNoWayAroundALimit() {
        serve(Rule.named("key").key(KeySource.query("api_key")).limit(Limit.perMinute(1)));
        assertThat(client.get("/hello?other=1").statusCode()).isEqualTo(200);
        for (String query : List.of(
                "other=2",
                "api_key",
                "api_key=",
                "api_key=%zz",
                "%zz=1&api_key",
                "api_key=a&api_key=b",
                "&&",
                "=",
                "%")) {
            assertThat(client.statusLine("/hello?" + query)).as(query).contains(" 4");
        }
        assertThat(handled).hasValue(1);
    }

    @Test
    void cookiesThatCannotBeReadAreNoWayAroundALimit() {
        serve(Rule.named("key").key(KeySource.cookie("session")).limit(Limit.perMinute(1)));
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        for (String cookie : List.of("session", "session=", "=", ";", "\"", "session=a; session=b", "session=\u0001")) {
            assertThat(client.answerTo("GET /hello HTTP/1.1", "Host: localhost", "Cookie: " + cookie))
                    .as(cookie)
                    .contains(" 4");
        }
        assertThat(client.get("/hello", "Cookie", "session=a", "Cookie", "session=b")
                        .statusCode())
                .isEqualTo(429);
        assertThat(handled).hasValue(1);
    }

    // Connections.

    @Test
    void exactlyAsManyAreAllowedAsTheLimitSays() {
        serve(address("address", 25));
        assertThat(allowedOf(60, client)).isEqualTo(25);
        assertThat(handled).hasValue(25);
    }

    @Test
    void streamsOfOneConnectionHaveTheirOwnVerdicts() {
        serve(address("address", 25));
        ClientForTests http2 = ClientForTests.ofHttp2(server.port());
        assertThat(http2.get("/hello").version()).isEqualTo(Version.HTTP_2);
        assertThat(allowedOf(60, http2)).isEqualTo(24);
        assertThat(handled).hasValue(25);
    }

    private static long allowedOf(int requests, ClientForTests client) {
        List<HttpResponse<String>> responses =
                IntStream.range(0, requests)
                        .mapToObj(i -> client.sendLater(client.request("/hello").GET()))
                        .toList()
                        .stream()
                        .map(CompletableFuture::join)
                        .toList();
        assertThat(responses).allSatisfy(response -> {
            assertThat(response.statusCode()).isIn(200, 429);
            assertThat(response.body()).startsWith(response.statusCode() == 200 ? "hello" : "{");
            assertThat(response.headers().firstValue("Retry-After").isPresent())
                    .isEqualTo(response.statusCode() == 429);
        });
        assertThat(responses.stream().map(HttpResponse::version).distinct()).hasSize(1);
        return responses.stream()
                .filter(response -> response.statusCode() == 200)
                .count();
    }

    @Test
    void pipelinedRequestsAreAnsweredInOrderEachWithItsOwnVerdict() {
        serve(address("address", 5));
        List<Answer> answers = client.pipelined(
                IntStream.range(0, 12).mapToObj(i -> "/items/" + i).toList());
        for (int i = 0; i < 12; i++) {
            Answer answer = answers.get(i);
            assertThat(answer.status()).as("answer " + i).isEqualTo(i < 5 ? 200 : 429);
            if (i < 5) {
                assertThat(answer.body()).isEqualTo("item " + i);
            }
            assertThat(answer.fields()).containsEntry("X-RateLimit-Remaining", Integer.toString(Math.max(0, 4 - i)));
        }
        assertThat(handled).hasValue(5);
    }

    @ParameterizedTest
    @EnumSource(
            value = Version.class,
            names = {"HTTP_1_1", "HTTP_2"})
    void aBodyThatBeginsWhileTheLimiterWaitsArrivesWhole(Version version) {
        KeySource slow = match -> Mono.delay(Duration.ofMillis(200)).thenReturn("slow");
        serve(
                Rule.named("slow").key(slow).limit(Limit.perMinute(1000)).timeout(PATIENCE),
                address("at-hand", 1000),
                Rule.named("after")
                        .key(slow)
                        .limit(Limit.perMinute(1000))
                        .timeout(PATIENCE)
                        .phase(Phase.AFTER_AUTHENTICATION));
        bodiesArriveWhole(version);
    }

    @ParameterizedTest
    @EnumSource(
            value = Version.class,
            names = {"HTTP_1_1", "HTTP_2"})
    void aBodyArrivesWhole(Version version) {
        serve(address("before", 1000), address("after", 1000).phase(Phase.AFTER_AUTHENTICATION));
        bodiesArriveWhole(version);
    }

    private void bodiesArriveWhole(Version version) {
        ClientForTests sending = version == Version.HTTP_2 ? ClientForTests.ofHttp2(server.port()) : client;
        sending.get("/hello");
        List<byte[]> bodies = IntStream.of(0, 1, 1000, 70_000, 1_000_000, 3_000_001, 4_000_000, 5_000_000)
                .mapToObj(HttpContract::body)
                .toList();
        List<CompletableFuture<HttpResponse<String>>> answers = bodies.stream()
                .map(body -> sending.sendLater(sending.request("/echo").POST(BodyPublishers.ofByteArray(body))))
                .toList();
        for (int i = 0; i < bodies.size(); i++) {
            HttpResponse<String> answer = answers.get(i).join();
            assertThat(answer.statusCode()).isEqualTo(200);
            assertThat(answer.body()).isEqualTo(echo(bodies.get(i)));
            assertThat(answer.version()).isEqualTo(version);
        }
    }

    private static byte[] body(int size) {
        byte[] body = new byte[size];
        new Random(size).nextBytes(body);
        return body;
    }

    @Test
    void anUploadThatIsDeniedLeavesTheConnectionUsable() {
        serve(address("address", 1).methods("POST"));
        client.post("/echo", "a");
        String big = "0123456789abcdef".repeat(65_536);
        for (int i = 0; i < 5; i++) {
            assertThat(client.post("/echo", big).statusCode()).isEqualTo(429);
            assertThat(client.get("/hello").statusCode()).isEqualTo(200);
        }
    }

    // The handler, and Redis.

    @Test
    void aHandlerSeesWhatWasDecided() {
        serve(address("before", 5), address("after", 3).phase(Phase.AFTER_AUTHENTICATION));
        assertThat(client.get("/decisions").body()).isEqualTo("allowed by REDIS, 4 left; allowed by REDIS, 2 left");
    }

    @Test
    void aHandlerSeesNothingWhereNothingWasDecided() {
        serve(address("address", 5).paths("/hello"));
        assertThat(client.get("/decisions").body()).isEmpty();
    }

    /** Redis is killed and comes back while requests do not pause: no client sees an error, or waits for long. */
    @Test
    void noClientNoticesThatRedisIsGone() {
        try (RedisForTests redis = RedisForTests.startOwn();
                LimiterForTests own = LimiterForTests.on(redis, Duration.ofMillis(500));
                Server started = start(new Setup(
                        rules(own, address("address", 1_000_000)), RateLimitHeaders.all(), handled::incrementAndGet))) {
            Traffic traffic = new Traffic(ClientForTests.of(started.port()));
            traffic.begin();
            traffic.awaitMore(Source.REDIS, 300);
            redis.kill();
            traffic.awaitMore(Source.LOCAL, 300);
            redis.restart();
            traffic.awaitMore(Source.REDIS, 300);
            traffic.end();
        }
    }

    // Others.

    private Rules serve(Rule.Builder... rules) {
        return serve(RateLimitHeaders.all(), rules);
    }

    private Rules serve(RateLimitHeaders headers, Rule.Builder... rules) {
        Rules built = rules(limiter, rules);
        server = start(new Setup(built, headers, handled::incrementAndGet));
        client = ClientForTests.of(server.port());
        return built;
    }

    private Rules rules(LimiterForTests some, Rule.Builder... rules) {
        return Rules.of(
                some.limiter(),
                syntax(),
                Stream.of(rules).map(Rule.Builder::build).toList(),
                heard);
    }

    private int status(Sent sent) {
        return client.get(sent.path(), sent.headers().toArray(String[]::new)).statusCode();
    }

    /** A request that has not been sent yet: where to, and the names and values of its fields. */
    private record Sent(String path, List<String> headers) {

        static Sent to(String path) {
            return new Sent(path, List.of());
        }

        Sent with(String name, String value) {
            return new Sent(
                    path,
                    Stream.concat(headers.stream(), Stream.of(name, value)).toList());
        }
    }

    /** What a listener is told, in a word or two each. */
    private static final class Heard implements RuleListener {

        private final Queue<String> all = new ConcurrentLinkedQueue<>();
        private final Queue<Throwable> why = new ConcurrentLinkedQueue<>();

        @Override
        public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
            all.add(match.rule().name() + " " + outcome);
        }

        @Override
        public void refused(Match match) {
            all.add(match.rule().name() + " refused");
        }

        @Override
        public void undecided(Match match, Throwable reason) {
            all.add(match.rule().name() + " undecided");
            why.add(reason);
        }

        List<String> all() {
            return List.copyOf(all);
        }

        List<String> of(String rule) {
            return all.stream().filter(one -> one.startsWith(rule + " ")).toList();
        }

        List<Throwable> why() {
            return List.copyOf(why);
        }
    }

    /** Clients of whom each asks again as soon as it has been answered. */
    private static final class Traffic {

        private static final int CLIENTS = 16;

        /** Many times the limiter's deadline: a machine may have something else to do. */
        private static final Duration LONGEST = Duration.ofSeconds(10);

        private final ClientForTests client;
        private final AtomicBoolean ending = new AtomicBoolean();
        private final AtomicInteger open = new AtomicInteger();
        private final AtomicLong longest = new AtomicLong();
        private final Map<String, AtomicInteger> answers = new ConcurrentHashMap<>();
        private final Queue<Object> wrong = new ConcurrentLinkedQueue<>();

        Traffic(ClientForTests client) {
            this.client = client;
        }

        void begin() {
            for (int i = 0; i < CLIENTS; i++) {
                open.incrementAndGet();
                next();
            }
        }

        private void next() {
            if (ending.get()) {
                open.decrementAndGet();
                return;
            }
            long asked = System.nanoTime();
            Object unused = client.sendLater(client.request("/decisions").GET()).whenComplete((response, error) -> {
                longest.accumulateAndGet(System.nanoTime() - asked, Math::max);
                note(response, error);
                next();
            });
        }

        private void note(HttpResponse<String> response, @Nullable Throwable error) {
            if (error != null) {
                wrong.add(error);
            } else if (response.statusCode() == 200) {
                String source = response.body().split("[ ,]", 4)[2];
                answers.computeIfAbsent(source, key -> new AtomicInteger()).incrementAndGet();
            } else if (response.statusCode() != 429) {
                wrong.add(response);
            }
        }

        /** Waits until so many more have been answered by this source. */
        void awaitMore(Source source, int requests) {
            AtomicInteger seen = answers.computeIfAbsent(source.name(), key -> new AtomicInteger());
            int before = seen.get();
            await().atMost(PATIENCE).pollInterval(Duration.ofMillis(10)).until(() -> seen.get() >= before + requests);
        }

        /** Lets all have their answers, and judges. */
        void end() {
            ending.set(true);
            await().atMost(PATIENCE).until(() -> open.get() == 0);
            assertThat(wrong).isEmpty();
            assertThat(Duration.ofNanos(longest.get())).isLessThan(LONGEST);
        }
    }
}
