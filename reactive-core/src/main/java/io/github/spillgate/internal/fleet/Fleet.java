package io.github.spillgate.internal.fleet;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.fleet.Publication;
import io.github.spillgate.fleet.PublicationConflictException;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.FleetReply;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import io.github.spillgate.spi.FleetExchange.Value;
import io.github.spillgate.spi.LimitStore;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * This process among all that use a store: one exchange every 5 s for all of its limiters and rules, which registers
 * this process, counts the others, and reads what is published. Thread-safe.
 */
public final class Fleet {
    // Design notes.
    //
    // Memory. There is one for each store object, as long as that lives: it is the value of a weak key, and refers to
    // the store and to its members weakly. It has a timer only while one of its limiters is neither closed nor
    // collected.
    //
    // Loss. The values of the store have a version, which changes with each of them. If it is not the known one, the
    // store sends all values. Withdrawn values stay as tombstones, so a known value that is missing, or has a lower
    // version, is lost, and is sent back at once. A request to publish sends all known values too: the version that its
    // caller has seen may be lost.
    //
    // A value with a text that this version does not know has no effect here, and the one before it goes on. Its text
    // is kept and restored like any other.

    /** The time between two exchanges; each is up to a tenth earlier, so that processes do not stay in step. */
    public static final Duration INTERVAL = Duration.ofSeconds(5);

    private static final Logger LOG = Loggers.getLogger(Fleet.class);

    private static final long EARLIER = INTERVAL.toNanos() / 10;
    private static final long SOON = TimeUnit.MILLISECONDS.toNanos(20);

    /** So that a timer does not keep the memory of a store that is no longer used for long. */
    private static final Duration LONGEST_PAUSE = Duration.ofHours(1);

    private static final Duration TIMEOUT = Duration.ofSeconds(1);

    /** A request to publish may open a connection. */
    private static final Duration LONGEST_CHANGE = Duration.ofSeconds(5);

    private static final int MOST_TRIES = 3;
    private static final String SHADOW = "shadow";
    private static final Duration LONGEST_LIFE = Duration.ofDays(366);

    /** By the store, and by each limiter on it. */
    private static final Owners<Fleet> BY_OWNER = new Owners<>();

    private final WeakReference<LimitStore> store;
    private final UUID self = new UUID(
            ThreadLocalRandom.current().nextLong(), ThreadLocalRandom.current().nextLong());
    private final Instances instances = new Instances();
    private final StoreClock clock = new StoreClock(Time::nanos);

    /** Whether other processes use the store. */
    private final boolean isShared;

    // Guarded by this.
    private final Set<Member> members = Collections.newSetFromMap(new WeakHashMap<>());
    private Map<String, Value> known = Map.of();
    private long version;
    private boolean isRegistered;
    private boolean isRefused;
    private boolean isSupported = true;
    private boolean hasTimer;
    private long timerAt;

    /** The number of the newest timer; older ones do nothing. */
    private long timers;

    /** Held while members learn what applies. They run no code of callers. */
    private final Object applying = new Object();

    /** What applies, by its name. Written under {@link #applying}. */
    private volatile Map<String, Publication> applied = Map.of();

    /** The latest version of a name of which the text was not understood. Written under {@link #applying}. */
    private final Map<String, Long> unknown = new ConcurrentHashMap<>();

    private Fleet(LimitStore store) {
        this.store = new WeakReference<>(store);
        this.isShared = !store.deadline().equals(Optional.of(Duration.ZERO));
    }

    /** Returns this process among those that use a store. */
    public static Fleet of(LimitStore store) {
        LimitStore origin = store.origin();
        return BY_OWNER.computeIfAbsent(origin, () -> new Fleet(origin));
    }

    /** Returns the instances of each limiter. */
    public Instances instances() {
        return instances;
    }

    /**
     * Adds a limiter.
     *
     * @param owner the limiter, for {@link #joinRules}
     * @param name its name
     * @param listener gets what is published for it under the name "", or nothing; at once if that is known. It
     *     must not call this, block, or run code of callers
     */
    public Member joinLimiter(Object owner, String name, Consumer<Map<String, Publication>> listener) {
        BY_OWNER.put(owner, this);
        Member member = add(name, listener, true);
        synchronized (this) {
            if (isShared && isSupported) {
                startTimer(SOON);
            } else if (!applied.isEmpty()) {
                startNext();
            }
        }
        return member;
    }

    /**
     * Adds the rules on a limiter.
     *
     * @param limiter the limiter
     * @param name its name
     * @param listener gets what is published for rules on that limiter, by their names, as that of {@link #joinLimiter}
     */
    public static Member joinRules(Object limiter, String name, Consumer<Map<String, Publication>> listener) {
        Fleet fleet = BY_OWNER.get(limiter);
        if (fleet == null) {
            throw new IllegalStateException("limiter " + name + " has joined no store");
        }
        return fleet.add(name, listener, false);
    }

    private Member add(String name, Consumer<Map<String, Publication>> listener, boolean isLimiter) {
        Member member = new Member(name, listener, isLimiter);
        synchronized (applying) {
            synchronized (this) {
                members.add(member);
            }
            member.learn(applied);
        }
        return member;
    }

    // The heartbeat.

    /** Starts the timer, or makes it end earlier. */
    private synchronized void startTimer(long nanos) {
        long at = Time.nanos() + nanos;
        if (!hasTimer || timerAt - at > 0) {
            stopTimer();
            hasTimer = true;
            timerAt = at;
            long mine = timers;
            // Without a reference to it, which would refer to its scheduler, and so to the stores on that.
            Background.scheduler().schedule(() -> tick(mine), nanos, TimeUnit.NANOSECONDS);
        }
    }

    private synchronized void stopTimer() {
        hasTimer = false;
        timers++;
    }

    private void tick(long timer) {
        synchronized (this) {
            if (timer != timers) {
                return;
            }
        }
        try {
            refresh();
        } finally {
            beat().subscribe();
        }
    }

    /** Starts the timer for the next exchange, or for the next end of a value; not if no limiter is left. */
    private synchronized void startNext() {
        if (limiters().isEmpty()) {
            return;
        }
        long next = isShared && isSupported
                ? INTERVAL.toNanos() - ThreadLocalRandom.current().nextLong(EARLIER)
                : Long.MAX_VALUE;
        long now = clock.millis();
        for (Publication value : applied.values()) {
            long left = Math.max(1, Math.min(value.until().toEpochMilli() - now + 1, LONGEST_PAUSE.toMillis()));
            next = Math.min(next, TimeUnit.MILLISECONDS.toNanos(left));
        }
        if (next != Long.MAX_VALUE) {
            startTimer(next);
        }
    }

    /** Exchanges what is known with the store, now; never an error. Completes when it is applied. */
    public Mono<Void> beat() {
        return Mono.defer(() -> {
            synchronized (this) {
                stopTimer();
                startNext();
            }
            List<String> names = limiters();
            return isShared && !names.isEmpty()
                    ? exchange(request(Instances.LIFETIME, names, false, null))
                    : Mono.empty();
        });
    }

    private Mono<Void> exchange(FleetExchange request) {
        return send(request, TIMEOUT)
                .switchIfEmpty(Mono.fromRunnable(this::noteUnsupported))
                .flatMap(reply -> note(request, reply))
                .doOnError(this::noteFailed)
                .onErrorComplete();
    }

    private Mono<FleetReply> send(FleetExchange request, Duration timeout) {
        return Mono.defer(() -> {
                    LimitStore present = store.get();
                    return present == null ? Mono.<FleetReply>empty() : present.exchange(request);
                })
                .timeout(timeout, Background.scheduler());
    }

    private synchronized void noteUnsupported() {
        isSupported = false;
        stopTimer();
    }

    /** An outage is reported by those that decide. */
    private synchronized void noteFailed(Throwable error) {
        isRegistered = false;
        instances.notCounted();
        if (Kind.REFUSED.isOf(error) && !isRefused) {
            isRefused = true;
            LOG.warn(
                    "{} does not exchange published limits with other instances: {}",
                    store.get(),
                    Text.line(error.getMessage()));
        }
    }

    private synchronized FleetExchange request(
            Duration lifetime, List<String> names, boolean isRestoring, @Nullable Value published) {
        long now = clock.millis();
        List<Value> restored = isRestoring
                ? known.values().stream().filter(value -> value.until() > now).toList()
                : List.of();
        return new FleetExchange(self, lifetime, names, version, restored, published);
    }

    /** Returns the names of the limiters, in their order: equal lists are counted once. */
    private synchronized List<String> limiters() {
        return members.stream()
                .filter(member -> member.isLimiter)
                .map(member -> member.limiter)
                .distinct()
                .sorted()
                .limit(FleetExchange.MOST_NAMES + 1)
                .toList();
    }

    /** Notes a reply, and sends back at once what the store has lost. */
    private Mono<Void> note(FleetExchange request, FleetReply reply) {
        boolean isLost;
        synchronized (this) {
            clock.record(reply.micros());
            isRegistered = !request.lifetime().isZero();
            isRefused = false;
            instances.counted(request.limiters(), reply.instances());
            isLost = reply.values() != null && merge(reply.values());
            version = reply.version();
        }
        refresh();
        return isLost && request.restored().isEmpty()
                ? exchange(request(request.lifetime(), request.limiters(), true, null))
                : Mono.empty();
    }

    /** Takes over all values of the store, and returns whether it has lost one of those that were known. */
    private boolean merge(Collection<Value> values) {
        Map<String, Value> next = new LinkedHashMap<>();
        values.forEach(value -> next.put(value.name(), value));
        boolean isLost = false;
        long now = clock.millis();
        for (Value value : known.values()) {
            Value other = next.get(value.name());
            boolean isOlder = other == null || other.version() < value.version();
            if (value.until() > now && isOlder && PublishedValues.fit(next.values(), value)) {
                next.put(value.name(), value);
                isLost = true;
            }
        }
        known = next;
        return isLost;
    }

    /** Lets all members know what applies now. */
    private void refresh() {
        synchronized (applying) {
            List<Member> present;
            Map<String, Value> values;
            synchronized (this) {
                present = List.copyOf(members);
                values = known;
            }
            Map<String, Publication> now = new HashMap<>();
            Instant time = Instant.ofEpochMilli(clock.millis());
            values.values().forEach(value -> {
                Publication read = read(value);
                if (read != null && read.until().isAfter(time)) {
                    now.put(value.name(), read);
                }
            });
            unknown.keySet().retainAll(values.keySet());
            applied = now;
            present.forEach(member -> member.learn(now));
        }
        startNext();
    }

    // The text of a value: its mode, its end, its comment, and its limits, a line each. A tombstone is empty.

    private static String write(Publication value) {
        return (value.isShadow() ? SHADOW : "") + "\n" + value.until().toEpochMilli() + "\n" + value.comment() + "\n"
                + value.limits().stream().map(Limit::toString).collect(Collectors.joining("\n"));
    }

    /** Returns what a value says; what applied before if it is not understood; null for a tombstone. */
    private @Nullable Publication read(Value value) {
        if (value.content().isEmpty()) {
            return null;
        }
        Publication before = applied.get(value.name());
        if (before != null && before.version() == value.version()) {
            return before;
        }
        try {
            List<String> lines = Arrays.asList(value.content().split("\n", -1));
            if (lines.size() < 4 || !(lines.get(0).isEmpty() || lines.get(0).equals(SHADOW))) {
                throw new IllegalArgumentException("the mode " + Text.quote(lines.get(0)) + " is unknown");
            }
            List<Limit> limits = new ArrayList<>();
            lines.subList(3, lines.size()).forEach(line -> limits.add(Limit.parse(line)));
            return new Publication(
                    limits,
                    !lines.get(0).isEmpty(),
                    lines.get(2),
                    Instant.ofEpochMilli(Long.parseLong(lines.get(1))),
                    value.version(),
                    isShared);
        } catch (RuntimeException e) {
            Long last = unknown.put(value.name(), value.version());
            if (last == null || last != value.version()) {
                LOG.warn(
                        "{}: published version {} is not understood, and what applied before goes on: {}",
                        Text.line(value.name()),
                        value.version(),
                        Text.line(e.getMessage()));
            }
            return before;
        }
    }

    // Changes.

    private Mono<Publication> publish(String name, Publication value) {
        return Mono.defer(() -> {
                    Instant now = Instant.ofEpochMilli(clock.millis());
                    if (!value.until().isAfter(now) || value.until().isAfter(now.plus(LONGEST_LIFE))) {
                        return Mono.error(new IllegalArgumentException(name + ": end " + value.until()
                                + " is out of range: expected a time from now on, at most "
                                + LONGEST_LIFE.toDays() + " days, for example "
                                + now.plus(Duration.ofDays(1))));
                    }
                    return change(name, value.version(), value.until(), write(value), MOST_TRIES);
                })
                .map(reply -> new Publication(
                        value.limits(), value.isShadow(), value.comment(), value.until(), reply.version(), isShared));
    }

    /** Publishes a value. If nothing is published that applies, its name may have a tombstone with a version. */
    private Mono<FleetReply> change(String name, long seen, Instant until, String content, int tries) {
        long expected = seen == 0 ? versionWithoutEffect(name) : seen;
        FleetExchange request =
                request(Instances.LIFETIME, limiters(), true, new Value(name, expected, until.toEpochMilli(), content));
        return send(request, LONGEST_CHANGE)
                .onErrorMap(
                        TimeoutException.class,
                        error -> new LimitStoreException(
                                Kind.UNANSWERED,
                                store.get() + " did not reply within " + LONGEST_CHANGE.toSeconds()
                                        + " s, and may have published it: expected another attempt only after a look at"
                                        + " what is published",
                                error))
                .switchIfEmpty(Mono.error(() -> new UnsupportedOperationException(
                        store.get() + " cannot publish limits: expected a store that exchanges values, for example a"
                                + " RedisStore")))
                .flatMap(reply -> note(request, reply).thenReturn(reply))
                .publishOn(Schedulers.parallel())
                .flatMap(reply -> {
                    if (reply.outcome() == PublishOutcome.PUBLISHED) {
                        return Mono.just(reply);
                    } else if (reply.outcome() == PublishOutcome.REFUSED) {
                        return Mono.error(new IllegalStateException(store.get() + " has no room for what is published"
                                + " for " + name + ": expected less than " + PublishedValues.MOST_BYTES
                                + " bytes in all, and no value of another program in its place"));
                    }
                    Publication present = applied.get(name);
                    return seen == 0 && present == null && tries > 1
                            ? change(name, seen, until, content, tries - 1)
                            : Mono.error(new PublicationConflictException(name, seen, present));
                });
    }

    /** Returns the version of a tombstone, or of a value that has ended; 0 if there is none. */
    private synchronized long versionWithoutEffect(String name) {
        Value value = known.get(name);
        return value == null
                        || applied.containsKey(name)
                        || Long.valueOf(value.version()).equals(unknown.get(name))
                ? 0
                : value.version();
    }

    private Mono<Void> end() {
        FleetExchange request;
        synchronized (this) {
            stopTimer();
            if (!isRegistered) {
                return Mono.empty();
            }
            request = request(Duration.ZERO, List.of(), false, null);
        }
        Mono<Void> ended = exchange(request).cache();
        ended.subscribe();
        return ended;
    }

    /** A limiter, or the rules on it. The fleet forgets it when its owner does. */
    public final class Member {

        private final String limiter;
        private final Consumer<Map<String, Publication>> listener;
        private final boolean isLimiter;
        private volatile Map<String, Publication> learned = Map.of();

        private Member(String limiter, Consumer<Map<String, Publication>> listener, boolean isLimiter) {
            this.limiter = limiter;
            this.listener = listener;
            this.isLimiter = isLimiter;
        }

        private void learn(Map<String, Publication> all) {
            String prefix = limiter + "/";
            Map<String, Publication> own = new HashMap<>();
            all.forEach((name, value) -> {
                if (name.startsWith(prefix) && name.equals(prefix) == isLimiter) {
                    own.put(name.substring(prefix.length()), value);
                }
            });
            if (!own.equals(learned)) {
                learned = Map.copyOf(own);
                listener.accept(learned);
            }
        }

        /** Returns what the listener got last. */
        public Map<String, Publication> published() {
            return learned;
        }

        /**
         * Publishes a value.
         *
         * @param rule the name of the rule; "" for the limiter
         */
        public Mono<Publication> publish(String rule, Publication value) {
            return Fleet.this.publish(limiter + "/" + rule, value);
        }

        /**
         * Withdraws a value.
         *
         * @param rule the name of the rule; "" for the limiter
         * @param seen the version of the value
         */
        public Mono<Void> unpublish(String rule, long seen) {
            return Mono.defer(() -> change(
                            limiter + "/" + rule,
                            seen,
                            Instant.ofEpochMilli(clock.millis()).plus(INTERVAL),
                            "",
                            MOST_TRIES))
                    .then();
        }

        /** Exchanges what is known with the store, now; never an error. */
        public Mono<Void> beat() {
            return Fleet.this.beat();
        }

        /** Leaves the fleet. The last limiter ends the registration of this process; completes soon. */
        public Mono<Void> leave() {
            boolean isLast;
            synchronized (Fleet.this) {
                isLast = members.remove(this) && limiters().isEmpty();
            }
            return isLast ? end() : Mono.empty();
        }
    }
}
