package io.github.spillgate.webflux;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySyntax;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.internal.Checks;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
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
 * A handler adapter that applies {@link RateLimited} before a controller method is called. It precedes the adapter that
 * calls such methods, and leaves all other methods to that adapter.
 */
public final class RateLimitedHandlerAdapter implements HandlerAdapter, Ordered {

    /** The maximum length of a default name; the name of a limit is appended to it. */
    private static final int LONGEST_NAME = 56;

    private final RateLimiter limiter;
    private final KeySyntax keys;
    private final RateLimitResponses responses;
    private final RuleInstrumentation instrumentation;
    private final HandlerAdapter next;
    private final Map<ControllerMethod, Rules> rules = new ConcurrentHashMap<>();
    private final Map<Class<?>, List<Rule>> rulesOfTypes = new ConcurrentHashMap<>();

    /** The default names of rules, and the class or method that each belongs to. */
    private final Map<String, String> names = new ConcurrentHashMap<>();

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
        this.keys = Checks.some(keys, "keys", "KeySyntax.of(client)");
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
            return next.handle(exchange, handler);
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
        String method = target.method.getName();
        String type = ClassUtils.getShortName(target.type);
        try {
            List<Rule> all = new ArrayList<>(
                    rulesOfTypes.computeIfAbsent(target.type, key -> rulesOn(key, type, key.getName())));
            all.addAll(rulesOn(target.method, type + "." + method, target.type.getName() + "." + method));
            return Rules.of(limiter, HandlerPaths.INSTANCE, all, instrumentation);
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new IllegalArgumentException("@RateLimited of " + type + "." + method + ": " + e.getMessage(), e);
        }
    }

    /** Reads the annotations on the element itself or, if it has none, those of the elements it overrides. */
    private List<Rule> rulesOn(AnnotatedElement element, String name, String fullName) {
        Set<RateLimited> found =
                AnnotatedElementUtils.getMergedRepeatableAnnotations(element, RateLimited.class, RateLimited.All.class);
        if (found.isEmpty()) {
            found = AnnotatedElementUtils.findMergedRepeatableAnnotations(
                    element, RateLimited.class, RateLimited.All.class);
        }
        List<Rule> read = new ArrayList<>(found.size());
        for (RateLimited limited : found) {
            // Several annotations without names on one element get a number.
            String number = read.isEmpty() ? "" : "-" + (read.size() + 1);
            String chosen = limited.name();
            read.add(rule(limited, chosen.isEmpty() ? nameOf(name + number, fullName + number) : chosen));
        }
        return read;
    }

    /** Returns the default name of a rule, shortened if necessary; fails if another rule already has it. */
    private String nameOf(String name, String fullName) {
        String clean = shortened(name.replaceAll("[^A-Za-z0-9._-]", "."), fullName);
        String other = names.putIfAbsent(clean, fullName);
        if (other != null && !other.equals(fullName)) {
            throw new IllegalArgumentException("its name would be " + clean + ", like that of " + other
                    + ": expected a unique name, for example @RateLimited(name = \"reports\")");
        }
        return clean;
    }

    /** Shortens a name with a hash, which is the same in all instances of a service. */
    private static String shortened(String name, String fullName) {
        return name.length() <= LONGEST_NAME
                ? name
                : name.substring(0, LONGEST_NAME - 9) + "-" + HexFormat.of().toHexDigits(fullName.hashCode());
    }

    private Rule rule(RateLimited limited, String name) {
        Rule.Builder rule = Rule.named(name)
                .key(keys.parse(limited.key()))
                .cost(limited.cost())
                .whenUndecided(limited.whenUndecided())
                .refundWhen(limited.refundWhen())
                .shadow(limited.shadow());
        WhenMissing[] whenMissing = limited.whenMissing();
        if (whenMissing.length > 1) {
            throw new IllegalArgumentException("whenMissing " + Arrays.toString(whenMissing)
                    + " are several: expected one at most, for example whenMissing = WhenMissing.SKIP");
        }
        if (whenMissing.length == 1) {
            rule.whenMissing(whenMissing[0]);
        }
        for (String limit : limited.value()) {
            rule.limit(Limit.parse(limit));
        }
        return rule.build();
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
