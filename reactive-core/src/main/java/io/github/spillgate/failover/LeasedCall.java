package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Operators;

/**
 * A call that may be decided from leases, when its caller requests the result. So a caller that cancels before that
 * spends nothing, and one that requests late does not get permits of a lease that has ended.
 *
 * @param <T> the type of the result
 */
final class LeasedCall<T> implements Subscription {

    @SuppressWarnings("rawtypes")
    private static final AtomicIntegerFieldUpdater<LeasedCall> STAGE =
            AtomicIntegerFieldUpdater.newUpdater(LeasedCall.class, "stage");

    private static final int NEW = 0;
    private static final int REQUESTED = 1;
    private static final int CANCELLED = 2;

    private final Failover failover;
    private final List<Claim> claims;
    private final StoreOperation<T> operation;
    private final CoreSubscriber<? super T> actual;

    /** The call, if a store has to be asked. */
    private volatile @Nullable StoreCall<T> call;

    private volatile int stage;

    LeasedCall(Failover failover, List<Claim> claims, StoreOperation<T> operation, CoreSubscriber<? super T> actual) {
        this.failover = failover;
        this.claims = claims;
        this.operation = operation;
        this.actual = actual;
    }

    @Override
    public void request(long n) {
        if (!Operators.validate(n) || !STAGE.compareAndSet(this, NEW, REQUESTED)) {
            return;
        }
        T known = operation.spend(failover, claims);
        if (known == null) {
            StoreCall<T> asked = new StoreCall<>(failover, claims, operation, actual);
            call = asked;
            if (stage == CANCELLED) {
                asked.cancel();
            }
            asked.request(n);
            return;
        }
        actual.onNext(known);
        if (stage != CANCELLED) {
            actual.onComplete();
        }
    }

    @Override
    public void cancel() {
        stage = CANCELLED;
        StoreCall<T> asked = call;
        if (asked != null) {
            asked.cancel();
        }
    }
}
