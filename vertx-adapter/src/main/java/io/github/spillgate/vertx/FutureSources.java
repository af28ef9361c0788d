package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleMatch;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.ext.web.RoutingContext;
import java.util.Collection;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * Factories of key, cost and limit sources from functions that return futures. The functions are called on the context
 * of the request, must not block, and must answer within the {@linkplain Rule.Builder#timeout timeout of the rule}. The
 * same holds for the functions of a shadow rule, for which no request waits.
 */
public final class FutureSources {

    private FutureSources() {}

    /**
     * Returns a key source from a function.
     *
     * @param find the function; a future of null means that the request has no key
     * @return the source
     */
    public static KeySource key(Function<? super RoutingContext, ? extends Future<@Nullable String>> find) {
        return match -> mono(request(match), find.apply(request(match)));
    }

    /**
     * Returns a cost source from a function.
     *
     * @param find the function; a future of null selects the fixed cost of the rule
     * @return the source
     */
    public static Rule.CostSource cost(Function<? super RoutingContext, ? extends Future<@Nullable Long>> find) {
        return match -> mono(request(match), find.apply(request(match)));
    }

    /**
     * Returns a limit source from a function.
     *
     * @param find the function, which gets the request and the key; a future of null selects the limits of the rule
     * @return the source
     */
    public static Rule.LimitSource limits(
            BiFunction<? super RoutingContext, String, ? extends Future<? extends @Nullable Collection<Limit>>> find) {
        return (match, key) -> mono(request(match), find.apply(request(match), key));
    }

    private static RoutingContext request(RuleMatch match) {
        return match.request().as(RoutingContext.class);
    }

    private static <T> Mono<T> mono(RoutingContext ctx, Future<? extends @Nullable T> future) {
        if (future.succeeded()) {
            return Mono.justOrEmpty(future.result());
        }
        // Continue on the context of the request, on whatever thread the future completes.
        Context context = ctx.vertx().getOrCreateContext();
        return Mono.create(sink -> future.onComplete(
                found -> context.runOnContext(ignored -> sink.success(found)),
                error -> context.runOnContext(ignored -> sink.error(error))));
    }
}
