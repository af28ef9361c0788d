package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The endpoints of the page, their access checks, and the properties of the page that need no browser. */
class PlaygroundTest {

    private static final int LIMIT = 50;
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final List<String> FILES = List.of(
            "/",
            "/playground/style.css",
            "/playground/playground.js",
            "/playground/plot.js",
            "/playground/kinds.js",
            "/playground/measure.js");

    private static final InetAddress LOOPBACK = InetAddress.getLoopbackAddress();

    /** Each test has its own page number, and so its own count. */
    private static final AtomicInteger PAGES = new AtomicInteger();

    private static ExampleRedis redis;
    private static ExampleRedis external;
    private static Instance service;
    private static Instance open;
    private static Instance believing;

    private final HttpClient client = HttpClient.newHttpClient();
    private final String page = "%03d".formatted(PAGES.getAndIncrement());

    @BeforeAll
    static void start() throws IOException {
        redis = ExampleRedis.embedded();
        service = Instance.on(redis, "playground");
        external = ExampleRedis.embedded();
        // A Redis without a password accepts any password.
        ExampleRedis named = ExampleRedis.open(external.uri().replace("redis://", "redis://default:top-secret@"));
        open = Instance.on(named, "open", "--server.address=0.0.0.0");
        believing = Instance.on(
                redis, "believing", "--server.address=0.0.0.0", "--server.forward-headers-strategy=framework");
    }

    @AfterAll
    static void stop() {
        service.close();
        open.close();
        believing.close();
        redis.close();
        external.close();
    }

    @AfterEach
    void startRedisAgain() throws IOException {
        redis.start();
        service.awaitDecisionsOf("REDIS");
    }

    @ParameterizedTest
    @CsvSource({
        "/, text/html",
        "/index.html, text/html",
        "/%69ndex.html, text/html",
        "/playground/style.css, text/css",
        "/playground/playground.js, text/javascript",
        "/playground/plot.js, text/javascript",
        "/playground/kinds.js, text/javascript",
        "/playground/measure.js, text/javascript",
        "/playground/icon.svg, image/svg+xml",
        "/%70layground/icon.svg, image/svg+xml"
    })
    void theFilesOfThePageMayLoadFromTheServiceOnly(String path, String type) throws Exception {
        HttpResponse<String> answer = get(path);
        assertThat(answer.statusCode()).isEqualTo(200);
        assertThat(header(answer, "Content-Type")).startsWith(type);
        assertThat(header(answer, "X-Content-Type-Options")).isEqualTo("nosniff");
        assertThat(header(answer, "Content-Security-Policy").split("; "))
                .containsExactlyInAnyOrder(
                        "default-src 'none'",
                        "script-src 'self'",
                        "style-src 'self'",
                        "connect-src 'self'",
                        "img-src 'self'",
                        "base-uri 'none'",
                        "form-action 'none'",
                        "frame-ancestors 'none'");
        assertThat(answer.headers().firstValue("RateLimit")).isEmpty();
        // The namespace of the icon is never fetched.
        String text = answer.body().replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assertThat(text).doesNotContainPattern("(?i)(\\b(?:https?|wss?|data):|[\"'(]//)");
    }

    /** Spring serves the page on a blocking thread: see ResponseHeaders. */
    @Test
    void theConnectionClosesAfterThePage() throws Exception {
        assertThat(header(get("/"), "Connection")).isEqualTo("close");
    }

    @Test
    void thePageConformsToItsSecurityPolicy() throws Exception {
        assertThat(get("/").body())
                .doesNotContainPattern("(?i)<style|\\sstyle=|\\son[a-z]+=|javascript:|<iframe|<form")
                .doesNotContainPattern("<script(?![^>]* src=\"playground/)");
        for (String file : FILES) {
            assertThat(get(file).body())
                    .as(file)
                    .doesNotContainPattern("innerHTML|outerHTML|insertAdjacentHTML|document\\.write|eval\\(|DOMParser");
        }
    }

    @Test
    void thePageContainsAllElementsAndFilesThatTheScriptsUse() throws Exception {
        Set<String> there = found("id=\"([^\"]+)\"", get("/").body());
        String scripts = get("/playground/playground.js").body()
                + get("/playground/plot.js").body()
                + get("/playground/kinds.js").body();
        Set<String> asked = found("(?:byId|text|element|#path)\\('([A-Za-z-]+)'", scripts);
        assertThat(asked).hasSizeGreaterThan(20);
        assertThat(there).containsAll(asked).contains("by-REDIS", "by-LOCAL", "by-CACHED_DENIAL");
        assertThat(FILES)
                .containsAll(found("from '\\./([^']+)'", scripts).stream()
                        .map("/playground/"::concat)
                        .toList());
    }

    @Test
    void everyControlHasALabel() throws Exception {
        String html = get("/").body();
        for (String id : found("<input id=\"([^\"]+)\"", html)) {
            assertThat(html).contains("<label for=\"" + id + "\">");
        }
        assertThat(html).contains("<html lang=\"en\">", ">Stop Redis</button>", ">Start Redis</button>");
        assertThat(found("<svg [^>]*aria-labelledby=\"([^\"]+)\"", html))
                .containsExactly("bucket-name", "concurrent-name", "counter-name", "log-name", "plot-title");
        Set<String> ids = found("id=\"([^\"]+)\"", html);
        assertThat(ids).containsAll(found("aria-(?:labelledby|describedby)=\"([^\"]+)\"", html));
    }

    @Test
    void eachKindDecidesOnTheSameRequests() throws Exception {
        String path = "/playground/kinds/" + page + "?requests=20";
        long since = System.nanoTime();
        JsonNode first = new JsonMapper().readTree(get(path).body());
        assertThat(first.findValuesAsString("kind")).containsExactly("log", "counter", "bucket", "concurrent");
        int[] allowed = new int[4];
        for (JsonNode answer : List.of(
                first,
                new JsonMapper().readTree(get(path).body()),
                new JsonMapper().readTree(get(path).body()))) {
            for (int i = 0; i < allowed.length; i++) {
                JsonNode kind = answer.get(i);
                allowed[i] += kind.get("allowed").asInt();
                assertThat(kind.get("allowed").asInt() + kind.get("denied").asInt())
                        .isEqualTo(20);
            }
        }
        assertThat(allowed[0]).isBetween(LIMIT, LIMIT * windows(since));
        assertThat(allowed[1]).isBetween(LIMIT, LIMIT * windows(since));
        // The burst, and five for each second since then.
        assertThat(allowed[2]).isBetween(25, 25 + 5 * WINDOW.toSecondsPart() * windows(since));
        assertThat(first.get(3).get("denied").asInt()).isPositive();
        // The page contains the limits, before the first response.
        assertThat(get("/").body())
                .contains(first.findValuesAsString("limit").stream()
                        .map(limit -> "<code>" + limit + "</code>")
                        .toList());
    }

    @Test
    void permitsOfTheConcurrencyLimitAreReleasedAfterTheWork() {
        String path = "/playground/kinds/" + page + "?requests=1";
        await().until(() -> allowed(path) == 0);
        await().until(() -> allowed(path) == 1);
    }

    private int allowed(String path) throws Exception {
        return new JsonMapper()
                .readTree(get(path).body())
                .path(3)
                .path("allowed")
                .asInt(-1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"?requests=0", "?requests=21", "?requests=-1", "?requests=many", ""})
    void theNumberOfRequestsIsBounded(String query) throws Exception {
        HttpResponse<String> answer = get("/playground/kinds/" + page + query);
        assertThat(answer.statusCode()).isEqualTo(400);
        if (query.matches(".*\\d")) {
            assertThat(answer.body()).contains("expected requests=1 to 20, for example ?requests=4");
        }
    }

    @Test
    void aPageIsAllowedUpToItsLimitAndGetsTheHeaderFields() throws Exception {
        long since = System.nanoTime();
        HttpResponse<String> answer = hit(page);
        assertThat(answer.statusCode()).isEqualTo(200);
        assertThat(header(answer, "RateLimit-Policy")).isEqualTo("\"playground-10s\";q=50;w=10");
        assertThat(header(answer, "RateLimit")).startsWith("\"playground-10s\";r=49;");
        assertThat(header(answer, "X-RateLimit-Remaining")).isEqualTo("49");
        assertThat(header(answer, "Decided-By")).isEqualTo("REDIS");
        assertThat(answer.headers().firstValue("Connection")).isEmpty();
        int allowed = 0;
        while (answer.statusCode() == 200) {
            allowed++;
            answer = hit(page);
        }
        assertThat(allowed).isBetween(LIMIT, LIMIT * windows(since));
        assertThat(answer.statusCode()).isEqualTo(429);
        assertThat(header(answer, "RateLimit")).startsWith("\"playground-10s\";r=0;");
        assertThat(Long.parseLong(header(answer, "Retry-After"))).isBetween(1L, 10L);
        assertThat(header(answer, "Decided-By")).isIn("REDIS", "CACHED_DENIAL");
        assertThat(header(answer, "Cache-Control")).isEqualTo("no-store");
    }

    @Test
    void aCachedDenialIsReportedAsSuch() {
        await().until(() -> header(hit(page), "Decided-By").equals("CACHED_DENIAL"));
    }

    @Test
    void aPageChargesNeitherOtherPagesNorCustomers() throws Exception {
        assertThat(hit(page).statusCode()).isEqualTo(200);
        String another = "%03d".formatted(PAGES.getAndIncrement());
        assertThat(header(hit(another), "X-RateLimit-Remaining")).isEqualTo("49");
        // The same number from another address, according to the proxy.
        HttpResponse<String> elsewhere = client.send(
                request("/playground/hit/" + page)
                        .header("X-Forwarded-For", "192.0.2.77")
                        .build(),
                BodyHandlers.ofString());
        assertThat(header(elsewhere, "X-RateLimit-Remaining")).isEqualTo("49");
        HttpResponse<String> usage = client.send(
                request("/v1/usage")
                        .header("X-Api-Key", "paid-key")
                        .header("X-Forwarded-For", "192.0.2.77")
                        .build(),
                BodyHandlers.ofString());
        assertThat(usage.body()).contains("{\"name\":\"address-1m\",\"permits\":120,\"used\":0,");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "/", "/1", "/1000", "/abc", "/%D9%A1%D9%A2%D9%A3"})
    void pageNumbersHaveThreeDigits(String madeUp) throws Exception {
        HttpResponse<String> answer = get("/playground/hit" + madeUp);
        assertThat(answer.statusCode()).isEqualTo(404);
        assertThat(answer.headers().firstValue("RateLimit")).isEmpty();
    }

    @Test
    void theFallbackDecidesDuringAnOutageAndItsPermitsAreReconciled() throws Exception {
        JsonNode before = state();
        assertThat(before.get("source").asString()).isEqualTo("REDIS");
        assertThat(before.get("breaker").asString()).isEqualTo("CLOSED");
        assertThat(before.get("problem").isNull()).isTrue();
        assertThat(before.get("redis").toString())
                .isEqualTo("{\"name\":\"%s\",\"ours\":true,\"running\":true}".formatted(redis.name()));

        assertStatus(turn("stop"), 204);
        await().until(() -> header(hit(page), "Decided-By").equals("LOCAL"));
        await().until(() -> {
            hit(page);
            return state().get("breaker").asString().equals("OPEN");
        });
        JsonNode away = state();
        assertThat(away.get("source").asString()).isEqualTo("LOCAL");
        assertThat(away.get("problem").asString()).isNotEmpty();
        assertThat(away.get("toReconcile").asLong()).isPositive();
        assertThat(away.get("fallbacks").asLong())
                .isGreaterThan(before.get("fallbacks").asLong());
        assertThat(away.get("redis").get("running").asBoolean()).isFalse();

        assertStatus(turn("start"), 204);
        // Permits granted during the outage still count, so they are reconciled.
        await().until(() -> {
            hit("%03d".formatted(PAGES.getAndIncrement()));
            return state().get("source").asString().equals("REDIS");
        });
        await().until(() -> state().get("toReconcile").asLong() == 0);
        JsonNode back = state();
        assertThat(back.get("breaker").asString()).isEqualTo("CLOSED");
        assertThat(back.get("reconciled").asLong())
                .isGreaterThan(before.get("reconciled").asLong());
        assertThat(back.get("lost").asLong()).isZero();
        assertThat(back.get("redis").get("running").asBoolean()).isTrue();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "Host: attacker.example|X-Playground: 1",
                "Host: attacker.example:8080|X-Playground: 1",
                "Host: localhost.attacker.example|X-Playground: 1",
                "Host: 192.0.2.1|X-Playground: 1",
                "Host: localhost",
                "Host: localhost|X-Playground: 1|Origin: http://attacker.example",
                "Host: localhost|X-Playground: 1|Origin: null",
                "Host: localhost|X-Playground: 1|Origin: http://localhost:3000",
                "Host: localhost|X-Playground: 1|X-Forwarded-For: 192.0.2.1",
                "Host: localhost|X-Playground: 1|Forwarded: for=192.0.2.1"
            })
    void onlyOurPageOnThisMachineStopsRedis(String headers) {
        for (String path : List.of("/playground/redis/stop", "/playground/redis/start")) {
            String answer = raw(service.uri(), LOOPBACK, "POST", path, headers.split("\\|"));
            assertStatus(answer, 403);
            assertThat(answer).contains("application/problem+json", "expected");
        }
        assertThat(redis.isRunning()).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]:8080"})
    void ourPageStartsRedisUnderEachNameOfThisMachine(String host) {
        String answer = raw(
                service.uri(),
                LOOPBACK,
                "POST",
                "/playground/redis/start",
                "Host: " + host,
                "Origin: http://" + host,
                "X-Playground: 1");
        assertStatus(answer, 204);
    }

    @Test
    void aGetRequestStopsNothing() throws Exception {
        assertThat(get("/playground/redis/stop").statusCode()).isEqualTo(405);
        assertThat(redis.isRunning()).isTrue();
    }

    @Test
    void aPreflightOfAnotherSiteIsNotAllowed() {
        String answer = raw(
                service.uri(),
                LOOPBACK,
                "OPTIONS",
                "/playground/redis/stop",
                "Host: localhost",
                "Origin: http://attacker.example",
                "Access-Control-Request-Method: POST",
                "Access-Control-Request-Headers: x-playground");
        assertThat(answer).doesNotContainIgnoringCase("access-control-allow");
    }

    @Test
    void theStateIsRefusedAfterDnsRebinding() {
        assertStatus(raw(service.uri(), LOOPBACK, "GET", "/playground/state", "Host: attacker.example"), 403);
        assertStatus(raw(service.uri(), LOOPBACK, "GET", "/playground/state", "Host: localhost"), 200);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "GET /actuator",
                "GET /actuator/health",
                "GET /actuator/spillgate",
                "GET /%61ctuator/spillgate",
                "DELETE /actuator/spillgate/playground?key=127.0.0.1%7C999"
            })
    void theActuatorServesThisMachineOnly(String request) throws Exception {
        String[] parts = request.split(" ", -1);
        String page = raw(service.uri(), LOOPBACK, parts[0], parts[1], "Host: attacker.example");
        assertStatus(page, 403);
        assertThat(page).contains("expected a name of this machine");
        for (InetAddress address : addresses()) {
            assertStatus(raw(open.uri(), address, parts[0], parts[1], "Host: localhost"), 403);
        }
        String here = raw(service.uri(), LOOPBACK, parts[0], parts[1], "Host: localhost");
        assertThat(here).startsWith("HTTP/1.1 20");
    }

    /**
     * With forward-headers-strategy, Spring takes the address of the request from a header that any client can send.
     */
    @Test
    void aForwardedHeaderDoesNotMakeAClientLocal() throws Exception {
        for (InetAddress address : addresses()) {
            for (String header : List.of("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1")) {
                String told = raw(
                        believing.uri(),
                        address,
                        "POST",
                        "/playground/redis/stop",
                        "Host: localhost",
                        "X-Playground: 1",
                        header);
                assertStatus(told, 403);
                assertThat(told).contains("comes from " + address.getHostAddress());
            }
        }
        assertStatus(
                raw(
                        believing.uri(),
                        LOOPBACK,
                        "GET",
                        "/playground/state",
                        "Host: localhost",
                        "X-Forwarded-For: 192.0.2.1"),
                403);
        assertThat(redis.isRunning()).isTrue();
    }

    /** If this machine has only the loopback address, only ThisMachineTest covers this. */
    @Test
    void clientsOnOtherMachinesMayUseThePageOnly() throws Exception {
        for (InetAddress address : addresses()) {
            assertStatus(raw(open.uri(), address, "GET", "/", "Host: localhost"), 200);
            assertStatus(raw(open.uri(), address, "GET", "/playground/hit/" + page, "Host: localhost"), 200);
            for (String path : List.of("/playground/redis/stop", "/playground/redis/start")) {
                String told = raw(open.uri(), address, "POST", path, "Host: localhost", "X-Playground: 1");
                assertStatus(told, 403);
                assertThat(told).contains("comes from ", "over the loopback interface");
            }
            assertStatus(raw(open.uri(), address, "GET", "/playground/state", "Host: localhost"), 403);
        }
    }

    @Test
    void anotherRedisIsNotStoppedAndItsPasswordIsHidden() {
        String state = raw(open.uri(), LOOPBACK, "GET", "/playground/state", "Host: localhost");
        assertThat(state)
                .contains("{\"name\":\"the server of SPILLGATE_REDIS_URI\",\"ours\":false,\"running\":true}")
                .doesNotContain("top-secret");
        for (String turn : List.of("stop", "start")) {
            String answer = raw(
                    open.uri(), LOOPBACK, "POST", "/playground/redis/" + turn, "Host: localhost", "X-Playground: 1");
            assertStatus(answer, 409);
            assertThat(answer)
                    .contains("application/problem+json", "which is yours; expected an embedded server")
                    .doesNotContain("top-secret");
        }
        assertThat(external.isRunning()).isTrue();
    }

    @Test
    void concurrentStopsSucceedOrConflict() {
        List<String> answers =
                IntStream.range(0, 16)
                        .mapToObj(i -> CompletableFuture.supplyAsync(() -> turn("stop")))
                        .toList()
                        .stream()
                        .map(CompletableFuture::join)
                        .toList();
        assertThat(answers).allMatch(answer -> answer.startsWith("HTTP/1.1 204") || answer.startsWith("HTTP/1.1 409"));
        assertThat(answers).anyMatch(answer -> answer.startsWith("HTTP/1.1 204"));
        assertThat(redis.isRunning()).isFalse();
        assertStatus(turn("start"), 204);
        assertThat(redis.isRunning()).isTrue();
    }

    @Test
    void redisStopsAlthoughTheClientDisconnects() throws IOException {
        try (Socket socket = new Socket(LOOPBACK, service.uri().getPort())) {
            write(socket, "POST", "/playground/redis/stop", "Host: localhost", "X-Playground: 1");
            // Reset the connection, so that the service notices at once.
            socket.setSoLinger(true, 0);
            await().until(() -> !redis.isRunning() || socket.getInputStream().available() > 0);
        }
        await().until(() -> !redis.isRunning());
        await().until(() -> turn("start").startsWith("HTTP/1.1 204"));
        assertThat(redis.isRunning()).isTrue();
    }

    private static String turn(String what) {
        return raw(service.uri(), LOOPBACK, "POST", "/playground/redis/" + what, "Host: localhost", "X-Playground: 1");
    }

    private static JsonNode state() {
        String answer = raw(service.uri(), LOOPBACK, "GET", "/playground/state", "Host: localhost");
        assertStatus(answer, 200);
        return new JsonMapper().readTree(answer.substring(answer.indexOf("\r\n\r\n")));
    }

    private HttpResponse<String> hit(String page) throws Exception {
        return get("/playground/hit/" + page);
    }

    private HttpResponse<String> get(String path) throws Exception {
        return client.send(request(path).build(), BodyHandlers.ofString());
    }

    private static HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(service.uri().resolve(path)).timeout(Duration.ofSeconds(30));
    }

    /** Sends a request with any header, which the client of Java does not allow. */
    private static String raw(URI service, InetAddress address, String method, String path, String... headers) {
        try (Socket socket = new Socket(address, service.getPort())) {
            write(socket, method, path, headers);
            InputStream in = socket.getInputStream();
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void write(Socket socket, String method, String path, String... headers) throws IOException {
        List<String> lines = new ArrayList<>(List.of(method + " " + path + " HTTP/1.1"));
        lines.addAll(List.of(headers));
        lines.addAll(List.of("Content-Length: 0", "Connection: close", "", ""));
        socket.setSoTimeout(30_000);
        socket.getOutputStream().write(String.join("\r\n", lines).getBytes(StandardCharsets.US_ASCII));
        socket.getOutputStream().flush();
    }

    private static List<InetAddress> addresses() throws IOException {
        return NetworkInterface.networkInterfaces()
                .filter(PlaygroundTest::isUp)
                .flatMap(NetworkInterface::inetAddresses)
                .filter(address -> !address.isLoopbackAddress() && !address.isLinkLocalAddress())
                // The service listens on IPv4 only.
                .filter(Inet4Address.class::isInstance)
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

    private static int windows(long since) {
        return 1 + (int) Duration.ofNanos(System.nanoTime() - since).dividedBy(WINDOW);
    }

    private static void assertStatus(String answer, int status) {
        assertThat(answer).startsWith("HTTP/1.1 " + status + " ");
    }

    private static String header(HttpResponse<String> answer, String name) {
        return answer.headers().firstValue(name).orElseThrow();
    }
}
