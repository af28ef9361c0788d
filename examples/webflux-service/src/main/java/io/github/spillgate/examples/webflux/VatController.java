package io.github.spillgate.examples.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.Source;
import io.github.spillgate.http.Rules;
import io.github.spillgate.webflux.ExchangeRequest;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.ModelAttribute;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** What the service does. Of limits it knows only how to tell of them. */
@RestController
@RequestMapping("/v1")
final class VatController {

    private static final Map<String, Integer> STANDARD_RATES = Map.of("AT", 20, "DE", 19, "FR", 20, "IE", 23, "NL", 21);

    private final Customers customers;
    private final Rules rules;

    VatController(Customers customers, Rules rules) {
        this.customers = customers;
        this.rules = rules;
    }

    /** Comes before all of them. */
    @ModelAttribute
    void authenticate(ServerWebExchange exchange) {
        List<String> values = exchange.getRequest().getHeaders().getOrEmpty(Customers.API_KEY);
        if (customers.known(values).isEmpty()) {
            throw new ResponseStatusException(
                    HttpStatus.UNAUTHORIZED, "expected the header X-Api-Key with a key that is known");
        }
    }

    /** Dear: the real one asks the register of a member state. */
    @PostMapping("/validate")
    Mono<Validation> validate(@RequestParam String number) {
        return Mono.just(new Validation(number, number.matches("[A-Z]{2}[0-9A-Z+*]{2,12}")));
    }

    @GetMapping("/rates")
    Mono<Map<String, Integer>> rates() {
        return Mono.just(STANDARD_RATES);
    }

    @GetMapping("/usage")
    Mono<Usage> usage(ServerWebExchange exchange) {
        return rules.peek(ExchangeRequest.of(exchange)).map(Usage::of);
    }

    record Validation(String number, boolean valid) {}

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
