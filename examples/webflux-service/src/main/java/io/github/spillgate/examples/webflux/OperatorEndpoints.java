package io.github.spillgate.examples.webflux;

import java.nio.charset.StandardCharsets;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.http.MediaType;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.stereotype.Component;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import org.springframework.web.util.pattern.PathPattern;
import org.springframework.web.util.pattern.PathPatternParser;
import reactor.core.publisher.Mono;

/**
 * Restricts the Actuator to clients on this machine. The Actuator has no authentication, and can reset any key. Without
 * this filter, a page of another site could call it by DNS rebinding.
 */
@Component
@Order(Ordered.HIGHEST_PRECEDENCE + 1)
final class OperatorEndpoints implements WebFilter {

    /** A pattern like those of the endpoints, so that both match the same paths in any encoding. */
    private final PathPattern endpoints = PathPatternParser.defaultInstance.parse("/actuator/**");

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        if (!endpoints.matches(exchange.getRequest().getPath().pathWithinApplication())) {
            return chain.filter(exchange);
        }
        try {
            ThisMachine.checkRead(exchange);
        } catch (ResponseStatusException refused) {
            return refuse(exchange.getResponse(), refused);
        }
        return chain.filter(exchange);
    }

    private static Mono<Void> refuse(ServerHttpResponse response, ResponseStatusException refused) {
        byte[] why = (refused.getReason() + "\n").getBytes(StandardCharsets.UTF_8);
        response.setStatusCode(refused.getStatusCode());
        response.getHeaders().setContentType(MediaType.TEXT_PLAIN);
        response.getHeaders().setContentLength(why.length);
        return response.writeWith(
                Mono.fromSupplier(() -> response.bufferFactory().wrap(why)));
    }
}
