package io.github.spillgate.failover.ledger;

import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Counts the instances of each limiter. Each of them registers in the primary store every few seconds, for a little
 * longer than that.
 */
public final class Instances {
    // Design notes.
    //
    // A number that is too low lets the instances grant more than the limit during an outage; one that is too high lets
    // them grant less. So a higher number counts at once, and a lower one only when no registration can be missing any
    // more: after an outage all of them have expired in the store, and the first instance that is back finds itself
    // alone. During the outage itself the last number stays.

    static final Duration LIFETIME = Duration.ofSeconds(20);
    public static final Duration INTERVAL = Duration.ofSeconds(5);

    private static final Duration TIMEOUT = Duration.ofSeconds(1);
    private static final int CONCURRENT = 16;
    private static final long NEVER = Long.MIN_VALUE;

    /** The highest number of limiters. The others use the highest number of instances of any of these. */
    private static final int MOST = 1_000;

    private final LimitStore store;
    private final BooleanSupplier isNeeded;
    private final UUID self = new UUID(
            ThreadLocalRandom.current().nextLong(), ThreadLocalRandom.current().nextLong());
    private final ConcurrentHashMap<String, Group> byLimiter = new ConcurrentHashMap<>();
    private @Nullable Disposable timer;
    private boolean ended;
    private Mono<Void> end = Mono.empty();

    /** The highest number of instances of any limiter. */
    private volatile int highest = 1;

    /**
     * Creates the counts of all limiters of this process.
     *
     * @param store the store in which instances register
     * @param isNeeded whether the number of instances matters now
     */
    public Instances(LimitStore store, BooleanSupplier isNeeded) {
        this.store = store;
        this.isNeeded = isNeeded;
    }

    /** Returns the instances of a limiter. */
    public Group of(String limiter) {
        Group known = byLimiter.get(limiter);
        if (known != null) {
            return known;
        }
        return byLimiter.size() < MOST ? byLimiter.computeIfAbsent(limiter, Group::new) : new Group(limiter);
    }

    /** Registers this instance of a limiter, from now on. */
    public synchronized void register(String limiter) {
        if (ended) {
            return;
        }
        if (timer == null) {
            long interval = INTERVAL.toNanos();
            timer = Background.scheduler()
                    .schedulePeriodically(() -> registerAll().subscribe(), interval, interval, TimeUnit.NANOSECONDS);
        }
        of(limiter).register(LIFETIME).subscribe();
    }

    /** Registers this instance of all limiters; never an error. */
    public Mono<Void> registerAll() {
        return all(LIFETIME);
    }

    private Mono<Void> all(Duration lifetime) {
        return Flux.fromIterable(byLimiter.values())
                .flatMap(group -> group.register(lifetime), CONCURRENT)
                .then();
    }

    /**
     * Stops registering, at once.
     *
     * @param removes whether to remove the registrations of this instance; otherwise they expire
     * @return completes when they are removed; never an error
     */
    public synchronized Mono<Void> end(boolean removes) {
        if (!ended) {
            ended = true;
            if (timer != null) {
                timer.dispose();
            }
            if (removes) {
                end = all(Duration.ZERO).cache();
                end.subscribe();
            }
        }
        return end;
    }

    /** The instances of one limiter. */
    public final class Group {

        private final String limiter;
        private volatile int number;

        /** The time since which fewer instances are registered than this number. */
        private long fewerSince = NEVER;

        Group(String limiter) {
            this.limiter = limiter;
        }

        /** Returns how many there are, as far as is known; 1 if this instance has never registered. */
        public int number() {
            int known = number;
            return known == 0 ? highest : known;
        }

        private Mono<Void> register(Duration lifetime) {
            return Mono.defer(() -> isNeeded.getAsBoolean() ? store.register(limiter, self, lifetime) : Mono.empty())
                    .timeout(TIMEOUT, Background.scheduler())
                    .doOnNext(this::counted)
                    .doOnError(error -> notCounted())
                    .onErrorComplete()
                    .then();
        }

        /** While the store does not reply, registrations expire. */
        private synchronized void notCounted() {
            fewerSince = NEVER;
        }

        private synchronized void counted(int counted) {
            long now = Time.nanos();
            if (counted < number && fewerSince == NEVER) {
                fewerSince = now;
            } else if (counted >= number || now - fewerSince > LIFETIME.toNanos()) {
                fewerSince = NEVER;
                number = counted;
                highest = byLimiter.values().stream()
                        .mapToInt(group -> group.number)
                        .max()
                        .orElse(1);
            }
        }
    }
}
