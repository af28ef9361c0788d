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

/** The customers and their plans: a small table, in place of a database. */
@Component
final class Customers implements KeySource, Rule.LimitSource {

    private static final String API_KEY = "X-Api-Key";

    private final Table table;

    Customers(Table table) {
        this.table = table;
    }

    /** Returns the API key of a request if it is the key of a customer. */
    Optional<String> apiKey(Request request) {
        List<String> values = request.headers(API_KEY);
        return values.size() == 1 ? Optional.of(values.get(0)).filter(table.keys()::containsKey) : Optional.empty();
    }

    /** Returns known keys only: an invented key uses neither the quota of a customer nor memory. */
    @Override
    public Mono<String> find(RuleMatch match) {
        return Mono.justOrEmpty(apiKey(match.request()));
    }

    /** Looks up the key of the request, because {@code hashedKey} is only its HMAC. */
    @Override
    public Mono<List<Limit>> find(RuleMatch match, String hashedKey) {
        return Mono.justOrEmpty(apiKey(match.request())
                .map(table.keys()::get)
                .map(table.plans()::get)
                .map(List::of));
    }

    /**
     * The table of customers, from the settings.
     *
     * @param plans how much each plan grants
     * @param keys the plan of each API key
     */
    @ConfigurationProperties("customers")
    record Table(Map<String, Limit> plans, Map<String, String> keys) {}
}
