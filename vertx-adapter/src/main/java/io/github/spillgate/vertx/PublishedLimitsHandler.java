package io.github.spillgate.vertx;

import io.github.spillgate.http.settings.PublishedLimits;
import io.github.spillgate.http.settings.PublishedLimits.HttpReply;
import io.vertx.core.Handler;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpHeaders;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.json.DecodeException;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.RequestBody;
import io.vertx.ext.web.RoutingContext;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** Reads, publishes and withdraws limits for all instances. The application adds it behind its authentication. */
final class PublishedLimitsHandler implements Handler<RoutingContext> {

    private static final int LARGEST_BODY = 8_192;

    private final Vertx vertx;
    private final PublishedLimits limits;

    PublishedLimitsHandler(Vertx vertx, PublishedLimits limits) {
        this.vertx = vertx;
        this.limits = limits;
    }

    @Override
    public void handle(RoutingContext ctx) {
        ContextDelivery.future(vertx, reply(ctx))
                .onSuccess(reply -> write(ctx, reply))
                .onFailure(ctx::fail);
    }

    private Mono<HttpReply> reply(RoutingContext ctx) {
        HttpMethod method = ctx.request().method();
        if (method.equals(HttpMethod.GET)) {
            return Mono.just(new HttpReply(200, limits.list()));
        }
        List<String> rules = ctx.queryParam("rule");
        if (rules.size() != 1) {
            return wrong(400, "the parameter rule is missing: expected the name of a rule, for example ?rule=login");
        }
        if (method.equals(HttpMethod.DELETE)) {
            return limits.unpublish(
                    rules.get(0), ctx.queryParam("version").stream().findFirst().orElse(null));
        }
        return method.equals(HttpMethod.POST) ? publish(ctx, rules.get(0)) : wrong(405, "expected GET, POST or DELETE");
    }

    private Mono<HttpReply> publish(RoutingContext ctx, String rule) {
        // A page of another site cannot send this type without a preflight.
        String type = ctx.request().getHeader(HttpHeaders.CONTENT_TYPE);
        if (type == null || !type.matches("(?i)application/json\\s*(;.*)?")) {
            return wrong(415, "expected Content-Type: application/json");
        }
        RequestBody body = ctx.body();
        if (!body.available()) {
            throw new IllegalStateException("the body was not read: expected a BodyHandler before this handler");
        }
        if (body.length() > LARGEST_BODY) {
            return wrong(413, "the body has " + body.length() + " bytes: expected at most " + LARGEST_BODY);
        }
        return fields(body)
                .map(fields -> limits.publish(rule, fields))
                .orElseGet(() -> wrong(400, "expected a JSON object, for example {\"limits\": \"3/15m\"}"));
    }

    private static Optional<Map<String, @Nullable String>> fields(RequestBody body) {
        try {
            JsonObject json = body.asJsonObject();
            if (json == null) {
                return Optional.empty();
            }
            Map<String, @Nullable String> fields = new HashMap<>();
            json.forEach(field -> fields.put(field.getKey(), text(field.getValue())));
            return Optional.of(fields);
        } catch (DecodeException | ClassCastException e) {
            return Optional.empty();
        }
    }

    private static @Nullable String text(@Nullable Object value) {
        if (value instanceof JsonArray several) {
            return several.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
        return value == null ? null : value.toString();
    }

    private static Mono<HttpReply> wrong(int status, String message) {
        return Mono.just(new HttpReply(status, Map.of("message", message)));
    }

    private static void write(RoutingContext ctx, HttpReply reply) {
        ctx.response().setStatusCode(reply.status());
        if (reply.status() == 204) {
            ctx.end();
        } else {
            ctx.json(new JsonObject(reply.body()));
        }
    }
}
