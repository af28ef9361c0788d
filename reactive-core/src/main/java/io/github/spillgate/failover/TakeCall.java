package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreUnansweredException;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;

/**
 * A question that takes permits. Where both the store and the fallback have been asked, what each of them has said is
 * put together when both are known, so that every permit that somebody uses is charged, and once where that can be
 * known.
 *
 * <table>
 * <caption>What is to be done</caption>
 * <tr><th>the fallback</th><th>the store, late</th><th></th></tr>
 * <tr><td>allowed</td><td>allowed</td>
 *     <td>the store has charged it: not to be settled, unless a reset since has removed the charge</td></tr>
 * <tr><td>allowed</td><td>denied, or was not able to decide</td><td>to be settled</td></tr>
 * <tr><td>allowed</td><td>never answers</td><td>to be settled, and perhaps charged twice</td></tr>
 * <tr><td>denied</td><td>allowed</td><td>nobody uses it: given back to the store</td></tr>
 * </table>
 */
final class TakeCall extends StoreCall<Decision> {

    private static final Object NOTHING = new Object();
    private static final Object REFUSED = new Object();

    private volatile boolean doubted;

    /** What the first of the two has said, until the other one comes. */
    private final AtomicReference<@Nullable Object> first = new AtomicReference<>();

    TakeCall(ResilientStore store, List<Claim> claims, CoreSubscriber<? super Decision> actual) {
        super(store, claims, asked -> asked.take(claims), true, actual);
    }

    @Override
    Mono<Decision> ask(LimitStore primary, long deadline) {
        return primary.take(claims, deadline);
    }

    @Override
    boolean mustBeSettledFirst() {
        return store.mustSettle(claims);
    }

    @Override
    void inDoubt() {
        doubted = true;
        store.doubts().begin(claims);
    }

    @Override
    void answered(@Nullable Decision answer) {
        store.denials().remember(answer, sentAt());
    }

    @Override
    void answeredLate(@Nullable Decision answer) {
        store.denials().remember(answer, sentAt());
        meet(answer == null ? REFUSED : answer, false);
    }

    @Override
    void failedLate(Throwable error) {
        meet(error instanceof LimitStoreUnansweredException ? NOTHING : REFUSED, false);
    }

    @Override
    void answeredInstead(@Nullable Decision answer, @Nullable Throwable storeFailed) {
        if (doubted) {
            meet(answer == null ? REFUSED : answer, true);
        } else if (answer != null && answer.isCharged() && storeFailed instanceof LimitStoreUnansweredException) {
            store.countUnknown(answer);
        }
        if (answer != null && answer.isCharged()) {
            store.owes(answer);
        }
    }

    @Override
    void failedInstead() {
        if (doubted) {
            meet(REFUSED, true);
        }
    }

    private void meet(Object said, boolean byFallback) {
        Object before = first.compareAndExchange(null, said);
        if (before == null) {
            return;
        }
        try {
            putTogether(byFallback ? said : before, byFallback ? before : said);
        } finally {
            store.doubts().end(claims);
        }
    }

    private void putTogether(Object here, Object there) {
        Decision used = here instanceof Decision decision && decision.isAllowed() ? decision : null;
        if (there instanceof Decision charged && charged.isCharged()) {
            if (used == null) {
                store.giveBack(charged);
            } else if (used.isCharged()) {
                store.takeBack(used, claims, sentAt());
            }
        } else if (there == NOTHING && used != null && used.isCharged()) {
            store.countUnknown(used);
        }
    }
}
