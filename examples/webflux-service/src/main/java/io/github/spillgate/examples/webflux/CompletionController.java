package io.github.spillgate.examples.webflux;

import io.github.spillgate.http.Request;
import io.github.spillgate.http.Rule;
import io.github.spillgate.webflux.ExchangeRequest;
import io.github.spillgate.webflux.RateLimitResponses;
import java.util.concurrent.atomic.AtomicLong;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * A streaming endpoint of which the cost in tokens is known only at the end. The rule {@code tokens} reserves an
 * estimate before this class is called; each token that the client gets is then counted.
 */
@RestController
final class CompletionController {

    static final String COMPLETIONS = "/v1/completions";

    private static final int LONGEST = 500;

    private final Customers customers;
    private final FakeModel model;

    CompletionController(Customers customers, FakeModel model) {
        this.customers = customers;
        this.model = model;
    }

    @GetMapping(path = COMPLETIONS, produces = MediaType.TEXT_EVENT_STREAM_VALUE)
    Flux<String> complete(@RequestParam int words, ServerWebExchange exchange) {
        Request request = ExchangeRequest.of(exchange);
        if (customers.apiKey(request).isEmpty()) {
            throw new ResponseStatusException(
                    HttpStatus.UNAUTHORIZED, "expected the header X-Api-Key with a known key");
        }
        if (words < 1 || words > LONGEST) {
            throw new ResponseStatusException(
                    HttpStatus.BAD_REQUEST, "expected words=1 to " + LONGEST + ", for example ?words=40");
        }
        AtomicLong tokens = new AtomicLong(promptTokens(request));
        RateLimitResponses.cost(exchange, "tokens", tokens.get());
        return model.generate(words)
                .doOnNext(token -> RateLimitResponses.cost(exchange, "tokens", tokens.incrementAndGet()));
    }

    private static long promptTokens(Request request) {
        return request.queryParameters("prompt").stream()
                .mapToLong(prompt -> prompt.split(" ", -1).length)
                .sum();
    }

    /** The estimates of rules. They refer to these beans by name. */
    @Configuration(proxyBeanMethods = false)
    static class Estimates {

        private static final long ANSWER = 50;

        /** The tokens of the prompt, which are known, and a typical answer. */
        @Bean
        Rule.CostSource estimatedTokens() {
            return match -> Mono.just(promptTokens(match.request()) + ANSWER);
        }
    }
}
