package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The demo without a browser: its files, the endpoints that they call, and which clients may stop Redis. */
class PlaygroundTest {

    private static final InetAddress LOOPBACK = InetAddress.getLoopbackAddress();
    private static final String[] OUR_PAGE = {"Host: localhost", "X-Playground: 1"};

    private static ExampleRedis redis;
    private static Instance service;
    private static Instance another;

    private final HttpClient client = HttpClient.newHttpClient();

    /** Other machines can connect, and a header may replace the address of a request. */
    @BeforeAll
    static void start() throws IOException {
        redis = ExampleRedis.embedded();
        Traffic traffic = new Traffic();
        String[] settings = {"--server.address=0.0.0.0", "--server.forward-headers-strategy=framework"};
        service = Instance.on(redis, traffic, "playground", settings);
        another = Instance.on(redis, traffic, "playground", settings);
    }

    @AfterAll
    static void stop() {
        service.close();
        another.close();
        redis.close();
    }

    @AfterEach
    void startRedisAgain() throws IOException {
        redis.start();
        service.awaitDecisionsOf("REDIS");
        another.awaitDecisionsOf("REDIS");
    }

    @Test
    void thePageLoadsItsFilesFromTheServiceOnly() throws Exception {
        String html = file("/index.html");
        // Spring serves the page on a blocking thread: see ResponseHeaders.
        assertThat(header(get("/"), "Connection")).isEqualTo("close");
        assertThat(file("/%69ndex.html")).isEqualTo(file("/")).isEqualTo(html);
        assertThat(html)
                .doesNotContainPattern("(?i)<style|\\sstyle=|\\son[a-z]+=|javascript:|<iframe")
                .doesNotContainPattern("<script(?![^>]* src=\"playground/)");
        Set<String> ids = found("id=\"([^\"]+)\"", html);
        assertThat(ids).contains("pause", "turn", "grants");
        assertThat(ids).containsAll(found("aria-(?:labelledby|describedby)=\"([^\"]+)\"", html));
        assertThat(found("<label for=\"([^\"]+)\"", html)).containsAll(found("<input id=\"([^\"]+)\"", html));
        assertThat(json(traffic(0)).get("traffic").propertyNames())
                .containsAll(found("data-series=\"([^\"]+)\"", html));

        Set<String> files = found("(?:src|href)=\"playground/([^\"]+)\"", html);
        String scripts = "";
        for (String script : List.of("playground.js", "plot.js", "rules.js")) {
            files.add(script);
            scripts += file("/playground/" + script);
        }
        assertThat(files).containsAll(found("from '\\./([^']+)'", scripts)).hasSize(5);
        assertThat(ids).containsAll(found("(?:byId|text)\\('([A-Za-z-]+)'", scripts));
        for (String file : files) {
            // The namespace of the icon is never fetched.
            assertThat(file("/playground/" + file).replace("xmlns=\"http://www.w3.org/2000/svg\"", ""))
                    .as(file)
                    .doesNotContainPattern("(?i)(\\b(?:https?|wss?|data):|[\"'(]//)")
                    .doesNotContainPattern("innerHTML|outerHTML|insertAdjacentHTML|document\\.write|eval\\(|DOMParser");
        }
    }

    /** Returns a file, after a check of its header fields. */
    private String file(String path) throws Exception {
        HttpResponse<String> answer = get(path);
        assertThat(answer.statusCode()).as(path).isEqualTo(200);
        assertThat(header(answer, "Content-Security-Policy"))
                .startsWith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
                .contains("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'");
        assertThat(header(answer, "X-Content-Type-Options")).isEqualTo("nosniff");
        assertThat(answer.headers().firstValue("RateLimit")).isEmpty();
        return answer.body();
    }

    @Test
    void theLimitHoldsWithoutRedisAndOthersExceedIt() throws Exception {
        assertThat(header(get("/playground/hit"), "RateLimit-Policy")).isEqualTo("\"playground-10s\";q=50;w=10");
        JsonNode before = sendUntil(traffic -> traffic.at("/denied/last").asInt() > 0
                && traffic.at("/eachProcess/last").asInt() > 90);
        assertThat(before.at("/permits").asInt()).isEqualTo(50);
        assertThat(before.at("/allowed/most").asInt()).isEqualTo(50);
        assertThat(before.at("/instances").size()).isEqualTo(2);
        JsonNode store = json(traffic(0)).get("store");
        assertThat(store.toString())
                .isEqualTo("{\"product\":\"Redis\",\"name\":\"%s\",\"ours\":true,\"running\":true}"
                        .formatted(redis.name()));

        assertStatus(raw(LOOPBACK, "POST /playground/store/stop", OUR_PAGE), 204);
        JsonNode away = sendUntil(traffic -> traffic.at("/failsOpen/last").asInt() > 100
                && traffic.at("/instances/0/source").asString().equals("LOCAL")
                && traffic.at("/instances/0/grantedLocally").asInt() > 0);
        assertThat(away.at("/instances/0/problem").asString()).isNotEmpty();
        assertThat(away.at("/instances/0/toReconcile").asInt()).isPositive();
        assertThat(json(traffic(0)).at("/store/running").asBoolean()).isFalse();

        assertStatus(raw(LOOPBACK, "POST /playground/store/start", OUR_PAGE), 204);
        JsonNode back = sendUntil(
                traffic -> traffic.at("/instances/0/source").asString().equals("REDIS")
                        && traffic.at("/instances/0/toReconcile").asInt() == 0
                        && traffic.at("/instances/0/reconciled").asInt() > 0);
        // The share of two instances without Redis is the whole limit together.
        assertThat(back.at("/allowed/most").asInt()).isLessThanOrEqualTo(50);
        assertThat(back.at("/eachProcess/most").asInt()).isBetween(91, 100);
        assertThat(back.at("/failed/most").asInt()).isZero();
        for (JsonNode instance : back.get("instances")) {
            assertThat(instance.get("grantedLocally").asInt())
                    .isGreaterThanOrEqualTo(instance.get("reconciled").asInt()
                            + instance.get("toReconcile").asInt()
                            + instance.get("lost").asInt());
        }
    }

    @Test
    void aLimitIsChangedInBothInstances() throws Exception {
        JsonNode before = sendUntil(
                traffic -> traffic.at("/instances/1/limits").asString().equals("50 in 10 s"));
        assertThat(before.at("/instances/0/limits").asString()).isEqualTo("50 in 10 s");
        URI rule = service.uri().resolve("/actuator/spillgate/playground");
        HttpRequest publish = HttpRequest.newBuilder(rule)
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString("{\"limits\":\"20/10s\",\"version\":\"0\"}"))
                .build();
        JsonNode published = json(client.send(publish, BodyHandlers.ofString()).body());
        sendUntil(traffic -> traffic.at("/instances/0/limits").asString().equals("20 in 10 s")
                && traffic.at("/instances/1/limits").asString().equals("20 in 10 s"));
        // After the window, the old limit shows no more.
        sendUntil(traffic -> traffic.at("/permits").asInt() == 20
                && traffic.at("/allowed/last").asInt() <= 20
                && traffic.at("/failsOpen/last").asInt() <= 20
                && traffic.at("/eachProcess/last").asInt() <= 40);
        HttpRequest withdraw = HttpRequest.newBuilder(URI.create(rule + "?version=" + published.get("version")))
                .DELETE()
                .build();
        assertThat(client.send(withdraw, BodyHandlers.ofString()).statusCode()).isEqualTo(204);
        sendUntil(traffic -> traffic.at("/instances/1/limits").asString().equals("50 in 10 s"));
    }

    @Test
    void theRateIsBounded() {
        for (String wrong : List.of("-1", "61", "many")) {
            assertStatus(raw(LOOPBACK, "POST /playground/traffic?rate=" + wrong, OUR_PAGE), 400);
        }
    }

    /** Sends requests, as the page does, until their numbers are as expected, and returns these. */
    private static JsonNode sendUntil(Predicate<JsonNode> expected) {
        return await().atMost(Duration.ofSeconds(40))
                .pollInterval(Duration.ofMillis(100))
                .until(() -> json(traffic(50)).get("traffic"), expected);
    }

    private static String traffic(int rate) {
        String answer = raw(LOOPBACK, "POST /playground/traffic?rate=" + rate, OUR_PAGE);
        assertStatus(answer, 200);
        return answer.substring(answer.indexOf("\r\n\r\n"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "POST /playground/store/stop",
                "POST /playground/store/start",
                "POST /playground/traffic?rate=0",
                "GET /actuator",
                "GET /actuator/spillgate",
                "GET /%61ctuator/spillgate",
                "DELETE /actuator/spillgate/playground?key=192.0.2.1"
            })
    void onlyThisMachineMayOperate(String request) throws IOException {
        assertThat(raw(LOOPBACK, request, OUR_PAGE)).startsWith("HTTP/1.1 20");
        startRedisAgain();
        assertStatus(raw(LOOPBACK, request, "Host: attacker.example", "X-Playground: 1"), 403);
        assertStatus(raw(LOOPBACK, request, "Host: localhost", "X-Playground: 1", "Forwarded: for=192.0.2.1"), 403);
        for (InetAddress address : addresses()) {
            assertStatus(raw(address, request, OUR_PAGE), 403);
            for (String forged : List.of("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1")) {
                String refused = raw(address, request, "Host: localhost", "X-Playground: 1", forged);
                assertStatus(refused, 403);
                assertThat(refused).contains("comes from " + address.getHostAddress());
            }
        }
        assertThat(redis.isRunning()).isTrue();
    }

    @Test
    void pagesOfOtherSitesCannotStopRedis() {
        String stop = "/playground/store/stop";
        assertStatus(raw(LOOPBACK, "POST " + stop, "Host: localhost"), 403);
        assertStatus(raw(LOOPBACK, "POST " + stop, "Host: localhost", "X-Playground: 1", "Origin: null"), 403);
        assertStatus(raw(LOOPBACK, "GET " + stop, OUR_PAGE), 405);
        assertStatus(raw(LOOPBACK, "POST /playground/traffic?rate=60", "Host: localhost"), 403);
        // A form of another site cannot send JSON.
        assertStatus(
                raw(LOOPBACK, "POST /actuator/spillgate/playground", "Host: localhost", "Content-Type: text/plain"),
                415);
        assertThat(raw(
                        LOOPBACK,
                        "OPTIONS " + stop,
                        "Host: localhost",
                        "Origin: http://attacker.example",
                        "Access-Control-Request-Method: POST",
                        "Access-Control-Request-Headers: x-playground"))
                .doesNotContainIgnoringCase("access-control-allow");
        assertThat(redis.isRunning()).isTrue();
    }

    private static JsonNode json(String text) {
        return new JsonMapper().readTree(text);
    }

    private HttpResponse<String> get(String path) throws Exception {
        URI uri = service.uri().resolve(path);
        return client.send(
                HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(30)).build(), BodyHandlers.ofString());
    }

    /** Sends a request with any header, which the client of Java does not allow. */
    private static String raw(InetAddress address, String request, String... headers) {
        String head = request + " HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n" + String.join("\r\n", headers)
                + "\r\n\r\n";
        try (Socket socket = new Socket(address, service.uri().getPort())) {
            socket.setSoTimeout(30_000);
            socket.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the addresses of this machine on its networks; none if it has only the loopback interface. */
    private static List<InetAddress> addresses() throws IOException {
        return NetworkInterface.networkInterfaces()
                .filter(PlaygroundTest::isUp)
                .flatMap(NetworkInterface::inetAddresses)
                .filter(address -> address instanceof Inet4Address
                        && !address.isLoopbackAddress()
                        && !address.isLinkLocalAddress())
                .toList();
    }

    private static boolean isUp(NetworkInterface one) {
        try {
            return one.isUp();
        } catch (IOException e) {
            return false;
        }
    }

    private static Set<String> found(String pattern, String text) {
        Set<String> found = new TreeSet<>();
        for (Matcher matcher = Pattern.compile(pattern).matcher(text); matcher.find(); ) {
            found.add(matcher.group(1));
        }
        return found;
    }

    private static void assertStatus(String answer, int status) {
        assertThat(answer).startsWith("HTTP/1.1 " + status + " ");
    }

    private static String header(HttpResponse<String> answer, String name) {
        return answer.headers().firstValue(name).orElseThrow();
    }
}
