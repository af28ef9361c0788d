package io.github.spillgate.http;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import reactor.core.publisher.Mono;

/** A request without a server. */
public final class SentRequest implements Request {

    private final String method;
    private final String path;
    private final Map<String, List<String>> headers = new HashMap<>();
    private final Map<String, List<String>> query = new HashMap<>();
    private final Map<String, List<String>> cookies = new HashMap<>();
    private final Map<String, String> variables = new HashMap<>();
    private final Map<String, String> attributes = new HashMap<>();
    private final RequestVerdicts verdicts = new RequestVerdicts();
    private boolean remembers;
    private String peer = "192.0.2.1";
    private Mono<String> principal = Mono.empty();

    private SentRequest(String method, String path) {
        this.method = method;
        this.path = path;
    }

    /** Returns a request with the method GET. */
    public static SentRequest get(String path) {
        return new SentRequest("GET", path);
    }

    static SentRequest of(String method, String path) {
        return new SentRequest(method, path);
    }

    /** Returns the failure of a lookup of limits. */
    public static RuleLookupException failedLookup() {
        return RuleLookupException.failed("limits-from", new IllegalStateException("broken"));
    }

    SentRequest from(String address) {
        this.peer = address;
        return this;
    }

    /** Keeps the verdicts, as requests of a server do. By default each decision is on a new request. */
    SentRequest remembering() {
        this.remembers = true;
        return this;
    }

    SentRequest header(String name, String value) {
        headers.computeIfAbsent(name.toLowerCase(Locale.ROOT), key -> new ArrayList<>())
                .add(value);
        return this;
    }

    SentRequest query(String name, String value) {
        query.computeIfAbsent(name, key -> new ArrayList<>()).add(value);
        return this;
    }

    SentRequest cookie(String name, String value) {
        cookies.computeIfAbsent(name, key -> new ArrayList<>()).add(value);
        return this;
    }

    SentRequest variable(String name, String value) {
        variables.put(name, value);
        return this;
    }

    SentRequest attribute(String name, String value) {
        attributes.put(name, value);
        return this;
    }

    SentRequest by(String name) {
        return by(Mono.just(name));
    }

    SentRequest by(Mono<String> name) {
        this.principal = name;
        return this;
    }

    @Override
    public String path() {
        return path;
    }

    /** A pattern is a path, or the start of one followed by a star. */
    static PathSyntax syntax() {
        return pattern -> {
            if (!pattern.startsWith("/")) {
                throw new IllegalArgumentException(
                        "path \"" + pattern + "\" is no pattern: expected one, for example /a");
            }
            return new PathSyntax.PathMatcher() {

                @Override
                public Map<String, String> match(Request request) {
                    return match(request.path());
                }

                @Override
                public Map<String, String> match(String path) {
                    boolean meant = pattern.endsWith("*")
                            ? path.startsWith(pattern.substring(0, pattern.length() - 1))
                            : path.equals(pattern);
                    return meant ? Map.of("pattern", pattern) : null;
                }
            };
        };
    }

    @Override
    public String method() {
        return method;
    }

    @Override
    public String peer() {
        return peer;
    }

    @Override
    public List<String> headers(String name) {
        return headers.getOrDefault(name.toLowerCase(Locale.ROOT), List.of());
    }

    @Override
    public List<String> queryParameters(String name) {
        return query.getOrDefault(name, List.of());
    }

    @Override
    public List<String> cookies(String name) {
        return cookies.getOrDefault(name, List.of());
    }

    @Override
    public Map<String, String> pathVariables() {
        return variables;
    }

    @Override
    public Mono<String> principal() {
        return principal;
    }

    @Override
    public Optional<String> attribute(String name) {
        return Optional.ofNullable(attributes.get(name));
    }

    @Override
    public RequestVerdicts verdicts() {
        return remembers ? verdicts : new RequestVerdicts();
    }

    @Override
    public <T> T as(Class<T> type) {
        return type.cast(this);
    }
}
