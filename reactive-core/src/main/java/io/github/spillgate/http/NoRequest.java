package io.github.spillgate.http;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import reactor.core.publisher.Mono;

/** Stands for the request of a lookup by key alone. A lookup that reads it fails, and so finds no wrong limits. */
enum NoRequest implements Request {
    INSTANCE;

    static RuleMatch match(Rule rule) {
        return new RuleMatch(rule, INSTANCE, Map.of());
    }

    private static UnsupportedOperationException unknown() {
        return new UnsupportedOperationException("the lookup reads the request, and here only the key is known:"
                + " expected a lookup by its key alone, or rules.peek(request)");
    }

    @Override
    public String method() {
        throw unknown();
    }

    @Override
    public String path() {
        throw unknown();
    }

    @Override
    public String peer() {
        throw unknown();
    }

    @Override
    public List<String> headers(String name) {
        throw unknown();
    }

    @Override
    public List<String> queryParameters(String name) {
        throw unknown();
    }

    @Override
    public List<String> cookies(String name) {
        throw unknown();
    }

    @Override
    public Map<String, String> pathVariables() {
        throw unknown();
    }

    @Override
    public Mono<String> principal() {
        throw unknown();
    }

    @Override
    public Optional<String> attribute(String name) {
        throw unknown();
    }

    @Override
    public Verdicts verdicts() {
        throw unknown();
    }

    @Override
    public <T> T as(Class<T> type) {
        throw unknown();
    }
}
