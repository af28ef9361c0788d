package io.github.spillgate.webflux;

import io.github.spillgate.http.Request;
import io.github.spillgate.http.RequestVerdicts;
import io.netty.channel.Channel;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.security.Principal;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpCookie;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * The {@link Request} of a WebFlux exchange. The filters create it themselves; use it for queries of your own.
 *
 * <pre>{@code
 * rules.peek(ExchangeRequest.of(exchange))    // what the client has left under each rule
 * }</pre>
 */
public final class ExchangeRequest implements Request {

    private static final String ANONYMOUS = "org.springframework.security.authentication.AnonymousAuthenticationToken";

    /** The matrix parameters of a segment. */
    private static final Pattern PARAMETERS = Pattern.compile(";[^/]*");

    private final ServerWebExchange exchange;

    private ExchangeRequest(ServerWebExchange exchange) {
        this.exchange = exchange;
    }

    /**
     * Returns the request of an exchange.
     *
     * @param exchange the exchange
     * @return the request
     */
    public static ExchangeRequest of(ServerWebExchange exchange) {
        return new ExchangeRequest(Objects.requireNonNull(
                exchange, "exchange is null: expected the one that a filter or a handler is given"));
    }

    @Override
    public String method() {
        return exchange.getRequest().getMethod().name();
    }

    /** Returns the path without matrix parameters, which Spring's patterns ignore. */
    @Override
    public String path() {
        String path = exchange.getRequest().getPath().pathWithinApplication().value();
        return path.indexOf(';') < 0 ? path : PARAMETERS.matcher(path).replaceAll("");
    }

    /**
     * Returns, with Reactor Netty, the remote address of the connection, not that of the request. The latter may come
     * from the client's end of a forwarding header, which Spring Boot evaluates by default on Kubernetes.
     */
    @Override
    public @Nullable String peer() {
        Channel channel = NettyConnection.of(exchange.getRequest());
        SocketAddress socket = channel == null ? remoteAddress() : NettyConnection.peer(channel);
        if (!(socket instanceof InetSocketAddress peer)) {
            return null;
        }
        InetAddress address = peer.getAddress();
        // Do not resolve the address: a lookup would block.
        return address == null ? peer.getHostString() : address.getHostAddress();
    }

    private @Nullable SocketAddress remoteAddress() {
        try {
            return exchange.getRequest().getRemoteAddress();
        } catch (IllegalArgumentException | IllegalStateException e) {
            // On Tomcat, a request has no address once its client has disconnected; an error would bypass the limit.
            return null;
        }
    }

    @Override
    public List<String> headers(String name) {
        return exchange.getRequest().getHeaders().getOrEmpty(name);
    }

    @Override
    public List<String> queryParameters(String name) {
        List<@Nullable String> values = exchange.getRequest().getQueryParams().getOrDefault(name, List.of());
        // For "?a" without an equals sign Spring returns null.
        return values.stream().map(value -> value == null ? "" : value).toList();
    }

    @Override
    public List<String> cookies(String name) {
        List<HttpCookie> cookies = exchange.getRequest().getCookies().get(name);
        return cookies == null
                ? List.of()
                : cookies.stream().map(HttpCookie::getValue).toList();
    }

    @Override
    public Map<String, String> pathVariables() {
        Map<String, String> ofMapping = exchange.getAttribute(HandlerMapping.URI_TEMPLATE_VARIABLES_ATTRIBUTE);
        return ofMapping != null
                ? ofMapping
                : exchange.getAttributeOrDefault(RouterFunctions.URI_TEMPLATE_VARIABLES_ATTRIBUTE, Map.of());
    }

    @Override
    public Mono<String> principal() {
        return exchange.getPrincipal().filter(ExchangeRequest::isAuthenticated).map(ExchangeRequest::name);
    }

    /** A principal without a name is authenticated too, so its requests do not count as unauthenticated. */
    private static String name(Principal principal) {
        return Objects.requireNonNullElse(principal.getName(), "");
    }

    /** Spring Security's anonymous principal, one name for all clients, is not authenticated. */
    private static boolean isAuthenticated(Principal principal) {
        return !principal.getClass().getName().equals(ANONYMOUS);
    }

    @Override
    public RequestVerdicts verdicts() {
        return LimitedExchange.verdicts(exchange);
    }

    @Override
    public Optional<String> attribute(String name) {
        Object value = exchange.getAttribute(name);
        return Optional.ofNullable(value).map(Object::toString);
    }

    /**
     * Returns to the event loop if the request was there. A response written on another thread may leave the next
     * request unread; see ExchangeThread.
     */
    @Override
    public <T> Mono<T> onRequestThread(Mono<T> result) {
        return Mono.defer(() -> {
            ExchangeThread thread = ExchangeThread.of(exchange);
            return result.materialize()
                    .flatMap(signal -> thread.run(() -> Mono.just(signal)))
                    .dematerialize();
        });
    }

    @Override
    public <T> T as(Class<T> type) {
        if (!type.isInstance(exchange)) {
            throw new IllegalArgumentException(
                    "a request of WebFlux is not a " + type.getName() + ": expected ServerWebExchange.class");
        }
        return type.cast(exchange);
    }
}
