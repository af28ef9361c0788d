package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.RateLimitFields.field;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.WhenAmbiguous;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.KeySyntax;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.blockhound.BlockingOperationError;
import reactor.core.publisher.Mono;

/** The key that a request is charged to, and the proxies that may name the client. */
public abstract class HttpKeyContract extends HttpContract {

    protected HttpKeyContract(HttpAdapter adapter) {
        super(adapter);
    }

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
    void eachKeyHasASeparateLimit(String name, KeySource key, Sent one, Sent other) {
        serve(Rule.named("users").key(key).limit(Limit.perMinute(1)).timeout(PATIENCE));
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

    static Stream<Arguments> ambiguous() {
        return Stream.of(
                arguments("header:X-Api-Key", "/hello", List.of("X-Api-Key: a", "X-Api-Key: b")),
                arguments("header:X-Api-Key", "/hello", List.of("X-Api-Key: a", "x-api-key: ")),
                arguments("query:key", "/hello?key=a&key=b", List.of()),
                arguments("query:key", "/hello?key&key=b", List.of()),
                arguments("cookie:session", "/hello", List.of("Cookie: session=a; session=b")),
                arguments("cookie:session", "/hello", List.of("Cookie: session=a", "Cookie: session=b")),
                arguments("hashed(header:X-Api-Key)", "/hello", List.of("X-Api-Key: a", "X-Api-Key: b")),
                arguments("header:X-Api-Key | address", "/hello", List.of("X-Api-Key: a", "X-Api-Key: b")),
                arguments("bean:late | header:X-Api-Key", "/hello", List.of("X-Api-Key: a", "X-Api-Key: b")),
                arguments("address + header:X-Api-Key", "/hello", List.of("X-Api-Key: a", "X-Api-Key: b")));
    }

    /** Handlers of the service, such as one that looks up the plan of a key, get the first value. */
    @ParameterizedTest
    @MethodSource("ambiguous")
    void severalDifferentKeysAreNotAnAbsentOne(String key, String path, List<String> fields) {
        KeySource late = match -> Mono.delay(Duration.ofMillis(1)).then(Mono.empty());
        KeySource source = KeySyntax.of(ClientAddress.ofPeer())
                .beans(name -> Optional.of(late))
                .secret(new byte[16])
                .parse(key);
        Rule.Builder rule = Rule.named("plan")
                .key(source)
                .limit(Limit.perMinute(1))
                .whenMissing(WhenMissing.SKIP)
                .timeout(PATIENCE);
        serve(rule);
        HttpResponse<String> denied =
                client.get("/hello?key=a&key=b", "Cookie", "session=a; session=b", "X-Api-Key", "a", "X-Api-Key", "b");
        assertThat(denied.statusCode()).isEqualTo(400);
        assertThat(field(denied, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(denied, "Cache-Control")).isEqualTo("no-store");
        assertThat(denied.body())
                .contains("\"status\":400", "Several different values of a field, parameter or cookie");
        assertThat(client.answerTo(lines(path, fields))).startsWith("HTTP/1.1 400");
        assertThat(handled).hasValue(0);
        assertThat(events.all()).containsExactly("plan refused", "plan refused");
    }

    @ParameterizedTest
    @MethodSource("ambiguous")
    void severalDifferentKeysMayCountAsAnAbsentOne(String key, String path, List<String> fields) {
        KeySource source = KeySyntax.of(ClientAddress.ofPeer())
                .beans(name -> Optional.of(match -> Mono.empty()))
                .secret(new byte[16])
                .parse(key);
        serve(Rule.named("plan").key(source).limit(Limit.perMinute(1)).whenAmbiguous(WhenAmbiguous.MISSING));
        assertThat(client.answerTo(lines(path, fields))).startsWith("HTTP/1.1 200");
        assertThat(client.answerTo(lines(path, fields))).startsWith("HTTP/1.1 429");
    }

    @Test
    void equalKeysAreOne() {
        serve(Rule.named("plan").key(KeySource.header("X-Api-Key")).limit(Limit.perMinute(1)));
        assertThat(client.get("/hello", "X-Api-Key", "a", "X-Api-Key", "a").statusCode())
                .isEqualTo(200);
        assertThat(client.get("/hello", "X-Api-Key", "a").statusCode()).isEqualTo(429);
        // One value, as handlers see it.
        assertThat(client.get("/hello", "X-Api-Key", "a, b").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-Api-Key", "a, b").statusCode()).isEqualTo(429);
    }

    private static String[] lines(String path, List<String> fields) {
        return Stream.concat(Stream.of("GET " + path + " HTTP/1.1", "Host: localhost"), fields.stream())
                .toArray(String[]::new);
    }

    @Test
    void theRuleDecidesOnAFailedKeyLookup() {
        KeySource key =
                match -> Mono.delay(Duration.ofMillis(1)).then(Mono.error(new IllegalStateException("no directory")));
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
            assertThat(RateLimitFields.all(response)).isEmpty();
        }
        HttpResponse<String> denied = client.get("/items/1");
        assertThat(denied.statusCode()).isEqualTo(503);
        assertThat(field(denied, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(denied, "Cache-Control")).isEqualTo("no-store");
        assertThat(handled).hasValue(3);
        assertThat(events.of("open")).containsOnly("open undecided").hasSize(3);
        assertThat(events.of("strict")).containsExactly("strict undecided");
    }

    @Test
    void aBlockingFunctionIsDetected() {
        CountDownLatch never = new CountDownLatch(1);
        serve(Rule.named("blocking").limit(Limit.perMinute(1)).key(match -> {
            try {
                return Mono.just("waited: " + never.await(1, TimeUnit.MILLISECONDS));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }));
        client.get("/hello");
        assertThat(events.why()).singleElement().isInstanceOf(BlockingOperationError.class);
    }

    // Proxies.

    @Test
    void theClientAddressComesFromXForwardedForOfATrustedProxy() {
        serve(Rule.named("address")
                .key(KeySource.clientAddress(ClientAddress.ofXForwardedFor("127.0.0.1", "10.0.0.0/8")))
                .limit(Limit.perMinute(1)));
        assertThat(forwarded("203.0.113.7")).isEqualTo(200);
        assertThat(forwarded("203.0.113.7")).isEqualTo(429);
        assertThat(forwarded("203.0.113.8")).isEqualTo(200);
        // Written by the client itself, in the same line or in one of its own.
        assertThat(forwarded("198.51.100.1, 203.0.113.7")).isEqualTo(429);
        assertThat(client.get("/hello", "X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "203.0.113.7")
                        .statusCode())
                .isEqualTo(429);
        assertThat(client.get("/hello").statusCode()).as("the peer").isEqualTo(200);
    }

    private int forwarded(String value) {
        return client.get("/hello", "X-Forwarded-For", value).statusCode();
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
}
