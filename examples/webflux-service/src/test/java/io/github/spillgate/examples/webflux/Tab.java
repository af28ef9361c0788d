package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import tools.jackson.databind.JsonNode;

/** A tab of a {@link Browser}, with methods for its mouse and keyboard. */
final class Tab implements AutoCloseable {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final Browser browser;
    private final String target;
    private final String session;
    private final Queue<String> complaints = new ConcurrentLinkedQueue<>();

    Tab(Browser browser, String target, String session) {
        this.browser = browser;
        this.target = target;
        this.session = session;
        browser.listen(session, this::heard);
        call("Runtime.enable", Map.of());
        call("Log.enable", Map.of());
        call("Page.enable", Map.of());
    }

    JsonNode call(String method, Map<String, ?> parameters) {
        return browser.call(session, method, parameters);
    }

    /**
     * Returns errors and warnings: of scripts, of the security policy, and of missing resources. Denied requests do not
     * count.
     */
    List<String> complaints() {
        return List.copyOf(complaints);
    }

    private void heard(JsonNode event) {
        JsonNode told = event.path("params");
        switch (event.path("method").asString("")) {
            case "Runtime.exceptionThrown" -> complaints.add(told.toString());
            case "Runtime.consoleAPICalled" -> {
                if (List.of("error", "warning", "assert")
                        .contains(told.path("type").asString(""))) {
                    complaints.add(told.toString());
                }
            }
            case "Log.entryAdded" -> {
                JsonNode entry = told.path("entry");
                boolean isDenial = entry.path("source").asString("").equals("network")
                        && entry.path("text").asString("").contains("status of 429");
                if (!isDenial
                        && List.of("error", "warning")
                                .contains(entry.path("level").asString(""))) {
                    complaints.add(entry.toString());
                }
            }
            default -> {
                // Not relevant here.
            }
        }
    }

    /** Runs a script before the scripts of a page. */
    void before(String script) {
        call("Page.addScriptToEvaluateOnNewDocument", Map.of("source", script));
    }

    void goTo(URI uri) {
        call("Page.navigate", Map.of("url", uri.toString()));
        // The previous page may still be there, and then go away with its pending calls.
        await().atMost(PATIENCE)
                .ignoreExceptions()
                .until(() -> is("document.readyState === 'complete' && location.href === '" + uri + "'"));
    }

    /** Returns the value of an expression, or of its promise. */
    JsonNode ask(String expression) {
        JsonNode told =
                call("Runtime.evaluate", Map.of("expression", expression, "awaitPromise", true, "returnByValue", true));
        if (told.has("exceptionDetails")) {
            throw new IllegalStateException(expression + ": " + told.get("exceptionDetails"));
        }
        return told.path("result").path("value");
    }

    boolean is(String expression) {
        return ask("!!(" + expression + ")").asBoolean();
    }

    String text(String id) {
        return ask("document.getElementById('" + id + "').textContent").asString();
    }

    void awaitThat(String expression) {
        await(expression).atMost(PATIENCE).until(() -> is(expression));
    }

    /** Waits on the page, to show that nothing happens. */
    void awaitMillis(int millis) {
        ask("new Promise((resolve) => setTimeout(resolve, " + millis + "))");
    }

    void awaitText(String id, String expected) {
        await(id + " to say " + expected)
                .atMost(PATIENCE)
                .untilAsserted(() -> assertThat(text(id)).contains(expected));
    }

    void click(String id) {
        JsonNode at =
                ask("(() => { const it = document.getElementById('" + id + "'); it.scrollIntoView({ block: 'center' });"
                        + " const box = it.getBoundingClientRect();"
                        + " return { x: box.x + box.width / 2, y: box.y + box.height / 2 }; })()");
        for (String type : List.of("mousePressed", "mouseReleased")) {
            call(
                    "Input.dispatchMouseEvent",
                    Map.of(
                            "type",
                            type,
                            "x",
                            at.get("x").asDouble(),
                            "y",
                            at.get("y").asDouble(),
                            "button",
                            "left",
                            "clickCount",
                            1));
        }
    }

    /** Presses a key, such as {@code ArrowRight}, with its key code on Windows, which browsers use. */
    void press(String key, int code) {
        for (String type : List.of("rawKeyDown", "keyUp")) {
            call(
                    "Input.dispatchKeyEvent",
                    Map.of("type", type, "key", key, "code", key, "windowsVirtualKeyCode", code));
        }
    }

    /** Moves a slider, as by touch. */
    void slide(String id, int value) {
        ask("(() => { const it = document.getElementById('" + id + "'); it.value = " + value
                + "; it.dispatchEvent(new Event('input', { bubbles: true })); })()");
    }

    /** Opens another tab over this one, in the same window. */
    Tab cover() {
        Tab over = browser.open(false);
        over.call("Page.bringToFront", Map.of());
        return over;
    }

    void size(int width, int height, double scale) {
        call(
                "Emulation.setDeviceMetricsOverride",
                Map.of("width", width, "height", height, "deviceScaleFactor", scale, "mobile", width < 600));
    }

    void prefer(String feature, String value) {
        call("Emulation.setEmulatedMedia", Map.of("features", List.of(Map.of("name", feature, "value", value))));
    }

    @Override
    public void close() {
        browser.call(null, "Target.closeTarget", Map.of("targetId", target));
    }
}
