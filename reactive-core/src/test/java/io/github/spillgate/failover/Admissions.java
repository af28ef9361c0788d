package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.DecidedClaims;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A record of all grants that callers received: for each count, the store, the time and the permits. It is independent
 * of the counts in the stores.
 *
 * <p>Nothing expires during a test from a count with a window of an hour or longer, so its sums must be exact. No
 * window of a short count may exceed the limit, and no interval the burst and the rate of a bucket.
 */
final class Admissions {

    /** A grant; {@code at} is on the clock of the store, the other two times are on the clock of the test. */
    record Grant(Source source, long permits, long at, long requestedAt, long decidedAt) {

        /**
         * Returns the earliest time from which the grant counts. If Redis executes a late request, its charge has the
         * time of the request.
         */
        long countsFrom() {
            return source == Source.LOCAL ? at - TimeUnit.NANOSECONDS.toMillis(decidedAt - requestedAt) - 1 : at;
        }
    }

    private static final Duration LONG = Duration.ofHours(1);

    /** In milliseconds. A request for a count with such a window has no other count. */
    private static final long SHORT = 100;

    private final Map<String, CountGrants> counts = new ConcurrentHashMap<>();

    /** The time since which Redis has lost no data, in milliseconds and nanoseconds. */
    private volatile long lostAt = Long.MIN_VALUE;

    private volatile long lostAtNanos = Long.MIN_VALUE;

    /** The time until which no empty Redis could report zero usage. */
    private volatile long emptyAtNanos = Long.MIN_VALUE;

    /** After a failover, the time until which the replicas had all grants of the old primary. */
    private volatile long replicatedUntil = Long.MIN_VALUE;

    private volatile boolean closed;

    /** Discards all grants and ignores later ones. */
    void close() {
        closed = true;
        counts.clear();
    }

    void add(Decision decision, long requestedAt, long decidedAt) {
        if (closed || !decision.isCharged()) {
            return;
        }
        long at = decision.at().toEpochMilli();
        for (Claim claim : DecidedClaims.of(decision)) {
            counts.computeIfAbsent(claim.identity(), identity -> new CountGrants(claim))
                    .add(new Grant(decision.source(), claim.permits(), at, requestedAt, decidedAt));
        }
    }

    /** Records that Redis was killed and lost its data. */
    void recordDataLoss() {
        lostAt = System.currentTimeMillis();
        lostAtNanos = System.nanoTime();
        emptyAtNanos = Long.MAX_VALUE;
    }

    /** Records that an empty Redis is about to start. */
    void recordEmptyRestart() {
        emptyAtNanos = System.nanoTime();
    }

    /** Records that a replica with all grants so far is about to be promoted. Later grants may be lost. */
    void recordFailoverStart() {
        replicatedUntil = System.currentTimeMillis();
        emptyAtNanos = System.nanoTime();
    }

    /** Records that there is no reachable primary. Local grants from now on must be charged in the new one. */
    void recordPrimaryUnreachable() {
        lostAtNanos = System.nanoTime();
        emptyAtNanos = lostAtNanos;
    }

    /** Records that the old primary no longer decides. Later grants are not lost. */
    void recordFailoverEnd() {
        lostAt = System.currentTimeMillis();
        if (isNothingLost()) {
            lostAtNanos = System.nanoTime();
        }
    }

    boolean isNothingLost() {
        return lostAtNanos == Long.MIN_VALUE;
    }

    /** Returns the number of short counts, and of those that have a grant of Redis since the failover. */
    List<Long> shortCountsAndThoseGrantedAgain() {
        List<CountGrants> some = counts.values().stream()
                .filter(count -> count.claim.limit().window().toMillis() <= SHORT)
                .toList();
        long again = some.stream()
                .filter(count -> count.grants(Source.REDIS).stream().anyMatch(grant -> grant.at > lostAt))
                .count();
        return List.of((long) some.size(), again);
    }

    /** Returns the counts from which nothing expires during a test. */
    List<CountGrants> lasting() {
        return counts.values().stream().filter(CountGrants::isLasting).toList();
    }

    /**
     * Asserts that each Redis kept the limit for the grants it knew. After a failover, the new primary counts the
     * replicated grants; later grants of the old primary may be lost, so both together may grant twice the limit.
     */
    void assertRedisNeverExceededTheLimit() {
        for (CountGrants count : counts.values()) {
            List<Grant> granted = count.grants(Source.REDIS);
            if (replicatedUntil != Long.MIN_VALUE) {
                assertNoWindowHoldsMore(
                        count,
                        filter(granted, grant -> grant.at < replicatedUntil || grant.at > lostAt),
                        count.permits());
                assertNoWindowHoldsMore(count, granted, 2 * count.permits());
                continue;
            }
            assertNoWindowHoldsMore(count, filter(granted, grant -> grant.at <= lostAt), count.permits());
            assertNoWindowHoldsMore(count, filter(granted, grant -> grant.at > lostAt), count.permits());
        }
    }

    /**
     * Asserts that Redis and the local store together kept the limit; for tests with one instance. Only grants lost
     * with a Redis may be granted again. Counts with a reply as slow as their window are skipped, because the grants
     * that the reply is compared with may have expired.
     */
    void assertBothStoresTogetherKeptTheLimit() {
        for (CountGrants count : counts.values()) {
            if (count.longestTrip() >= TimeUnit.MILLISECONDS.toNanos(LimitKind.reach(count.claim.limit()))) {
                continue;
            }
            List<Grant> granted = count.grants();
            assertNoWindowHoldsMore(count, filter(granted, this::isKnownToNewRedis), count.permits());
            if (replicatedUntil == Long.MIN_VALUE) {
                assertNoWindowHoldsMore(count, filter(granted, grant -> !isKnownToNewRedis(grant)), count.permits());
            }
        }
    }

    /**
     * Asserts that the local store kept its share until the reconciliation. Reconciled grants count by the share only,
     * like the usage of other instances. They are lost with their Redis, and the new one then reports less usage.
     */
    void assertLocalStoreKeptItsShare(double share, long reconciledFrom) {
        for (CountGrants count : counts.values()) {
            List<Grant> granted = count.grants(Source.LOCAL);
            long newRedisAt = lessUsageAt(count, granted);
            assertKeptItsShare(count, filter(granted, grant -> grant.decidedAt < newRedisAt), share, reconciledFrom);
            assertKeptItsShare(count, filter(granted, grant -> grant.decidedAt >= newRedisAt), share, reconciledFrom);
        }
    }

    /**
     * Returns the latest time at which a new Redis may first have reported less usage. During a failover, the old
     * primary still charges grants, and loses them; the client changes to the new one at a time that is not known here.
     */
    private long lessUsageAt(CountGrants count, List<Grant> granted) {
        if (isNothingLost()) {
            return Long.MAX_VALUE;
        }
        if (replicatedUntil == Long.MIN_VALUE) {
            return emptyAtNanos;
        }
        Grant excess = firstExcess(count, filter(granted, grant -> grant.decidedAt < lostAtNanos), count.permits());
        return excess == null ? lostAtNanos : Math.max(emptyAtNanos, excess.decidedAt);
    }

    private static void assertKeptItsShare(CountGrants count, List<Grant> granted, double share, long reconciledFrom) {
        long most = Math.max(1, (long) Math.floor(count.permits() * share));
        assertNoWindowHoldsMore(count, filter(granted, grant -> grant.decidedAt < reconciledFrom), most);
        assertNoWindowHoldsMore(count, granted, count.permits());
    }

    private boolean isDecidedBeforeEmptyRestart(Grant grant) {
        return isNothingLost() || grant.decidedAt < emptyAtNanos;
    }

    /**
     * Asserts that each local decision counted all earlier grants: its share of those of Redis and of reconciled ones,
     * and all other local ones.
     */
    void assertLocalStoreCountedAllKnownGrants(double share) {
        lasting().forEach(count -> assertCountedAllKnownGrants(count, share));
    }

    private void assertCountedAllKnownGrants(CountGrants count, double share) {
        List<Grant> all = count.grants();
        List<Grant> known = filter(all, this::isKnownToNewRedis);
        Sums everything = new Sums(all);
        Sums sinceLost = new Sums(known);
        long most = Math.max(1, (long) Math.floor(count.permits() * share));
        for (Grant grant : all) {
            if (grant.source == Source.LOCAL) {
                // Two calls: with one, on whichever of the two, JDK 25.0.3 once reported that it was null.
                long decidedAt = isDecidedBeforeEmptyRestart(grant)
                        ? everything.decidedBefore(grant.requestedAt)
                        : sinceLost.decidedBefore(grant.requestedAt);
                long before = (long) Math.ceil(decidedAt * share);
                assertThat(before + grant.permits)
                        .as("%s of %s, with the grants known at its request", grant, count)
                        .isLessThanOrEqualTo(most);
            }
        }
    }

    /** Returns the permits that Redis must hold at least: all granted since its last loss of data. */
    long leastChargedInRedis(CountGrants count) {
        return sum(filter(count.grants(), this::isKnownToNewRedis));
    }

    /** Returns the permits that Redis may hold at most if no reply is lost, with those that instances restore. */
    long mostChargedInRedis(CountGrants count) {
        return sum(count.grants());
    }

    private boolean isKnownToNewRedis(Grant grant) {
        return grant.source == Source.REDIS
                ? grant.at > lostAt || grant.at < replicatedUntil
                : grant.requestedAt >= lostAtNanos;
    }

    private static void assertNoWindowHoldsMore(CountGrants count, List<Grant> grants, long most) {
        Grant excess = firstExcess(count, grants, most);
        if (excess != null) {
            long window = count.claim.limit().window().toMillis();
            fail("more than " + most + " permits granted in the window that ends with " + excess + " of " + count
                    + "; all around that:" + count.around(excess.decidedAt, 2 * window));
        }
    }

    /**
     * Returns the first grant with which a window holds more; null if there is none. Checks logs, and long counters;
     * the windows of a short counter start at times that are not known here.
     */
    private static @Nullable Grant firstExcess(CountGrants count, List<Grant> grants, long most) {
        if (count.claim.limit() instanceof Limit.Bucket) {
            return firstAboveTheBurst(count, grants, most);
        } else if (!(count.claim.limit() instanceof Limit.Log) && !count.isLasting()) {
            return null;
        }
        long window = count.claim.limit().window().toMillis();
        PriorityQueue<Grant> counting = new PriorityQueue<>(Comparator.comparingLong(Grant::countsFrom));
        long sum = 0;
        for (Grant grant :
                grants.stream().sorted(Comparator.comparingLong(Grant::at)).toList()) {
            counting.add(grant);
            sum += grant.permits;
            while (!counting.isEmpty() && grant.at - counting.element().countsFrom() >= window) {
                sum -= counting.remove().permits;
            }
            if (sum > most && sum(filter(counting, before -> isCompared(count, grant, before))) > most) {
                return grant;
            }
        }
        return null;
    }

    /**
     * Returns the first grant that does not fit into a bucket; null if none does. A grant of Redis was compared with
     * the local ones when its reply arrived, so permits may have returned for as long as a request took.
     */
    private static @Nullable Grant firstAboveTheBurst(CountGrants count, List<Grant> grants, long most) {
        Limit limit = count.claim.limit();
        long window = limit.window().toMillis();
        long capacity = most * window + limit.permits() * (1 + count.longestTrip() / 1_000_000);
        long level = 0;
        long before = 0;
        for (Grant grant :
                grants.stream().sorted(Comparator.comparingLong(Grant::at)).toList()) {
            level = Math.max(0, level - (grant.at - before) * limit.permits()) + grant.permits * window;
            before = grant.at;
            if (level > capacity) {
                return grant;
            }
        }
        return null;
    }

    /**
     * Whether the instance compares a grant with one before it. It does so when the reply of Redis arrives: a local
     * grant that has left the window since Redis decided counts no more.
     */
    private static boolean isCompared(CountGrants count, Grant grant, Grant before) {
        return grant.source != Source.REDIS
                || before.source != Source.LOCAL
                || grant.decidedAt - before.requestedAt
                        < count.claim.limit().window().toNanos();
    }

    private static List<Grant> filter(Collection<Grant> grants, Predicate<Grant> wanted) {
        return grants.stream().filter(wanted).toList();
    }

    static long sum(Collection<Grant> grants) {
        return grants.stream().mapToLong(Grant::permits).sum();
    }

    /** All grants of one count. */
    static final class CountGrants {

        private final Claim claim;
        private final List<Grant> grants = new ArrayList<>();

        CountGrants(Claim claim) {
            this.claim = claim;
        }

        Claim claim() {
            return claim;
        }

        private boolean isLasting() {
            Limit limit = claim.limit();
            return limit.window().compareTo(LONG) >= 0;
        }

        private long permits() {
            return claim.limit().capacity();
        }

        private long longestTrip() {
            return grants().stream()
                    .mapToLong(grant -> grant.decidedAt - grant.requestedAt)
                    .max()
                    .orElse(0);
        }

        private synchronized void add(Grant grant) {
            grants.add(grant);
        }

        synchronized List<Grant> grants() {
            return List.copyOf(grants);
        }

        List<Grant> grants(Source source) {
            return filter(grants(), grant -> grant.source == source);
        }

        /** Returns the grants around a time, for the failure message. */
        private String around(long decidedAt, long millis) {
            StringBuilder text = new StringBuilder();
            grants().stream()
                    .filter(grant -> Math.abs(grant.decidedAt - decidedAt) < millis * 1_000_000)
                    .sorted(Comparator.comparingLong(Grant::decidedAt))
                    .forEach(grant -> text.append(String.format(
                            Locale.ROOT,
                            "%n%s %d at %d, requested %.3f ms and decided %.3f ms after it",
                            grant.source,
                            grant.permits,
                            grant.at,
                            (grant.requestedAt - decidedAt) / 1e6,
                            (grant.decidedAt - decidedAt) / 1e6)));
            return text.toString();
        }

        @Override
        public String toString() {
            return claim.identity() + " under " + claim.limit();
        }
    }

    /** The sum of the permits granted by each time. */
    private static final class Sums {

        private final long[] decidedAt;
        private final long[] sums;

        Sums(List<Grant> grants) {
            List<Grant> sorted = grants.stream()
                    .sorted(Comparator.comparingLong(Grant::decidedAt))
                    .toList();
            decidedAt = sorted.stream().mapToLong(Grant::decidedAt).toArray();
            sums = sorted.stream().mapToLong(Grant::permits).toArray();
            Arrays.parallelPrefix(sums, Long::sum);
        }

        long decidedBefore(long requestedAt) {
            int i = Arrays.binarySearch(decidedAt, requestedAt);
            int before = i < 0 ? -i - 1 : i;
            while (before > 0 && decidedAt[before - 1] >= requestedAt) {
                before--;
            }
            return before == 0 ? 0 : sums[before - 1];
        }
    }
}
