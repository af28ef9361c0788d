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
 * What answers say beside what the limiter says: what a page may do, and where it was decided. All answers, because the
 * page has more names than one ({@code /%69ndex.html}, {@code //index.html}).
 */
@Component
// Around the limiter's filter, which answers by itself to those whom it denies.
@Order(Ordered.HIGHEST_PRECEDENCE)
final class AnswerHeaders implements WebFilter {

    /**
     * Nothing from anywhere else, no script in the page itself; and no other page may have this one in a frame, under
     * something that one would rather click.
     */
    private static final String WHAT_THE_PAGE_MAY =
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
                    + " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        exchange.getResponse().beforeCommit(() -> Mono.fromRunnable(() -> write(exchange)));
        return chain.filter(exchange);
    }

    private static void write(ServerWebExchange exchange) {
        HttpHeaders headers = exchange.getResponse().getHeaders();
        headers.set("Content-Security-Policy", WHAT_THE_PAGE_MAY);
        headers.set("X-Content-Type-Options", "nosniff");
        headers.set("Referrer-Policy", "same-origin");
        headers.setCacheControl("no-store");
        if (!Schedulers.isInNonBlockingThread()) {
            // From such a thread Spring Boot answers with the page, and we when Redis has been stopped. After that
            // Reactor Netty up to 1.3.7 may leave the next request on the connection unread, and a browser waits for it
            // (reactor/reactor-netty#4361).
            headers.setConnection("close");
        }
        RateLimitResponses.decisions(exchange).stream()
                .map(Decision::source)
                .forEach(source -> headers.add("Decided-By", source.name()));
    }
}
