package io.github.spillgate.webflux;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ClassUtils;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.reactive.HandlerAdapter;
import org.springframework.web.reactive.HandlerResult;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * Asks before a controller's method that is {@link RateLimited} is called. It stands before the adapter that calls such methods,
 * and leaves all others to that one.
 */
public final class RateLimitedHandlerAdapter implements HandlerAdapter, Ordered {

    private final RateLimiter limiter;
    private final KeySyntax keys;
    private final RateLimitResponses responses;
    private final RuleListener listener;
    private final HandlerAdapter next;
    private final Map<Handled, Rules> rules = new ConcurrentHashMap<>();

    /**
     * An adapter before another one.
     *
     * @param limiter who decides
     * @param keys how keys are written in annotations
     * @param responses what clients are told
     * @param listener hears what is decided
     * @param next who calls the methods, the application's {@code RequestMappingHandlerAdapter}
     */
    public RateLimitedHandlerAdapter(
            RateLimiter limiter,
            KeySyntax keys,
            RateLimitResponses responses,
            RuleListener listener,
            HandlerAdapter next) {
        this.limiter = Objects.requireNonNull(limiter, "limiter is null: expected one");
        this.keys = Objects.requireNonNull(keys, "keys are null: expected a syntax, for example KeySyntax.of(client)");
        this.responses =
                Objects.requireNonNull(responses, "responses are null: expected RateLimitResponses.standard()");
        this.listener = Objects.requireNonNull(listener, "listener is null: expected one");
        this.next =
                Objects.requireNonNull(next, "next is null: expected the application's RequestMappingHandlerAdapter");
    }

    /**
     * Reads the annotations of these methods now, so that what is wrong with one is said at the start and not at the first request.
     *
     * @param methods the handler methods of the application
     * @throws IllegalArgumentException if a limit or a key cannot be read; the message names the method
     */
    public void prepare(Collection<HandlerMethod> methods) {
        methods.forEach(this::rulesOf);
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
        Rules asked = rulesOf((HandlerMethod) handler);
        return Limited.begins(exchange, asked)
                ? asked.decide(new ExchangeRequest(exchange)).flatMap(verdict -> obey(verdict, exchange, handler))
                : next.handle(exchange, handler);
    }

    private Mono<HandlerResult> obey(Verdict verdict, ServerWebExchange exchange, Object handler) {
        Limited.note(exchange, verdict, responses);
        return verdict.problem()
                .map(problem -> responses.deny(exchange, problem).then(Mono.<HandlerResult>empty()))
                .orElseGet(() -> next.handle(exchange, handler));
    }

    private Rules rulesOf(HandlerMethod method) {
        Handled handled = new Handled(method.getBeanType(), method.getMethod());
        Rules known = rules.get(handled);
        return known == null ? rules.computeIfAbsent(handled, this::read) : known;
    }

    private Rules read(Handled handled) {
        String type = ClassUtils.getShortName(ClassUtils.getUserClass(handled.type));
        try {
            List<Rule> read = new ArrayList<>();
            read.addAll(read(handled.type, type));
            read.addAll(read(handled.method, type + "." + handled.method.getName()));
            return Rules.of(limiter, PathPatterns.ofSpring(), read, listener);
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new IllegalArgumentException(
                    "@RateLimited of " + type + "." + handled.method.getName() + ": " + e.getMessage(), e);
        }
    }

    private List<Rule> read(AnnotatedElement element, String name) {
        Set<RateLimited> found = AnnotatedElementUtils.findMergedRepeatableAnnotations(
                element, RateLimited.class, RateLimited.All.class);
        List<Rule> read = new ArrayList<>(found.size());
        for (RateLimited limited : found) {
            String ofItsOwn = limited.name();
            // Several without names on one element are told apart by their number.
            String numbered = read.isEmpty() ? name : name + "-" + (read.size() + 1);
            read.add(rule(limited, ofItsOwn.isEmpty() ? numbered : ofItsOwn));
        }
        return read;
    }

    private Rule rule(RateLimited limited, String name) {
        Rule.Builder rule = Rule.named(name)
                .key(keys.parse(limited.key()))
                .cost(limited.cost())
                .whenMissing(limited.whenMissing())
                .whenUndecided(limited.whenUndecided())
                .refundWhen(limited.refundWhen())
                .shadow(limited.shadow());
        for (String limit : limited.value()) {
            rule.limit(Limit.parse(limit));
        }
        return rule.build();
    }

    /** A method, and the class of the bean that has it, which may have inherited it. */
    private record Handled(Class<?> type, Method method) {}
}
