package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import reactor.core.publisher.Mono;

/** The error that a caller of a store gets. */
final class StoreFailure {

    private static final Duration LONG = Duration.ofSeconds(30);

    private StoreFailure() {}

    /** Returns the error of a decision on a store. */
    static LimitStoreException of(RedisStore store) {
        return of(Unprotected.limiter(store, Limit.perHour(100)).tryAcquire("a"));
    }

    /** Returns the error of an operation. */
    static LimitStoreException of(Mono<?> operation) {
        return catchThrowableOfType(LimitStoreException.class, () -> operation.block(LONG));
    }
}
