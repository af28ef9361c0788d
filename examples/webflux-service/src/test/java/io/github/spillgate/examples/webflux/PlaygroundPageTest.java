package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.testkit.Thorough;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/**
 * The page in a real browser. Without a browser these tests print a notice and do nothing; {@link PlaygroundTest} needs
 * none.
 */
@Thorough
class PlaygroundPageTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    /** A script that returns texts with a contrast below 4.5 to 1. */
    private static final String PALE = """
            (() => {
              const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
              const light = (color) => {
                const [r, g, b] = rgb(color).map((one) => one / 255)
                    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const behind = (it) => {
                const color = getComputedStyle(it).backgroundColor;
                return (rgb(color)[3] ?? 1) === 0 && it.parentElement ? behind(it.parentElement) : color;
              };
              return [...document.body.querySelectorAll('*')]
                  .filter((it) => it.checkVisibility() && it.getClientRects().length > 0)
                  .filter((it) => [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
                  .map((it) => {
                    const style = getComputedStyle(it);
                    const [one, other] = [it.closest('svg') ? style.fill : style.color, behind(it)].map(light);
                    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
                    return { text: it.textContent.trim(), contrast };
                  })
                  .filter(({ contrast }) => contrast < 4.5)
                  .map(({ text, contrast }) => `${contrast.toFixed(2)} ${text}`);
            })()
            """;

    private static ExampleRedis redis;
    private static Instance service;
    private static Instance external;
    private static @Nullable Browser browser;

    @BeforeAll
    static void start() throws IOException {
        redis = ExampleRedis.embedded();
        service = Instance.on(redis, "page");
        external = Instance.on(ExampleRedis.open(redis.uri()), "external");
        Optional<Path> installed = Browser.installed();
        if (installed.isPresent()) {
            browser = Browser.start(installed.get());
        } else {
            System.out.println("The page has not been tested in a browser: there is no chromium, chromium-browser or"
                    + " google-chrome on the PATH, and " + Browser.VARIABLE + " names none.");
        }
    }

    @AfterAll
    static void stop() throws IOException {
        if (browser != null) {
            browser.close();
        }
        service.close();
        external.close();
        redis.close();
    }

    @AfterEach
    void startRedisAgain() throws IOException {
        redis.start();
        service.awaitDecisionsOf("REDIS");
    }

    @Test
    void thePageStartsWithAGentleLoad() {
        onThePage(tab -> {
            tab.awaitText("source", "REDIS");
            assertThat(tab.text("breaker")).isEqualTo("closed");
            assertThat(tab.text("rate")).isEqualTo("3");
            assertThat(tab.text("load-note")).startsWith("The page starts with a gentle load.");
            tab.awaitThat("document.getElementById('bars-allowed').getBBox().height > 0");
            assertThat(tab.text("response")).startsWith("200 OK");
            assertThat(tab.text("denied")).isEqualTo("0");
            assertThat(tab.is("document.getElementById('problem').hidden")).isTrue();
        });
    }

    @Test
    void eachKindOfLimitHasAPictureOfTheSameLoad() {
        onThePage(tab -> {
            tab.slide("load", 30);
            for (String kind : List.of("log", "counter", "bucket", "concurrent")) {
                String figure = "document.querySelector('figure[data-kind=" + kind + "]";
                tab.awaitThat(figure + " path.allowed').getBBox().height > 0");
                tab.awaitThat(figure + " path.denied').getBBox().height > 0");
                tab.awaitThat(figure + " b').textContent > 0");
                tab.awaitThat(figure + " b:last-of-type').textContent > 0");
            }
        });
    }

    @Test
    void requestsAreCountedAndPlotted() {
        onThePage(tab -> {
            tab.slide("load", 40);
            tab.awaitThat("document.getElementById('bars-denied').getBBox().height > 0");
            assertThat(tab.is("document.getElementById('bars-allowed').getBBox().height > 0"))
                    .isTrue();
            assertThat(tab.is("document.getElementById('left-line').getTotalLength() > 0"))
                    .isTrue();
            tab.awaitThat("document.getElementById('left').textContent.endsWith(' of 50')");
            tab.awaitText("policy", "50 in any 10\u00a0s");
            tab.awaitThat("document.getElementById('by-REDIS').textContent > 0");
            tab.awaitThat("document.getElementById('by-CACHED_DENIAL').textContent > 0");
            tab.awaitText("response", "429 Too Many Requests");
            assertThat(tab.text("response"))
                    .contains(
                            "RateLimit: \"playground-10s\";r=0;",
                            "RateLimit-Policy: \"playground-10s\";q=50;w=10",
                            "X-RateLimit-Limit: 50",
                            "X-RateLimit-Remaining: 0",
                            "X-RateLimit-Reset: ",
                            "Retry-After: ",
                            "Decided-By: ",
                            "\"violated-policies\":[\"playground-10s\"]");

            // The same values as a table, for users who cannot see the plot.
            tab.click("plot-text");
            tab.awaitThat("document.querySelectorAll('#table tr').length > 2");
            tab.awaitThat("/REDIS/.test(document.querySelector('#table').textContent)");

            tab.slide("load", 0);
            tab.awaitText("load-note", "Nothing is sent.");
            // Requests in flight have ended, and no more are sent.
            tab.awaitThat("document.getElementById('denied').textContent === '0'");
            int sent = requests(tab);
            tab.awaitMillis(1500);
            assertThat(requests(tab)).isEqualTo(sent);
        });
    }

    @Test
    void thePageShowsTheFallbackAndTheReturnOfRedis() {
        onThePage(tab -> {
            tab.slide("load", 6);
            tab.awaitThat("document.getElementById('by-REDIS').textContent > 0");
            tab.click("stop");
            tab.awaitText("source", "LOCAL");
            tab.awaitText("breaker", "open");
            tab.awaitText("news", "Redis is stopped. The local store decides");
            tab.awaitThat("document.getElementById('problem').textContent !== '' && "
                    + "!document.getElementById('problem').hidden");
            tab.awaitThat("document.getElementById('by-LOCAL').textContent > 0");
            tab.awaitThat("document.getElementById('toReconcile').textContent > 0");
            tab.awaitThat("document.getElementById('away').getBBox().width > 0");
            assertThat(tab.is("document.getElementById('stop').disabled")).isTrue();
            // A user of the keyboard can start Redis at once.
            assertThat(tab.ask("document.activeElement.id").asString()).isEqualTo("start");

            tab.click("start");
            tab.awaitText("source", "REDIS");
            tab.awaitText("breaker", "closed");
            tab.awaitText("news", "Redis decides again. Reconciled ");
            tab.awaitThat("document.getElementById('reconciled').textContent > 0");
            tab.awaitThat("document.getElementById('toReconcile').textContent === '0'");
            assertThat(tab.is("document.getElementById('problem').hidden")).isTrue();
        });
    }

    @Test
    void theKeyboardMovesTheSlider() {
        onThePage(tab -> {
            tab.press("Tab", 9);
            assertThat(tab.ask("document.activeElement.id").asString()).isEqualTo("load");
            tab.press("Home", 36);
            tab.awaitText("rate", "0");
            tab.press("ArrowRight", 39);
            tab.press("ArrowRight", 39);
            tab.awaitText("rate", "2");
            assertThat(tab.ask("document.activeElement.getAttribute('aria-valuetext')")
                            .asString())
                    .isEqualTo("2 requests a second");
            tab.awaitThat("document.getElementById('by-REDIS').textContent > 0");
            tab.press("Home", 36);
            tab.awaitText("rate", "0");
        });
    }

    /** While the table grows. */
    @ParameterizedTest
    @ValueSource(ints = {320, 500, 1200})
    void theButtonsStayWhereTheyAre(int width) {
        onThePage(tab -> {
            tab.size(width, 640, 1);
            tab.awaitThat("document.getElementById('left').textContent.endsWith(' of 50')");
            tab.click("plot-text");
            String top = "document.getElementById('stop').getBoundingClientRect().top + scrollY";
            int before = tab.ask(top).asInt();
            tab.slide("load", 30);
            tab.awaitThat("document.querySelectorAll('#table tr').length > 5");
            assertThat(tab.ask(top).asInt()).isEqualTo(before);
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"light", "dark"})
    void thePageIsLegibleOnAPhone(String scheme) {
        onThePage(tab -> {
            tab.size(320, 640, 2);
            tab.prefer("prefers-color-scheme", scheme);
            tab.slide("load", 30);
            tab.click("plot-text");
            tab.click("stop");
            tab.awaitText("source", "LOCAL");
            tab.awaitThat("!document.getElementById('problem').hidden");
            tab.awaitText("response", "429 Too Many Requests");
            tab.awaitThat("document.querySelectorAll('#table tr').length > 2");
            assertThat(tab.ask("document.scrollingElement.scrollWidth").asInt()).isEqualTo(320);
            assertThat(tab.ask("[...document.body.querySelectorAll('*')]"
                            + ".filter((it) => it.getBoundingClientRect().right > 320.5).map((it) => it.outerHTML)"))
                    .isEmpty();
            assertThat(tab.is("matchMedia('(prefers-color-scheme: " + scheme + ")').matches"))
                    .isTrue();
            assertThat(tab.ask(PALE)).isEmpty();
        });
    }

    @Test
    void aHiddenPageSendsNothing() {
        onThePage(tab -> {
            tab.slide("load", 30);
            tab.awaitThat("document.getElementById('by-REDIS').textContent > 0");
            Tab over = tab.cover();
            tab.awaitThat("document.hidden");
            tab.awaitMillis(1500);
            int sentBefore = requests(tab);
            tab.awaitMillis(1500);
            assertThat(requests(tab)).isEqualTo(sentBefore);
            over.close();
            tab.awaitThat("!document.hidden");
            int sent = requests(tab);
            await().atMost(PATIENCE).until(() -> requests(tab) > sent);
        });
    }

    @Test
    void anIdlePageStopsSending() {
        onThePage(
                "{ const real = performance.now.bind(performance); let skipped = 0;"
                        + " performance.now = () => real() + skipped; window.skip = (minutes) => { skipped += minutes "
                        + "* 60000; }; }",
                tab -> {
                    tab.slide("load", 30);
                    tab.awaitThat("document.getElementById('by-REDIS').textContent > 0");
                    tab.ask("skip(4)");
                    tab.press("Shift", 16);
                    tab.ask("skip(4)");
                    tab.awaitMillis(2500);
                    assertThat(tab.text("rate")).isEqualTo("30");
                    tab.ask("skip(2)");
                    tab.awaitText("rate", "0");
                    tab.awaitText("load-note", "Sending stopped after five minutes");
                    tab.slide("load", 5);
                    tab.awaitText("rate", "5");
                    tab.awaitMillis(2500);
                    assertThat(tab.text("rate")).isEqualTo("5");
                });
    }

    @Test
    void atMostThreeRequestsAreInFlight() {
        onThePage(
                "{ const real = window.fetch; window.asked = 0; window.fetch = (url, options) => "
                        + "String(url).includes('hit')"
                        + " ? new Promise(() => window.asked++) : real(url, options); }",
                tab -> {
                    tab.slide("load", 60);
                    tab.awaitThat("window.asked === 3");
                    tab.awaitMillis(1000);
                    assertThat(tab.ask("window.asked").asInt()).isEqualTo(3);
                });
    }

    @Test
    void responsesAreShownAsTextOnly() {
        onThePage(
                "{ const real = window.fetch; const evil = '<img src=x onerror=\"window.hacked = true\">';"
                        + " window.fetch = (url, options) => String(url).includes('hit')"
                        + " ? Promise.resolve(new Response(evil, { headers: {"
                        + " 'RateLimit': '\"<b>\";r=1', 'RateLimit-Policy': evil, 'Decided-By': evil, 'Retry-After': "
                        + "evil } }))"
                        + " : real(url, options); }",
                tab -> {
                    tab.slide("load", 10);
                    tab.awaitText("response", "Retry-After: <img src=x onerror=");
                    assertThat(tab.is("document.querySelector('img, b b') !== null || window.hacked"))
                            .isFalse();
                });
    }

    @Test
    void theButtonsAreDisabledForAnotherRedis() {
        on(external.uri(), "", tab -> {
            tab.awaitText("redis", "the server of SPILLGATE_REDIS_URI. This server is yours");
            assertThat(tab.is("document.getElementById('stop').disabled && document.getElementById('start').disabled"))
                    .isTrue();
        });
    }

    /** The calculations of measure.js, with simple numbers. */
    @Test
    void measureCalculatesLoadAndSeconds() {
        onThePage(tab -> {
            assertMeasured(tab, """
                    const pace = new Pace();
                    const due = [0, 50, 100, 350, 400, 10400, 10450].map((now) => pace.due(20, now, 4));
                    return [due, pace.due(0, 10500, 4), pace.due(20, 10550, 4)]""", "[[0,1,1,4,1,4,1],0,1]");
            assertMeasured(tab, """
                    const pace = new Pace();
                    let sent = 0;
                    for (let now = 0; now <= 10000; now += 50) sent += pace.due(5, now, 4);
                    return sent""", "50");
            assertMeasured(tab, """
                    const seconds = new Seconds(2);
                    seconds.end('REDIS');
                    seconds.add(200, 1, 'REDIS'); seconds.add(429, 0, 'LOCAL'); seconds.add(503, null, null); seconds.end('REDIS');
                    seconds.end('LOCAL');
                    return seconds.past""", """
                    [{"allowed":1,"denied":1,"left":null,"sources":["LOCAL","REDIS"],"away":true},\
                    {"allowed":0,"denied":0,"left":null,"sources":[],"away":true}]""");
            assertMeasured(tab, """
                    return ['"a";r=3;t=10, "b";r=1', '"with \\\\"; r=9";r=0;q="x;y"', '"bare"', 'a;r=1', '', null].map(firstItem)""", """
                    [{"name":"a","r":3,"t":10},{"name":"with \\"; r=9","r":0,"q":"x;y"},{"name":"bare"},null,null,null]""");
            assertMeasured(tab, "return [0, 4, 5, 8, 9, 11, 60, 61, 99].map(top)", "[4,4,6,8,10,20,60,80,100]");
        });
    }

    private static void assertMeasured(Tab tab, String script, String expected) {
        JsonNode told = tab.ask(
                "import('/playground/measure.js').then(({ Pace, Seconds, firstItem, top }) => { " + script + " })");
        assertThat(told.toString()).isEqualTo(expected);
    }

    private static void onThePage(Consumer<Tab> test) {
        onThePage("", test);
    }

    private static void onThePage(String before, Consumer<Tab> test) {
        on(service.uri(), before, test);
    }

    private static void on(URI uri, String before, Consumer<Tab> test) {
        if (browser == null) {
            return;
        }
        try (Tab tab = browser.open()) {
            tab.before("performance.setResourceTimingBufferSize(100000);" + before);
            tab.goTo(uri.resolve("/"));
            test.accept(tab);
            assertThat(tab.complaints()).isEmpty();
        }
    }

    /** Returns the count of the browser, not of the page. */
    private static int requests(Tab tab) {
        return tab.ask("performance.getEntriesByType('resource').filter((one) => "
                        + "one.name.includes('/playground/hit/')).length")
                .asInt();
    }
}
