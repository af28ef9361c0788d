package io.github.spillgate.examples.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.webflux.RateLimitResponses;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpHeaders;
import org.springframework.stereotype.Component;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Adds header fields to every response: the security policy of the page, and which store decided. Every response gets
 * them, because the page has several paths ({@code /%69ndex.html}, {@code //index.html}).
 */
@Component
// Runs before the filter of the limiter, which ends the exchange when it denies a request.
@Order(Ordered.HIGHEST_PRECEDENCE)
final class ResponseHeaders implements WebFilter {

    /**
     * Allows no other origin and no inline script. No other page may embed this one in a frame, which prevents
     * clickjacking.
     */
    private static final String CONTENT_SECURITY_POLICY =
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
                    + " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        exchange.getResponse().beforeCommit(() -> Mono.fromRunnable(() -> write(exchange)));
        return chain.filter(exchange);
    }

    private static void write(ServerWebExchange exchange) {
        HttpHeaders headers = exchange.getResponse().getHeaders();
        headers.set("Content-Security-Policy", CONTENT_SECURITY_POLICY);
        headers.set("X-Content-Type-Options", "nosniff");
        headers.set("Referrer-Policy", "same-origin");
        headers.setCacheControl("no-store");
        if (!Schedulers.isInNonBlockingThread()) {
            // Spring Boot serves the page on a blocking thread, and we respond on one after stopping Redis. Reactor
            // Netty up to 1.3.7 may then leave the next request on the connection unread (reactor/reactor-netty#4361).
            headers.setConnection("close");
        }
        RateLimitResponses.decisions(exchange).stream()
                .map(Decision::source)
                .forEach(source -> headers.add("Decided-By", source.name()));
    }
}
