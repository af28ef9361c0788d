package io.github.spillgate.http.settings;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.fleet.Publication;
import io.github.spillgate.fleet.PublicationConflictException;
import io.github.spillgate.http.Rules;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.Spelling;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * Limits that operators publish for rules and named limiters over HTTP, independent of the server: an adapter passes on
 * the text of a request, after authorization, and writes the reply as JSON.
 */
public final class PublishedLimits {

    /** In front of the name of a limiter. No rule can have such a name. */
    public static final String LIMITER = "limiter:";

    private static final Set<String> FIELDS = new TreeSet<>(Set.of("limits", "shadow", "comment", "until", "version"));
    private static final int LONGEST_LIMITS = 2_000;

    private final Rules rules;
    private final Map<String, RateLimiter> limiters;

    private PublishedLimits(Rules rules, Map<String, RateLimiter> limiters) {
        this.rules = rules;
        this.limiters = limiters;
    }

    /**
     * Returns the published limits of a service.
     *
     * @param rules its rules
     * @param limiters its named limiters, by their names in the settings
     * @return the published limits
     */
    public static PublishedLimits of(Rules rules, Map<String, RateLimiter> limiters) {
        return new PublishedLimits(
                Checks.some(rules, "rules", "Rules.of(limiter, syntax, rules)"),
                Map.copyOf(Checks.some(limiters, "limiters", "Map.of(\"partner\", limiter)")));
    }

    /**
     * Returns what is published, as far as this instance knows.
     *
     * @return values for JSON, by the name of the rule, or {@link #LIMITER} and that of the limiter
     */
    public Map<String, Object> list() {
        Map<String, Object> all = new LinkedHashMap<>();
        rules.published().forEach((name, value) -> all.put(name, json(value)));
        limiters.forEach(
                (name, limiter) -> limiter.published().ifPresent(value -> all.put(LIMITER + name, json(value))));
        return all;
    }

    /**
     * Publishes limits in all instances that use the store.
     *
     * @param name the name of a rule, or {@link #LIMITER} and that of a limiter
     * @param fields {@code limits}, such as {@code 5/s, 100/1h}; {@code shadow}, {@code comment} and {@code until},
     *     such as {@code 2030-01-31T12:00:00Z}, if they are not the default; and the {@code version} of the value that
     *     is replaced, 0 by default. A null is a field that is absent
     * @return the reply: 200 with the value; 400 or 404 if the request is invalid; 409 with the present value if its
     *     version is another one; 501 or 503 if the store cannot publish
     */
    public Mono<HttpReply> publish(String name, Map<String, @Nullable String> fields) {
        return changed(name, () -> {
            Publication value = read(fields);
            RateLimiter limiter = limiter(name);
            return (limiter == null ? rules.publish(name, value) : limiter.publish(value))
                    .map(published -> new HttpReply(200, json(published)));
        });
    }

    /**
     * Withdraws published limits in all instances that use the store.
     *
     * @param name the name of a rule, also of one that this instance does not have, or {@link #LIMITER} and that of a
     *     limiter
     * @param version the version of the value that is published
     * @return the reply: 204 without content, or an error as for {@link #publish}
     */
    public Mono<HttpReply> unpublish(String name, @Nullable String version) {
        return changed(name, () -> {
            long expected = version(version);
            RateLimiter limiter = limiter(name);
            return (limiter == null ? rules.unpublish(name, expected) : limiter.unpublish(expected))
                    .thenReturn(new HttpReply(204, Map.of()));
        });
    }

    private @Nullable RateLimiter limiter(String name) {
        return name.startsWith(LIMITER) ? limiters.get(name.substring(LIMITER.length())) : null;
    }

    private static Publication read(Map<String, @Nullable String> fields) {
        for (String field : fields.keySet()) {
            if (!FIELDS.contains(field)) {
                throw new IllegalArgumentException(
                        Text.quote(field) + " is not a field: " + Spelling.expected(field, FIELDS));
            }
        }
        Publication value = Publication.of(limits(fields.get("limits")))
                .version(version(fields.get("version")))
                .shadow(shadow(fields.get("shadow")));
        String comment = fields.get("comment");
        String until = fields.get("until");
        return (comment == null ? value : value.comment(comment)).until(until == null ? value.until() : until(until));
    }

    private static List<Limit> limits(@Nullable String text) {
        if (text == null || text.isBlank() || text.length() > LONGEST_LIMITS) {
            throw new IllegalArgumentException("limits are missing, or longer than " + LONGEST_LIMITS
                    + " characters: expected limits, for example \"limits\": \"5/s, 100/1h\"");
        }
        return Stream.of(text.split(",", -1))
                .map(String::strip)
                .map(Limit::parse)
                .toList();
    }

    private static long version(@Nullable String text) {
        try {
            return text == null ? 0 : Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(
                    "version " + Text.quote(text)
                            + " is not a number: expected that of the published value, or 0 if there is none",
                    e);
        }
    }

    private static boolean shadow(@Nullable String text) {
        if (text == null || text.equals("true") || text.equals("false")) {
            return Boolean.parseBoolean(text);
        }
        throw new IllegalArgumentException("shadow " + Text.quote(text) + " is invalid: expected true or false");
    }

    private static Instant until(String text) {
        try {
            return Instant.parse(text);
        } catch (DateTimeException e) {
            throw new IllegalArgumentException(
                    "until " + Text.quote(text)
                            + " is not a time: expected one in UTC, for example 2030-01-31T12:00:00Z",
                    e);
        }
    }

    private Mono<HttpReply> changed(String name, Supplier<Mono<HttpReply>> change) {
        List<String> names = new ArrayList<>();
        rules.list().forEach(rule -> names.add(rule.name()));
        limiters.keySet().forEach(limiter -> names.add(LIMITER + limiter));
        if (!names.contains(name) && !rules.published().containsKey(name)) {
            return Mono.just(wrong(
                    404,
                    "no rule or limiter has the name " + Text.quote(name) + ": "
                            + (names.isEmpty() ? "there is none" : Spelling.expected(name, names))));
        }
        return Mono.defer(change)
                .onErrorResume(PublicationConflictException.class, e -> Mono.just(new HttpReply(409, conflict(e))))
                .onErrorResume(IllegalArgumentException.class, e -> Mono.just(wrong(400, e.getMessage())))
                .onErrorResume(UnsupportedOperationException.class, e -> Mono.just(wrong(501, e.getMessage())))
                .onErrorResume(
                        e -> e instanceof LimitStoreException
                                || e instanceof TimeoutException
                                || e instanceof IllegalStateException,
                        e -> Mono.just(wrong(503, e.getMessage())));
    }

    private static Map<String, Object> conflict(PublicationConflictException conflict) {
        Map<String, Object> body =
                new LinkedHashMap<>(wrong(409, conflict.getMessage()).body());
        conflict.present().ifPresent(present -> body.put("present", json(present)));
        return body;
    }

    private static HttpReply wrong(int status, @Nullable String message) {
        return new HttpReply(status, Map.of("message", String.valueOf(message)));
    }

    private static Map<String, Object> json(Publication value) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("limits", value.limits().stream().map(Limit::toString).toList());
        json.put("shadow", value.isShadow());
        json.put("comment", value.comment());
        json.put("since", value.since().toString());
        json.put("until", value.until().toString());
        json.put("version", value.version());
        json.put("shared", value.isShared());
        return json;
    }

    /**
     * A reply to an operator.
     *
     * @param status the HTTP status
     * @param body the body, as values for JSON; an error has a {@code message}, and a conflict the {@code present}
     *     value; empty if there is no content
     */
    public record HttpReply(int status, Map<String, Object> body) {}
}
