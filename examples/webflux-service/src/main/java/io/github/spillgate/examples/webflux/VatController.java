package io.github.spillgate.examples.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.Source;
import io.github.spillgate.http.Request;
import io.github.spillgate.http.Rules;
import io.github.spillgate.webflux.ExchangeRequest;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.ModelAttribute;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The endpoints of the service. Of the limits, they only report the usage. */
@RestController
final class VatController {

    static final String USAGE = "/v1/usage";

    private static final Map<String, Integer> STANDARD_RATES = Map.of("AT", 20, "DE", 19, "FR", 20, "IE", 23, "NL", 21);

    private final Customers customers;
    private final Rules rules;

    VatController(Customers customers, Rules rules) {
        this.customers = customers;
        this.rules = rules;
    }

    /** Rejects a request without a known API key, before every endpoint. */
    @ModelAttribute
    void authenticate(ServerWebExchange exchange) {
        if (customers.apiKey(ExchangeRequest.of(exchange)).isEmpty()) {
            throw new ResponseStatusException(
                    HttpStatus.UNAUTHORIZED, "expected the header X-Api-Key with a known key");
        }
    }

    /** Validates VAT numbers. Expensive: a real service queries the register of a member state once for each number. */
    @PostMapping("/v1/validate")
    Flux<Validation> validate(ServerWebExchange exchange) {
        List<String> numbers = numbers(ExchangeRequest.of(exchange));
        if (numbers.isEmpty()) {
            throw new ResponseStatusException(
                    HttpStatus.BAD_REQUEST, "expected at least one number, for example ?number=FI12345678");
        }
        return Flux.fromIterable(numbers).map(Validation::of);
    }

    /**
     * Returns the VAT numbers of a request. {@link Costs} uses this method too, so that each number is charged: Spring
     * would split a converted parameter at commas, and validate many numbers at the cost of one.
     */
    static List<String> numbers(Request request) {
        return request.queryParameters("number");
    }

    @GetMapping("/v1/rates")
    Mono<Map<String, Integer>> rates() {
        return Mono.just(STANDARD_RATES);
    }

    @GetMapping(USAGE)
    Mono<Usage> usage(ServerWebExchange exchange) {
        return rules.peek(ExchangeRequest.of(exchange)).map(Usage::of);
    }

    record Validation(String number, boolean valid) {

        static Validation of(String number) {
            return new Validation(number, number.matches("[A-Z]{2}[0-9A-Z+*]{2,12}"));
        }
    }

    record Usage(Source source, List<Tier> tiers) {

        static Usage of(Decision decision) {
            return new Usage(
                    decision.source(), decision.limits().stream().map(Tier::of).toList());
        }
    }

    record Tier(String name, long permits, long used, long remaining, Instant wholeAt) {

        static Tier of(Decision.Usage usage) {
            return new Tier(
                    usage.limit().name(), usage.limit().permits(), usage.used(), usage.remaining(), usage.wholeAt());
        }
    }
}
