package io.github.spillgate.vertx;

import io.github.spillgate.http.Request;
import io.github.spillgate.http.RequestVerdicts;
import io.netty.handler.codec.http.cookie.Cookie;
import io.netty.handler.codec.http.cookie.ServerCookieDecoder;
import io.vertx.core.net.SocketAddress;
import io.vertx.ext.auth.User;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.HttpException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** The {@link Request} of a Vert.x Web routing context. */
final class RoutingRequest implements Request {

    private final RoutingContext ctx;

    RoutingRequest(RoutingContext ctx) {
        this.ctx = ctx;
    }

    @Override
    public String method() {
        return ctx.request().method().name();
    }

    @Override
    public String path() {
        return ctx.normalizedPath();
    }

    /**
     * Returns the address of the connection. The remote address of the request may come from a header that any client
     * can write.
     */
    @Override
    public @Nullable String peer() {
        SocketAddress peer = ctx.request().connection().remoteAddress();
        return peer == null ? null : peer.hostAddress();
    }

    @Override
    public List<String> headers(String name) {
        return ctx.request().headers().getAll(name);
    }

    @Override
    public List<String> queryParameters(String name) {
        try {
            return ctx.queryParam(name);
        } catch (HttpException e) {
            // A query that cannot be decoded has no parameters; an error here would bypass the limit.
            return List.of();
        }
    }

    /**
     * Returns the cookies that the client has sent. Vert.x keeps one cookie per name, and mixes them with those that
     * the response sets.
     */
    @Override
    public List<String> cookies(String name) {
        return headers("Cookie").stream()
                .flatMap(line -> ServerCookieDecoder.STRICT.decodeAll(line).stream())
                .filter(cookie -> cookie.name().equals(name))
                .map(Cookie::value)
                .toList();
    }

    @Override
    public Map<String, String> pathVariables() {
        return ctx.pathParams();
    }

    @Override
    public Mono<String> principal() {
        User user = ctx.user();
        // A user without a subject is authenticated too, so its requests do not count as unauthenticated.
        return user == null ? Mono.empty() : Mono.just(Objects.requireNonNullElse(user.subject(), ""));
    }

    @Override
    public Optional<String> attribute(String name) {
        Object value = ctx.get(name);
        return Optional.ofNullable(value).map(Object::toString);
    }

    @Override
    public RequestVerdicts verdicts() {
        return LimitedRequest.verdicts(ctx);
    }

    @Override
    public <T> T as(Class<T> type) {
        if (!type.isInstance(ctx)) {
            throw new IllegalArgumentException(
                    "a request of Vert.x Web is not a " + type.getName() + ": expected RoutingContext.class");
        }
        return type.cast(ctx);
    }
}
