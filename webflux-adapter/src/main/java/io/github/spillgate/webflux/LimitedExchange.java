package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Problem;
import io.github.spillgate.http.Request;
import io.github.spillgate.http.ResponseFields;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.Verdicts;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** An exchange that is limited, by whatever asks: one web filter, both, and an annotation. */
final class Limited {

    private static final String ATTRIBUTE = Limited.class.getName();
    private static final int OK = 200;

    private final Verdicts verdicts = new Verdicts();
    private boolean tells;

    private Limited() {}

    static List<Decision> decisions(ServerWebExchange exchange) {
        Limited limited = exchange.getAttribute(ATTRIBUTE);
        return limited == null ? List.of() : limited.verdicts.decisions();
    }

    static Verdicts verdicts(ServerWebExchange exchange) {
        return of(exchange).verdicts;
    }

    /**
     * Decides on an exchange, and goes on with it where it is at home.
     *
     * @param asking asks the rules
     * @param denied goes on, if they deny
     * @param allowed goes on, if they do not
     */
    static <T> Mono<T> decide(
            ServerWebExchange exchange,
            RateLimitResponses responses,
            Function<Request, Mono<Verdict>> asking,
            Function<Problem, Mono<T>> denied,
            Supplier<Mono<T>> allowed) {
        return Mono.defer(() -> {
            // Before anybody is asked: where it is now.
            Home home = Home.of(exchange);
            return asking.apply(ExchangeRequest.of(exchange))
                    .flatMap(verdict -> home.goOn(
                            () -> note(exchange, verdict, responses).map(denied).orElseGet(allowed)));
        });
    }

    private static Optional<Problem> note(ServerWebExchange exchange, Verdict verdict, RateLimitResponses responses) {
        if (verdict.decision().isEmpty() && !verdict.dependsOnStatus()) {
            return verdict.problem();
        }
        Limited limited = of(exchange);
        if (!limited.tells) {
            limited.tells = true;
            ServerHttpResponse response = exchange.getResponse();
            response.beforeCommit(() -> {
                limited.verdicts.write(responses.headers(), new ExchangeFields(response.getHeaders()));
                HttpStatusCode status = response.getStatusCode();
                return limited.verdicts.completed(status == null ? OK : status.value());
            });
        }
        return limited.verdicts.note(verdict);
    }

    private static Limited of(ServerWebExchange exchange) {
        return (Limited) exchange.getAttributes().computeIfAbsent(ATTRIBUTE, name -> new Limited());
    }

    /** The fields of a response, as Spring keeps them. */
    private record ExchangeFields(HttpHeaders headers) implements ResponseFields {

        @Override
        public List<String> get(String name) {
            return headers.getOrEmpty(name);
        }

        @Override
        public void set(String name, String value) {
            headers.set(name, value);
        }
    }
}
