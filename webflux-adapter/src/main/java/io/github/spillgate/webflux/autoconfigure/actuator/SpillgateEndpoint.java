package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleLookupException;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.settings.PublishedLimits;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.Spelling;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpoint.LimitUsed;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpoint.Wrong;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.annotation.RegisterReflectionForBinding;
import org.springframework.boot.actuate.endpoint.Access;
import org.springframework.boot.actuate.endpoint.annotation.DeleteOperation;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;
import org.springframework.boot.actuate.endpoint.annotation.Selector;
import org.springframework.boot.actuate.endpoint.annotation.WriteOperation;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The Actuator endpoint {@code spillgate}. It reports the rules in force, from settings and {@code @RateLimited}, the
 * limiters of {@code spillgate.limiters}, and the store that decides. It also reports the usage of a key under a rule,
 * or in a limiter, such as {@code limiter:partner}. It resets usage, and publishes limits, only if {@code
 * management.endpoint.spillgate.access} is {@code unrestricted}.
 */
@Endpoint(id = "spillgate", defaultAccess = Access.READ_ONLY)
// Spring Boot finds only the result types that the signatures of the methods declare.
@RegisterReflectionForBinding({LimitUsed.class, Wrong.class})
public final class SpillgateEndpoint {

    private static final int LONGEST_ERROR = 200;

    private final boolean enabled;
    private final RateLimiter limiter;
    private final Map<String, RateLimiter> named;
    private final Rules rules;
    private final Supplier<List<Rule>> annotated;
    private final PublishedLimits published;

    SpillgateEndpoint(
            boolean enabled,
            RateLimiter limiter,
            Map<String, RateLimiter> named,
            Rules rules,
            Supplier<List<Rule>> annotated) {
        this.enabled = enabled;
        this.limiter = limiter;
        this.named = named;
        this.rules = rules;
        this.annotated = annotated;
        this.published = PublishedLimits.of(rules, named);
    }

    /**
     * Returns the rules in force and the store that decides.
     *
     * @return the overview
     */
    @ReadOperation
    public Overview overview() {
        StoreState state = limiter.state();
        return new Overview(
                enabled,
                state.source().name(),
                state.breaker().name(),
                state.problem().orElse(null),
                Stream.concat(
                                rules.list().stream().map(rule -> RuleInForce.of(rule, false)),
                                annotated.get().stream().map(rule -> RuleInForce.of(rule, true)))
                        .toList(),
                named.entrySet().stream().map(LimiterInForce::of).toList(),
                published.list());
    }

    /**
     * Returns the usage of the limits of a rule by a key; charges nothing.
     *
     * @param rule the name of the rule, or {@code limiter:} and that of a limiter
     * @param key the key, as the rule's key source finds it
     * @return the usage of each limit; or the error, with status 404 or 400, or 503 if a store or the lookup of the
     *     key's limits fails
     */
    @ReadOperation
    public Mono<WebEndpointResponse<?>> usage(@Selector String rule, @Nullable String key) {
        return whenKnown(
                rule,
                key,
                rules::peek,
                RateLimiter::peek,
                decisions -> decisions
                        .concatMapIterable(Decision::limits)
                        .map(LimitUsed::of)
                        .collectList()
                        .map(WebEndpointResponse::new));
    }

    /**
     * Publishes the limits of a rule, or of a limiter, in all instances that use the store.
     *
     * @param rule the name of the rule, or {@code limiter:} and that of a limiter
     * @param limits the limits, such as {@code 5/s, 100/1h}
     * @param shadow whether the rule only reports what it would deny; false by default
     * @param comment the reason; none by default
     * @param until when they end, such as {@code 2030-01-31T12:00:00Z}; in 30 days by default
     * @param version the version of the published value that they replace; 0, the default, if there is none
     * @return the published value with its version; or the error, with status 404 or 400, 409 with the present value if
     *     its version is another one, or 501 or 503 if the store cannot publish
     */
    @WriteOperation
    public Mono<WebEndpointResponse<?>> publish(
            @Selector String rule,
            @Nullable String limits,
            @Nullable String shadow,
            @Nullable String comment,
            @Nullable String until,
            @Nullable String version) {
        Map<String, @Nullable String> fields = new HashMap<>();
        fields.put("limits", limits);
        fields.put("shadow", shadow);
        fields.put("comment", comment);
        fields.put("until", until);
        fields.put("version", version);
        return published.publish(rule, fields).map(SpillgateEndpoint::response);
    }

    private static WebEndpointResponse<?> response(PublishedLimits.HttpReply reply) {
        return new WebEndpointResponse<>(reply.body().isEmpty() ? null : reply.body(), reply.status());
    }

    /**
     * Resets the limits of a rule for a key, or withdraws the published limits of a rule.
     *
     * @param rule the name of the rule, or {@code limiter:} and that of a limiter
     * @param key the key, as the rule's key source finds it
     * @param version instead of a key, the version of the published value to withdraw in all instances
     * @return status 204 after the change; or the error, with status 404 or 400, or 503 if a store or the lookup of the
     *     key's limits fails; for a version, as for {@link #publish}
     */
    @DeleteOperation
    public Mono<WebEndpointResponse<?>> reset(@Selector String rule, @Nullable String key, @Nullable String version) {
        if (version != null && key == null) {
            return published.unpublish(rule, version).map(SpillgateEndpoint::response);
        }
        if (version != null) {
            return wrong(
                    WebEndpointResponse.STATUS_BAD_REQUEST,
                    "there are both key and version: expected key, to reset its usage, or version, to withdraw the"
                            + " published limits, for example ?key=192.0.2.7");
        }
        return whenKnown(
                rule,
                key,
                rules::reset,
                RateLimiter::reset,
                resets -> resets.then().thenReturn(new WebEndpointResponse<>(WebEndpointResponse.STATUS_NO_CONTENT)));
    }

    /**
     * Does something for the key under the rule of that name, and under annotations of that name, or in a limiter.
     *
     * @param ofRule what to do under the rule, which may look up limits
     * @param ofCharge what to do under annotations and in a limiter, which have limits of their own only
     */
    private <T> Mono<WebEndpointResponse<?>> whenKnown(
            String rule,
            @Nullable String key,
            BiFunction<String, String, Mono<T>> ofRule,
            BiFunction<RateLimiter, Charge, Mono<T>> ofCharge,
            Function<Flux<T>, Mono<? extends WebEndpointResponse<?>>> response) {
        List<Rule> configured = rules.list();
        List<Rule> all =
                Stream.concat(configured.stream(), annotated.get().stream()).toList();
        // Annotations of several methods may have the same name. If their limits are equal, they share counts.
        List<List<Limit>> limits = all.stream()
                .filter(one -> one.name().equals(rule))
                .map(Rule::limits)
                .distinct()
                .toList();
        RateLimiter ofCode = rule.startsWith(PublishedLimits.LIMITER)
                ? named.get(rule.substring(PublishedLimits.LIMITER.length()))
                : null;
        if (limits.isEmpty() && ofCode == null) {
            return wrong(WebEndpointResponse.STATUS_NOT_FOUND, unknown(rule, all));
        }
        if (key == null || key.isEmpty()) {
            return wrong(
                    WebEndpointResponse.STATUS_BAD_REQUEST,
                    "the parameter key is missing: expected the key as it is stored, for example " + rule
                            + "?key=192.0.2.7 if the rule's key is address");
        }
        Flux<T> ofAnnotations = Flux.fromIterable(limits)
                .skip(configured.stream().anyMatch(one -> one.name().equals(rule)) ? 1 : 0)
                .concatMap(some -> ofCharge.apply(limiter, Charge.of(key, some)));
        return Mono.<WebEndpointResponse<?>>defer(() -> response.apply(
                        ofCode == null
                                ? Flux.concat(ofRule.apply(rule, key), ofAnnotations)
                                : ofCharge.apply(ofCode, Charge.of(key)).flux()))
                .onErrorResume(
                        IllegalArgumentException.class,
                        e -> wrong(WebEndpointResponse.STATUS_BAD_REQUEST, String.valueOf(e.getMessage())))
                .onErrorResume(
                        LimitStoreException.class,
                        e -> wrong(WebEndpointResponse.STATUS_SERVICE_UNAVAILABLE, String.valueOf(e.getMessage())))
                .onErrorResume(
                        RuleLookupException.class,
                        e -> wrong(WebEndpointResponse.STATUS_SERVICE_UNAVAILABLE, message(rule, e)));
    }

    private static String message(String rule, RuleLookupException failed) {
        Throwable cause = failed.getCause();
        return "rule " + rule + ": " + failed.getMessage()
                + (cause == null ? "" : ": " + Text.quote(cause.toString(), LONGEST_ERROR));
    }

    private String unknown(String rule, List<Rule> all) {
        if (!enabled) {
            return "the limiter is switched off, so no rule holds: expected spillgate.enabled=true";
        }
        List<String> names = Stream.concat(
                        all.stream().map(Rule::name).distinct(),
                        named.keySet().stream().map(PublishedLimits.LIMITER::concat))
                .toList();
        return "no rule has this name: "
                + (names.isEmpty()
                        ? "expected one of spillgate.rules, and there is none"
                        : Spelling.expected(rule, names));
    }

    static Mono<WebEndpointResponse<?>> wrongField(String field, Set<String> fields) {
        return wrong(
                WebEndpointResponse.STATUS_BAD_REQUEST,
                Text.quote(field) + " is not a field: " + Spelling.expected(field, fields));
    }

    private static Mono<WebEndpointResponse<?>> wrong(int status, String message) {
        return Mono.just(new WebEndpointResponse<>(new Wrong(message), status));
    }

    /**
     * The error of a request to the endpoint.
     *
     * @param message the error, and what was expected, with an example
     */
    public record Wrong(String message) {}

    /**
     * The rules in force and the store that decides.
     *
     * @param enabled whether requests are limited; false with {@code spillgate.enabled=false}
     * @param source the store that decides now, such as REDIS or LOCAL
     * @param breaker the state of the circuit breaker
     * @param problem the current problem of the store, if there is one
     * @param rules the rules
     * @param limiters the limiters of {@code spillgate.limiters}
     * @param published the published limits, by the names of rules and limiters; those in force replace the settings
     */
    public record Overview(
            boolean enabled,
            String source,
            String breaker,
            @Nullable String problem,
            List<RuleInForce> rules,
            List<LimiterInForce> limiters,
            Map<String, Object> published) {}

    /**
     * A limiter of {@code spillgate.limiters}.
     *
     * @param name the name in the settings
     * @param limits the limits
     */
    public record LimiterInForce(String name, List<String> limits) {

        static LimiterInForce of(Map.Entry<String, RateLimiter> named) {
            return new LimiterInForce(
                    named.getKey(),
                    named.getValue().limits().stream().map(Object::toString).toList());
        }
    }

    /**
     * A rule.
     *
     * @param name the name
     * @param phase the phase in which the rule is decided
     * @param paths the patterns of the paths that the rule applies to; none means all paths
     * @param excludePaths the patterns of the paths that the rule does not apply to
     * @param methods the methods that the rule applies to; none means all methods
     * @param key the key source, such as {@code header:X-Api-Key}
     * @param limits the limits of the rule
     * @param limitsFrom the name of the lookup of a key's limits, if there is one
     * @param cost the fixed number of permits of a request
     * @param costFrom the name of the lookup of a request's cost, if there is one
     * @param shadow whether the rule only decides and reports, and denies no request
     * @param annotation whether the rule is a {@code @RateLimited}, which applies to the annotated methods only
     */
    public record RuleInForce(
            String name,
            String phase,
            List<String> paths,
            List<String> excludePaths,
            List<String> methods,
            String key,
            List<String> limits,
            @Nullable String limitsFrom,
            long cost,
            @Nullable String costFrom,
            boolean shadow,
            boolean annotation) {

        static RuleInForce of(Rule rule, boolean annotation) {
            return new RuleInForce(
                    rule.name(),
                    rule.phase().name(),
                    rule.paths(),
                    rule.excludePaths(),
                    List.copyOf(rule.methods()),
                    rule.keyText(),
                    rule.limits().stream().map(Object::toString).toList(),
                    rule.limitsFrom().orElse(null),
                    rule.cost(),
                    rule.costFrom().orElse(null),
                    rule.isShadow(),
                    annotation);
        }
    }

    /**
     * The usage of a limit.
     *
     * @param limit the limit
     * @param used the number of permits in use
     * @param remaining the number of permits left
     * @param wholeAt the time when all permits are available again
     */
    public record LimitUsed(String limit, long used, long remaining, Instant wholeAt) {

        static LimitUsed of(Usage usage) {
            return new LimitUsed(usage.limit().toString(), usage.used(), usage.remaining(), usage.wholeAt());
        }
    }
}
