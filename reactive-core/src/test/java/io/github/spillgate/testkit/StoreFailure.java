package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import org.assertj.core.api.Condition;
import reactor.core.publisher.Mono;

/** The error that a caller of a store gets. */
public final class StoreFailure {

    private static final Duration LONG = Duration.ofSeconds(30);

    private StoreFailure() {}

    /** Returns the error of a decision on a store. */
    public static LimitStoreException of(LimitStore store) {
        return of(Unprotected.limiter(store, Limit.perHour(100)).tryAcquire("a"));
    }

    /** Returns the error of an operation. */
    public static LimitStoreException of(Mono<?> operation) {
        return catchThrowableOfType(LimitStoreException.class, () -> operation.block(LONG));
    }

    /** Returns the condition that something is an error of this kind. */
    public static Condition<Object> kind(Kind kind) {
        return new Condition<>(one -> one instanceof Throwable error && kind.isOf(error), "an error %s", kind);
    }
}
