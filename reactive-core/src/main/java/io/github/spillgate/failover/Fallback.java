package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * The stores that can decide while the primary store does not reply.
 *
 * <p>{@link #local(int)}, the default, limits requests in this process and reconciles its grants afterwards. The others
 * record nothing: what is allowed during the outage is not charged afterwards, and a refund or reset that does not
 * reach the store is lost.
 */
public final class Fallback {

    /** The retry time of a denial, in milliseconds: about as long as it takes until the store is tried again. */
    private static final long ASK_AGAIN = 1_000;

    private static final LimitStore ERROR = new FixedStore("error", refused(), refused());

    private Fallback() {}

    /**
     * Returns a fallback that limits requests in the memory of this process, from the usage that the primary store last
     * reported. What it grants is charged in the primary store afterwards.
     *
     * @param maximumCounts the highest number of counts, one for each key under each limit, 16 or more
     * @return the fallback, which one store can use
     * @throws IllegalArgumentException if the number is below 16
     */
    public static LocalFallback local(int maximumCounts) {
        return local(maximumCounts, InstantSource.system());
    }

    /**
     * Returns a fallback like {@link #local(int)}, on a clock.
     *
     * @param maximumCounts the highest number of counts, one for each key under each limit, 16 or more
     * @param clock the clock, read in milliseconds; it may stand still, jump and go back
     * @return the fallback, which one store can use
     * @throws IllegalArgumentException if the number is below 16
     */
    public static LocalFallback local(int maximumCounts, InstantSource clock) {
        return new LocalFallback(maximumCounts, clock);
    }

    /**
     * Returns a fallback that allows every request (fail open).
     *
     * @return the fallback; its decisions have the source {@link Source#FALLBACK}
     */
    public static LimitStore allow() {
        return new FixedStore("allow", Mono.fromSupplier(() -> decision(true)), Mono.empty());
    }

    /**
     * Returns a fallback that denies every request (fail closed), with a retry time of 1 s.
     *
     * @return the fallback; its decisions have the source {@link Source#FALLBACK}
     */
    public static LimitStore deny() {
        return new FixedStore("deny", Mono.fromSupplier(() -> decision(false)), Mono.empty());
    }

    /**
     * Returns a fallback that makes no decision: the caller gets the store's error, or by the deadline one of
     * {@link Kind#UNAVAILABLE}.
     *
     * @return the fallback
     */
    public static LimitStore error() {
        return ERROR;
    }

    /** Returns whether there is no fallback, so that the store's own error is passed on. */
    static boolean isError(LimitStore fallback) {
        return fallback == ERROR;
    }

    private static StoreDecision decision(boolean allowed) {
        Reply reply = new Reply(Source.FALLBACK, InstantSource.system().millis());
        return allowed
                ? StoreDecision.ofPeek(reply, List.of())
                : StoreDecision.denied(reply, reply.at() + ASK_AGAIN, List.of(), List.of());
    }

    private static <T> Mono<T> refused() {
        return Mono.error(() -> new LimitStoreException(
                Kind.UNAVAILABLE, "the store does not answer, and there is nothing to fall back on"));
    }

    private record FixedStore(String name, Mono<StoreDecision> decision, Mono<Void> change) implements LimitStore {

        @Override
        public Mono<StoreDecision> take(StoreRequest request) {
            return request.mode() == StoreRequest.Mode.LEASE ? Mono.empty() : decision;
        }

        /** Nothing was charged here, and nothing can be. */
        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return change.thenReturn(corrections.stream()
                    .map(one -> Corrected.of(
                            one instanceof Reconciliation
                                    ? CorrectionOutcome.UNSUPPORTED
                                    : CorrectionOutcome.WITHOUT_EFFECT))
                    .toList());
        }

        /** If every request is allowed, work goes on. */
        @Override
        public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
            if (action == HoldAction.RELEASE) {
                return change.then(Mono.just(HoldRenewal.released(holds)));
            }
            return decision.filter(StoreDecision::isAllowed)
                    .map(allowed -> holds.stream()
                            .map(claim -> new HoldRenewal(claim, HoldRenewal.RenewalOutcome.RENEWED))
                            .toList());
        }

        @Override
        public Mono<Void> reset(List<Claim> claims, long deadline) {
            return change;
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.of(Duration.ZERO);
        }

        @Override
        public StoreState state() {
            return StoreState.of(Source.FALLBACK);
        }

        @Override
        public String toString() {
            return "Fallback[" + name + "]";
        }
    }
}
