package io.github.spillgate.examples.webflux;

import io.github.spillgate.http.Rule;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** How many permits a request takes, where it is not always one. Rules name these beans. */
@Configuration(proxyBeanMethods = false)
class Costs {

    /** As many as it asks about, because the register is asked once for each; anything else takes one. */
    @Bean
    Rule.CostSource vatNumbers() {
        return match ->
                Mono.just(Math.max(1L, VatController.numbers(match.request()).size()));
    }

    /**
     * A customer looks at his usage for nothing. Who shows no key that is known pays for that too: else one could try
     * keys without end.
     */
    @Bean
    Rule.CostSource freeLooks(Customers customers) {
        return match -> {
            String path = match.request()
                    .as(ServerWebExchange.class)
                    .getRequest()
                    .getPath()
                    .value();
            boolean isFree = path.equals(VatController.USAGE)
                    && customers.apiKey(match.request()).isPresent();
            return Mono.just(isFree ? 0L : 1L);
        };
    }
}
