package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.github.spillgate.http.WrongSettingException;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import org.junit.jupiter.api.Test;

/** Wrong settings: the message names the setting and its value, but no password. */
class RateLimitOptionsErrorTest extends HandlerFixture {

    @Test
    void aNumberThatIsTooLargeIsNotAnotherNumber() {
        JsonObject json =
                new JsonObject("{\"name\": \"x\", \"store\": \"local\", \"local\": {\"counts\": 4294967297}}");
        Throwable told = catchThrowable(() -> new RateLimitOptions(json));
        assertThat(told).isInstanceOf(WrongSettingException.class);
    }

    @Test
    void aPasswordThatInvalidatesTheUriIsHidden() {
        RateLimitOptions options = new RateLimitOptions(new JsonObject()
                .put("name", "x")
                .put("redis", new JsonObject().put("uri", "redis://:hunter2^x@localhost:6379")));
        Throwable told = catchThrowable(() -> RateLimiting.of(vertx, options).start());
        assertThat(told).isInstanceOf(WrongSettingException.class);
        java.io.StringWriter log = new java.io.StringWriter();
        told.printStackTrace(new java.io.PrintWriter(log));
        assertThat(log.toString()).doesNotContain("hunter2");
    }

    @Test
    void aPasswordWithAnAtSignIsHidden() {
        RateLimitOptions options = new RateLimitOptions(new JsonObject()
                .put("name", "x")
                .put("redis", new JsonObject().put("uri", "http://u:a@hunter2@localhost:6379")));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options).start())
                .isInstanceOfSatisfying(
                        WrongSettingException.class,
                        e -> assertThat(e.getMessage() + e.value()).doesNotContain("hunter2"));
    }

    @Test
    void aMalformedSettingIsReportedWithItsValue() {
        assertThatThrownBy(() -> new RateLimitOptions(new JsonObject().put("deadline", "soon")))
                .hasMessageContaining("soon");
    }

    @Test
    void aDeadlineOutOfRangeIsReportedAsASetting() {
        RateLimitOptions options = new RateLimitOptions(new JsonObject()
                .put("name", "x")
                .put("redis", new JsonObject().put("uri", "redis://localhost"))
                .put("deadline", Long.MAX_VALUE));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options).start()).isInstanceOf(WrongSettingException.class);
    }

    @Test
    void aPathThatARouteRejectsIsRejected() {
        assertThatThrownBy(() -> Router.router(vertx).route("/users/:").handler(RoutingContext::next))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> RoutePaths.ofVertx().compile("/users/:")).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void aPathInSpringSyntaxIsRejected() {
        assertThatThrownBy(() -> RoutePaths.ofVertx().compile("/users/{id}"))
                .isInstanceOf(IllegalArgumentException.class);
    }
}
