package io.github.spillgate.examples.webflux;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Request;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleMatch;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.stereotype.Component;
import reactor.core.publisher.Mono;

/** Who may use the service, and by which plan: a small table where another service has its database. */
@Component
final class Customers implements KeySource, Rule.LimitSource {

    private static final String API_KEY = "X-Api-Key";

    private final Table table;

    Customers(Table table) {
        this.table = table;
    }

    /** Returns the API key that a request shows, if it is one that we have given to somebody. */
    Optional<String> apiKey(Request request) {
        List<String> values = request.headers(API_KEY);
        return values.size() == 1 ? Optional.of(values.get(0)).filter(table.keys()::containsKey) : Optional.empty();
    }

    /** Only keys that are known are charged: whoever makes some up uses up nobody's quota, and no memory. */
    @Override
    public Mono<String> find(RuleMatch match) {
        return Mono.justOrEmpty(apiKey(match.request()));
    }

    /** Asks the request and not the rule's key, of which only the HMAC is told here. */
    @Override
    public Mono<List<Limit>> find(RuleMatch match, String hashedKey) {
        return Mono.justOrEmpty(apiKey(match.request())
                .map(table.keys()::get)
                .map(table.plans()::get)
                .map(List::of));
    }

    /**
     * The table, from the settings.
     *
     * @param plans how much each plan grants
     * @param keys the plan of each API key
     */
    @ConfigurationProperties("customers")
    record Table(Map<String, Limit> plans, Map<String, String> keys) {}
}
