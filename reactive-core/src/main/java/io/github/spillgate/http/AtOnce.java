package io.github.spillgate.http;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Fuseable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Values that are there without a subscription, as of {@code Mono.just} and {@code Mono.empty}: nearly all keys are,
 * and on the way of every request a chain of operators for each would cost more than finding it.
 */
final class AtOnce {

    private AtOnce() {}

    static boolean is(Mono<?> mono) {
        return mono instanceof Fuseable.ScalarCallable;
    }

    /** Returns the value; null if there is none. */
    @SuppressWarnings("unchecked")
    static <T> @Nullable T get(Mono<T> mono) {
        try {
            return ((Fuseable.ScalarCallable<T>) mono).call();
        } catch (Exception e) {
            throw e instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(e);
        }
    }

    /** Changes the value, where there is one; to nothing, if null is made of it. */
    static <T, R> Mono<R> map(Mono<T> mono, Function<T, @Nullable R> change) {
        if (!is(mono)) {
            return mono.mapNotNull(change);
        }
        T value = get(mono);
        return Mono.justOrEmpty(value == null ? null : change.apply(value));
    }

    /** Returns all values that there are, in their order. */
    static <T> Mono<List<T>> all(List<Mono<T>> monos) {
        List<T> values = new ArrayList<>(monos.size());
        for (Mono<T> mono : monos) {
            if (!is(mono)) {
                return Flux.mergeSequential(monos).collectList();
            }
            T value = get(mono);
            if (value != null) {
                values.add(value);
            }
        }
        return Mono.just(values);
    }
}
