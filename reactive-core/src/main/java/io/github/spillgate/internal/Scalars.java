package io.github.spillgate.internal;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Fuseable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Operations on Monos that have a value without a subscription, such as {@code Mono.just} and {@code Mono.empty}.
 * Nearly all keys do, and a chain of operators would cost each request more than finding the key.
 */
public final class Scalars {

    private Scalars() {}

    public static boolean isScalar(Mono<?> mono) {
        return mono instanceof Fuseable.ScalarCallable;
    }

    /** Returns the value of a scalar; null if it is empty. */
    @SuppressWarnings("unchecked")
    public static <T> @Nullable T value(Mono<T> scalar) {
        try {
            return ((Fuseable.ScalarCallable<T>) scalar).call();
        } catch (Exception e) {
            throw e instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(e);
        }
    }

    /** Returns the value of a scalar that is not empty. */
    public static <T> T requireValue(Mono<T> scalar) {
        return Objects.requireNonNull(value(scalar));
    }

    /** Maps the value, if there is one; the result is empty if the function returns null. */
    public static <T, R> Mono<R> map(Mono<T> mono, Function<T, @Nullable R> mapper) {
        if (!isScalar(mono)) {
            return mono.mapNotNull(mapper);
        }
        T value = value(mono);
        return Mono.justOrEmpty(value == null ? null : mapper.apply(value));
    }

    /** Collects the values in order; empty Monos are left out. */
    public static <T> Mono<List<T>> collect(List<Mono<T>> monos) {
        List<T> values = new ArrayList<>(monos.size());
        for (Mono<T> mono : monos) {
            if (!isScalar(mono)) {
                return Flux.mergeSequential(monos).collectList();
            }
            T value = value(mono);
            if (value != null) {
                values.add(value);
            }
        }
        return Mono.just(values);
    }
}
