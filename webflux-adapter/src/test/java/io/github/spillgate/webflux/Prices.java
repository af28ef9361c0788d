package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import org.springframework.context.annotation.Bean;
import org.springframework.http.MediaType;
import org.springframework.http.codec.ServerSentEvent;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Server-sent events that are limited, as docs/websockets-and-grpc.md shows them. */
@RestController
class Prices {

    private final RateLimiter limiter;
    private final Flux<String> prices;

    Prices(RateLimiter limiter, Flux<String> prices) {
        this.limiter = limiter;
        this.prices = prices;
    }

    @GetMapping(path = "/prices", produces = MediaType.TEXT_EVENT_STREAM_VALUE)
    Flux<ServerSentEvent<String>> prices(@RequestParam String customer) {
        return prices.transform(limiter.throttle("prices:" + customer))
                .map(price -> ServerSentEvent.builder(price)
                        .retry(Duration.ofSeconds(5))
                        .build());
    }

    @Bean
    static DenialWriter denials() {
        DenialWriter others = DenialWriter.ofProblem();
        return (exchange, problem) -> {
            if (!exchange.getRequest().getHeaders().getAccept().contains(MediaType.TEXT_EVENT_STREAM)) {
                return others.write(exchange, problem);
            }
            Duration wait = RateLimitResponses.decisions(exchange).stream()
                    .map(Decision::retryAfter)
                    .flatMap(Optional::stream)
                    .max(Comparator.naturalOrder())
                    .orElse(Duration.ofMinutes(5));
            ServerHttpResponse response = exchange.getResponse();
            response.getHeaders().setContentType(MediaType.TEXT_EVENT_STREAM);
            response.getHeaders().setCacheControl("no-store");
            byte[] body = ("retry: " + wait.toMillis() + "\n\n").getBytes(StandardCharsets.UTF_8);
            return response.writeWith(
                    Mono.fromSupplier(() -> response.bufferFactory().wrap(body)));
        };
    }
}
