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

    private Fallback() {}

    /**
     * Lets everything through.
     *
     * @return what to fall back on; its decisions have {@link Source#FALLBACK} as their source
     */
    public static LimitStore allow() {
        return new Setting("allow", true, InstantSource.system());
    }

    /**
     * Turns everything away, for a second each time.
     *
     * @return what to fall back on; its decisions have {@link Source#FALLBACK} as their source
     */
    public static LimitStore deny() {
        return new Setting("deny", false, InstantSource.system());
    }

    /**
     * Decides nothing: whoever asks gets a {@link LimitStoreUnavailableException}, in time.
     *
     * @return what to fall back on
     */
    public static LimitStore error() {
        return new Refusal();
    }

    private static final class Setting implements LimitStore {

        private final String name;
        private final boolean allows;
        private final InstantSource clock;

        Setting(String name, boolean allows, InstantSource clock) {
            this.name = name;
            this.allows = allows;
            this.clock = clock;
        }

        @Override
        public Mono<Decision> take(List<Claim> claims) {
            return Mono.fromSupplier(() -> {
                long now = clock.millis();
                return Decision.ofSetting(allows, now, now + ASK_AGAIN);
            });
        }

        @Override
        public Mono<Decision> peek(List<Claim> claims) {
            return take(claims);
        }

        @Override
        public Mono<Void> refund(Decision decision) {
            return Mono.empty();
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return Mono.empty();
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return Mono.empty();
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

    /** What the store's own error is handed on for. */
    static final class Refusal implements LimitStore {

        @Override
        public Mono<Decision> take(List<Claim> claims) {
            return refused();
        }

        @Override
        public Mono<Decision> peek(List<Claim> claims) {
            return refused();
        }

        @Override
        public Mono<Void> refund(Decision decision) {
            return refused();
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return refused();
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return refused();
        }

        private static <T> Mono<T> refused() {
            return Mono.error(() -> new LimitStoreUnavailableException(
                    "the store does not answer, and there is nothing to fall back on", null));
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
            return "Fallback[error]";
        }
    }
}
