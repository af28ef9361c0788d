package io.github.spillgate.examples.webflux;

import io.github.spillgate.http.Rule;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** Costs of requests that do not always take one permit. Rules refer to these beans by name. */
@Configuration(proxyBeanMethods = false)
class Costs {

    /** One permit for each VAT number, because each is one lookup in the register. Other requests take one. */
    @Bean
    Rule.CostSource vatNumbers() {
        return match ->
                Mono.just(Math.max(1L, VatController.numbers(match.request()).size()));
    }

    /**
     * Nothing if a customer reads the usage, and one permit otherwise. Without a known key, reading the usage is
     * charged too: else a client could guess keys without limit.
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
