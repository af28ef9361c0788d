package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.WebSocketForTests;
import java.net.URI;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class RateLimitHandlerWebSocketTest extends HandlerFixture {

    private final Rules rules = Rules.of(
            local,
            RoutePaths.ofVertx(),
            List.of(LimiterForTests.address("messages", 100).build()));

    @Test
    void theRealCostOfASocketIsSettledWhenItIsClosed() throws Exception {
        start(router -> router.route("/metered")
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(ctx -> ctx.request().toWebSocket().onSuccess(socket -> {
                    AtomicInteger messages = new AtomicInteger();
                    socket.textMessageHandler(text -> {
                        RateLimitHandler.cost(ctx, "messages", messages.incrementAndGet());
                        socket.writeTextMessage(text);
                    });
                })));
        URI uri = URI.create("http://127.0.0.1:" + server.actualPort() + "/metered");
        try (WebSocketForTests socket = WebSocketForTests.open(uri)) {
            socket.say("one");
            socket.say("two");
            await().untilAsserted(() -> assertThat(socket.heard()).containsExactly("one", "two"));
            assertThat(used()).isEqualTo(1);
        }
        await().untilAsserted(() -> assertThat(used()).isEqualTo(2));
    }

    private long used() {
        return rules.peek("messages", "127.0.0.1").block().limits().get(0).used();
    }
}
