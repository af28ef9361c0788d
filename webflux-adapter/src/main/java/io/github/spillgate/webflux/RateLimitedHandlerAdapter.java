package io.github.spillgate.webflux;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.internal.Checks;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.core.Ordered;
import org.springframework.util.ClassUtils;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.reactive.HandlerAdapter;
import org.springframework.web.reactive.HandlerResult;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * A handler adapter that applies {@link RateLimited} before a controller method is called. It precedes the adapter that
 * calls such methods, and leaves all other methods to that adapter.
 */
public final class RateLimitedHandlerAdapter implements HandlerAdapter, Ordered {

    private final RateLimiter limiter;
    private final RateLimitResponses responses;
    private final RuleInstrumentation instrumentation;
    private final HandlerAdapter next;
    private final RateLimitedReader reader;
    private final Map<ControllerMethod, Rules> rules = new ConcurrentHashMap<>();

    /**
     * Creates an adapter that precedes another one.
     *
     * @param limiter the limiter
     * @param keys the syntax of keys in annotations
     * @param responses the header fields, and the response to denied requests
     * @param instrumentation the listeners and tracers of decisions
     * @param next the adapter that calls the methods, the application's {@code RequestMappingHandlerAdapter}
     */
    public RateLimitedHandlerAdapter(
            RateLimiter limiter,
            KeySyntax keys,
            RateLimitResponses responses,
            RuleInstrumentation instrumentation,
            HandlerAdapter next) {
        this.limiter = Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\")...build()");
        this.reader = new RateLimitedReader(Checks.some(keys, "keys", "KeySyntax.of(client)"));
        this.responses = Checks.some(responses, "responses", "RateLimitResponses.standard()");
        this.instrumentation = Checks.present(instrumentation, "instrumentation", "RuleInstrumentation.none()");
        this.next =
                Objects.requireNonNull(next, "next is null: expected the application's RequestMappingHandlerAdapter");
    }

    /**
     * Reads the annotations of these methods now, so that an error is reported at startup and not on the first request.
     *
     * @param methods the handler methods of the application
     * @throws IllegalArgumentException if a limit or a key cannot be read, or if two rules would have the same default
     *     name and so share their limits; the message names the method
     */
    public void prepare(Collection<HandlerMethod> methods) {
        methods.forEach(this::rulesOf);
    }

    /**
     * Returns the rules of the annotations that have been read, without duplicates.
     *
     * @return the rules, sorted by name
     */
    public List<Rule> rules() {
        return rules.values().stream()
                .flatMap(one -> one.list().stream())
                .distinct()
                .sorted(Comparator.comparing(Rule::name))
                .toList();
    }

    @Override
    public int getOrder() {
        return Ordered.HIGHEST_PRECEDENCE;
    }

    @Override
    public boolean supports(Object handler) {
        return handler instanceof HandlerMethod method
                && !rulesOf(method).list().isEmpty()
                && next.supports(handler);
    }

    @Override
    public Mono<HandlerResult> handle(ServerWebExchange exchange, Object handler) {
        Mono<Verdict> verdict = rulesOf((HandlerMethod) handler).decide(ExchangeRequest.of(exchange));
        return LimitedExchange.apply(exchange, verdict, responses).flatMap(denial -> {
            if (denial.isPresent()) {
                return responses.deny(exchange, denial.get()).then(Mono.empty());
            }
            LimitedExchange.settleAfterHandler(exchange);
            return next.handle(exchange, handler).map(result -> LimitedExchange.cancelAtEnd(exchange, result));
        });
    }

    private Rules rulesOf(HandlerMethod method) {
        ControllerMethod controllerMethod = new ControllerMethod(typeOf(method), method.getMethod());
        Rules known = rules.get(controllerMethod);
        return known == null ? rules.computeIfAbsent(controllerMethod, this::read) : known;
    }

    /** A JDK proxy class has a generated name, so its methods count as those of the interface that declares them. */
    private static Class<?> typeOf(HandlerMethod method) {
        Class<?> type = method.getBeanType();
        return Proxy.isProxyClass(type) ? method.getMethod().getDeclaringClass() : ClassUtils.getUserClass(type);
    }

    private Rules read(ControllerMethod target) {
        try {
            List<Rule> read = reader.read(target.type, target.method);
            return Rules.of(limiter, HandlerPaths.INSTANCE, read, instrumentation);
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new IllegalArgumentException(
                    "@RateLimited of " + ClassUtils.getShortName(target.type) + "." + target.method.getName() + ": "
                            + e.getMessage(),
                    e);
        }
    }

    /** The rules of annotations have no paths: they apply to the requests of a handler method, not to every path. */
    private enum HandlerPaths implements PathSyntax {
        INSTANCE;

        @Override
        public PathMatcher compile(String pattern) {
            return PathPatterns.ofSpring().compile(pattern);
        }

        @Override
        public boolean matchesEveryPath(List<String> patterns) {
            return false;
        }
    }

    /** A method, and the class of the bean, which may inherit the method. */
    private record ControllerMethod(Class<?> type, Method method) {}
}
