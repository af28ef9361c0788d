package io.github.spillgate.resilience;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * What to fall back on instead of counting: everything is allowed, denied, or an error, as long as the store does not answer.
 *
 * <p>Nothing is remembered: what is allowed meanwhile is not charged afterwards, and a refund or a reset that the store does not
 * hear of is lost.
 */
public final class Fallback {

    /** For how long a denial without a count holds: about as long as it takes until the store is tried again. */
    private static final long ASK_AGAIN = 1_000;

    private static final String ERROR = "error";

    private Fallback() {}

    /**
     * Lets everything through.
     *
     * @return what to fall back on; its decisions have {@link Source#FALLBACK} as their source
     */
    public static LimitStore allow() {
        return new Setting("allow", Mono.fromSupplier(() -> decision(true)), Mono.empty());
    }

    /**
     * Turns everything away, for a second each time.
     *
     * @return what to fall back on; its decisions have {@link Source#FALLBACK} as their source
     */
    public static LimitStore deny() {
        return new Setting("deny", Mono.fromSupplier(() -> decision(false)), Mono.empty());
    }

    /**
     * Decides nothing: whoever asks gets a {@link LimitStoreUnavailableException}, in time.
     *
     * @return what to fall back on
     */
    public static LimitStore error() {
        return new Setting(ERROR, refused(), refused());
    }

    /** Whether there is nothing to fall back on, and the store's own error is to be handed on. */
    static boolean isError(LimitStore fallback) {
        return fallback instanceof Setting setting && setting.name.equals(ERROR);
    }

    private static Decision decision(boolean allowed) {
        long now = InstantSource.system().millis();
        return Decision.ofSetting(allowed, now, now + ASK_AGAIN);
    }

    private static <T> Mono<T> refused() {
        return Mono.error(() -> new LimitStoreUnavailableException(
                "the store does not answer, and there is nothing to fall back on", null));
    }

    private static final class Setting implements LimitStore {

        private final String name;
        private final Mono<Decision> decision;
        private final Mono<Void> change;

        Setting(String name, Mono<Decision> decision, Mono<Void> change) {
            this.name = name;
            this.decision = decision;
            this.change = change;
        }

        @Override
        public Mono<Decision> take(List<Claim> claims) {
            return decision;
        }

        @Override
        public Mono<Decision> peek(List<Claim> claims) {
            return decision;
        }

        @Override
        public Mono<Void> refund(Decision taken) {
            return change;
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return change;
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
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
