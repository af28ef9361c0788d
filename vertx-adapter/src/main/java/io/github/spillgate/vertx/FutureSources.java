package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Match;
import io.github.spillgate.http.Rule;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.ext.web.RoutingContext;
import java.util.Collection;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * Keys, costs and limits that functions of the user's find. They are called on the context of the request, must not block, and have the
 * time that {@link Rule.Builder#timeout the rule} gives them. So are those of a rule that is only tried out, for which nobody waits.
 */
public final class FutureSources {

    private FutureSources() {}

    /**
     * A key from a function.
     *
     * @param find finds it; a future of null means that there is none
     * @return the source
     */
    public static KeySource key(Function<? super RoutingContext, ? extends Future<@Nullable String>> find) {
        return match -> mono(request(match), find.apply(request(match)));
    }

    /**
     * A cost from a function.
     *
     * @param find finds it; a future of null means the rule's fixed cost
     * @return the source
     */
    public static Rule.CostSource cost(Function<? super RoutingContext, ? extends Future<@Nullable Long>> find) {
        return match -> mono(request(match), find.apply(request(match)));
    }

    /**
     * Limits from a function.
     *
     * @param find finds those of a key; a future of null means the rule's own
     * @return the source
     */
    public static Rule.LimitSource limits(
            BiFunction<? super RoutingContext, String, ? extends Future<? extends @Nullable Collection<Limit>>> find) {
        return (match, key) -> mono(request(match), find.apply(request(match), key));
    }

    private static RoutingContext request(Match match) {
        return match.request().as(RoutingContext.class);
    }

    private static <T> Mono<T> mono(RoutingContext ctx, Future<? extends @Nullable T> future) {
        if (future.succeeded()) {
            return Mono.justOrEmpty(future.result());
        }
        // What is asked next is asked here as well, wherever this is answered.
        Context home = ctx.vertx().getOrCreateContext();
        return Mono.create(sink -> future.onComplete(
                found -> home.runOnContext(here -> sink.success(found)),
                why -> home.runOnContext(here -> sink.error(why))));
    }
}
