package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
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

/**
 * What callers have been granted: for each count, by which store, when, and how many permits. It knows nothing of what
 * stores think they have granted.
 *
 * <p>A count whose window is an hour or longer forgets nothing while a test runs, so that of it the sums must be right;
 * of the short ones no window may hold too many.
 */
final class Admissions {

    /** Permits that a caller was granted; when is by the clock of the store, asked and told by that of the test. */
    record Grant(Source source, long permits, long at, long asked, long told) {

        /**
         * From when on it fills a window. What the local store grants because Redis is late may turn out to be charged
         * in Redis, when Redis was asked: then it is Redis's grant, which only came late.
         */
        long countsFrom() {
            return source == Source.LOCAL ? at - TimeUnit.NANOSECONDS.toMillis(told - asked) - 1 : at;
        }
    }

    private static final Duration LONG = Duration.ofHours(1);

    /** In milliseconds. Who asks for such a count asks for no other, and is locked out if he gets nothing for long. */
    private static final long SHORT = 100;

    private final Map<String, Page> pages = new ConcurrentHashMap<>();

    /** Since when Redis has had what it has: in milliseconds and nanoseconds. */
    private volatile long lostAt = Long.MIN_VALUE;

    private volatile long lostAtNanos = Long.MIN_VALUE;

    /** Until when there was no new Redis that could have said that nothing is used. */
    private volatile long emptyAtNanos = Long.MIN_VALUE;

    /**
     * Until when all that a primary has granted was known to its replicas as well, if another one has taken its place.
     */
    private volatile long replicatedUntil = Long.MIN_VALUE;

    private volatile boolean closed;

    /** From now on nothing is entered. */
    void close() {
        closed = true;
        pages.clear();
    }

    void add(Decision decision, long asked, long told) {
        if (closed || !decision.isCharged()) {
            return;
        }
        long at = decision.at().toEpochMilli();
        for (Claim claim : DecidedClaims.of(decision)) {
            pages.computeIfAbsent(claim.identity(), identity -> new Page(claim))
                    .add(new Grant(decision.source(), claim.permits(), at, asked, told));
        }
    }

    /** Redis has been killed, and with it all that it knew. */
    void redisIsGone() {
        lostAt = System.currentTimeMillis();
        lostAtNanos = System.nanoTime();
        emptyAtNanos = Long.MAX_VALUE;
    }

    /** It is about to be started again, empty. */
    void redisComesBackEmpty() {
        emptyAtNanos = System.nanoTime();
    }

    /**
     * A replica is about to take the place of its primary, and it knows of all that was granted up to now. What is
     * granted from now on may be lost.
     */
    void failoverBegins() {
        replicatedUntil = System.currentTimeMillis();
        emptyAtNanos = System.nanoTime();
    }

    /** Nobody can reach the old primary any more, and there is no new one yet: whoever asks is owed from now on. */
    void nobodyIsPrimary() {
        lostAtNanos = System.nanoTime();
        emptyAtNanos = lostAtNanos;
    }

    /** The old primary grants nothing any more; from now on nothing is lost. */
    void failoverIsOver() {
        lostAt = System.currentTimeMillis();
        if (hasLostNothing()) {
            lostAtNanos = System.nanoTime();
        }
    }

    boolean hasLostNothing() {
        return lostAtNanos == Long.MIN_VALUE;
    }

    /**
     * How many counts that forget soon there are, and of how many of them Redis has granted something since the
     * failover.
     */
    List<Long> shortOnesAndThoseThatRedisGrantsAgain() {
        List<Page> some = pages.values().stream()
                .filter(page -> page.claim.limit().window().toMillis() <= SHORT)
                .toList();
        long again = some.stream()
                .filter(page -> page.grants(Source.REDIS).stream().anyMatch(grant -> grant.at > lostAt))
                .count();
        return List.of((long) some.size(), again);
    }

    /** The counts that forget nothing while a test runs. */
    List<Page> lasting() {
        return pages.values().stream().filter(Page::isLasting).toList();
    }

    /**
     * What one Redis has granted, by what it knew. After a failover there are two who have granted: each of them keeps
     * to the limit, and the new one counts all that was replicated. What the old one has granted after that may be
     * lost: then nobody knows of it.
     */
    void assertRedisHasNeverGrantedTooMuch() {
        for (Page page : pages.values()) {
            List<Grant> granted = page.grants(Source.REDIS);
            if (replicatedUntil != Long.MIN_VALUE) {
                assertNoWindowHoldsMore(
                        page,
                        filter(granted, grant -> grant.at < replicatedUntil || grant.at > lostAt),
                        page.permits());
                assertNoWindowHoldsMore(page, granted, 2 * page.permits());
                continue;
            }
            assertNoWindowHoldsMore(page, filter(granted, grant -> grant.at <= lostAt), page.permits());
            assertNoWindowHoldsMore(page, filter(granted, grant -> grant.at > lostAt), page.permits());
        }
    }

    /**
     * Both together, where one instance grants all that there is: it knows of both, whoever was under way when one took
     * the other's place. Only what was lost with a Redis is granted once more; and where an answer of Redis took as
     * long as the window, what it has to fit together with may have left that.
     */
    void assertTogetherTheyHaveNeverGrantedTooMuch() {
        for (Page page : pages.values()) {
            if (page.longestTrip() >= page.claim.limit().window().toNanos()) {
                continue;
            }
            List<Grant> granted = page.grants();
            assertNoWindowHoldsMore(page, filter(granted, this::isKnownToNewRedis), page.permits());
            if (replicatedUntil == Long.MIN_VALUE) {
                assertNoWindowHoldsMore(page, filter(granted, grant -> !isKnownToNewRedis(grant)), page.permits());
            }
        }
    }

    /**
     * Its share, until some of it has been reconciled: from then on that counts by the share only, like what others
     * have used; for it is then known to them as well. What has been reconciled is lost with the Redis in which it was,
     * and the local store takes a new one at its word that nothing is used.
     */
    void assertTheLocalStoreHasNeverGrantedTooMuch(double share, long reconciledFrom) {
        for (Page page : pages.values()) {
            List<Grant> granted = page.grants(Source.LOCAL);
            assertTheLocalStoreGrantedItsShare(
                    page, filter(granted, this::isToldWithoutNewRedis), share, reconciledFrom);
            assertTheLocalStoreGrantedItsShare(
                    page, filter(granted, grant -> !isToldWithoutNewRedis(grant)), share, reconciledFrom);
        }
    }

    private static void assertTheLocalStoreGrantedItsShare(
            Page page, List<Grant> granted, double share, long reconciledFrom) {
        long most = Math.max(1, (long) Math.floor(page.permits() * share));
        assertNoWindowHoldsMore(page, filter(granted, grant -> grant.told < reconciledFrom), most);
        assertNoWindowHoldsMore(page, granted, page.permits());
    }

    private boolean isToldWithoutNewRedis(Grant grant) {
        return hasLostNothing() || grant.told < emptyAtNanos;
    }

    /**
     * Whatever a caller had been granted before somebody asked, the local store knew of it: of Redis's grants it counts
     * its share, of its own all, until they are reconciled, and then its share of them too.
     */
    void assertTheLocalStoreHasForgottenNothing(double share) {
        lasting().forEach(page -> assertHasForgottenNothing(page, share));
    }

    private void assertHasForgottenNothing(Page page, double share) {
        List<Grant> all = page.grants();
        List<Grant> known = filter(all, this::isKnownToNewRedis);
        Sums everything = new Sums(all);
        Sums sinceLost = new Sums(known);
        long most = Math.max(1, (long) Math.floor(page.permits() * share));
        for (Grant grant : all) {
            if (grant.source == Source.LOCAL) {
                // Two calls: with one, on whichever of the two, JDK 25.0.3 once reported that it was null.
                long told = isToldWithoutNewRedis(grant)
                        ? everything.toldBefore(grant.asked)
                        : sinceLost.toldBefore(grant.asked);
                long before = (long) Math.ceil(told * share);
                assertThat(before + grant.permits)
                        .as("%s of %s, with what was known when it was asked for", grant, page)
                        .isLessThanOrEqualTo(most);
            }
        }
    }

    /** What Redis must hold at least: all that was granted since it has what it has. */
    long owedToRedis(Page page) {
        return sum(filter(page.grants(), this::isKnownToNewRedis));
    }

    /**
     * What Redis may hold at most, as long as no reply is lost: what was granted here before it was lost may be among
     * it.
     */
    long grantedAtMost(Page page) {
        return sum(filter(page.grants(), grant -> grant.source == Source.LOCAL || grant.at > lostAt));
    }

    private boolean isKnownToNewRedis(Grant grant) {
        return grant.source == Source.REDIS
                ? grant.at > lostAt || grant.at < replicatedUntil
                : grant.asked >= lostAtNanos;
    }

    /**
     * Of a log. A counter holds what it says between the starts of its windows, which nobody sees here; where it
     * forgets nothing, it is like a log.
     */
    private static void assertNoWindowHoldsMore(Page page, List<Grant> grants, long most) {
        if (page.claim.limit().algorithm() != Algorithm.LOG && !page.isLasting()) {
            return;
        }
        long window = page.claim.limit().window().toMillis();
        PriorityQueue<Grant> counting = new PriorityQueue<>(Comparator.comparingLong(Grant::countsFrom));
        long sum = 0;
        for (Grant grant :
                grants.stream().sorted(Comparator.comparingLong(Grant::at)).toList()) {
            counting.add(grant);
            sum += grant.permits;
            while (!counting.isEmpty() && grant.at - counting.element().countsFrom() >= window) {
                sum -= counting.remove().permits;
            }
            if (sum > most && sum(filter(counting, before -> isCompared(page, grant, before))) > most) {
                fail(sum + " permits instead of " + most + " granted in the window that ends with " + grant + " of "
                        + page + "; all around that:" + page.around(grant.told, 2 * window));
            }
        }
    }

    /**
     * Whether the instance compares a grant with one before it. It does so when the reply of Redis arrives: a local
     * grant that has left the window since Redis decided counts no more.
     */
    private static boolean isCompared(Page page, Grant grant, Grant before) {
        return grant.source != Source.REDIS
                || before.source != Source.LOCAL
                || grant.told - before.asked < page.claim.limit().window().toNanos();
    }

    private static List<Grant> filter(Collection<Grant> grants, Predicate<Grant> wanted) {
        return grants.stream().filter(wanted).toList();
    }

    static long sum(Collection<Grant> grants) {
        return grants.stream().mapToLong(Grant::permits).sum();
    }

    /** All that was granted of one count. */
    static final class Page {

        private final Claim claim;
        private final List<Grant> grants = new ArrayList<>();

        Page(Claim claim) {
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
            return claim.limit().permits();
        }

        private long longestTrip() {
            return grants(Source.REDIS).stream()
                    .mapToLong(grant -> grant.told - grant.asked)
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

        /** For the one who wants to know how that could happen. */
        private String around(long told, long millis) {
            StringBuilder text = new StringBuilder();
            grants().stream()
                    .filter(grant -> Math.abs(grant.told - told) < millis * 1_000_000)
                    .sorted(Comparator.comparingLong(Grant::told))
                    .forEach(grant -> text.append(String.format(
                            Locale.ROOT,
                            "%n%s %d at %d, asked %.3f ms and told %.3f ms after it",
                            grant.source,
                            grant.permits,
                            grant.at,
                            (grant.asked - told) / 1e6,
                            (grant.told - told) / 1e6)));
            return text.toString();
        }

        @Override
        public String toString() {
            return claim.identity() + " under " + claim.limit();
        }
    }

    /** How much had been told by when. */
    private static final class Sums {

        private final long[] told;
        private final long[] sums;

        Sums(List<Grant> grants) {
            List<Grant> sorted = grants.stream()
                    .sorted(Comparator.comparingLong(Grant::told))
                    .toList();
            told = sorted.stream().mapToLong(Grant::told).toArray();
            sums = sorted.stream().mapToLong(Grant::permits).toArray();
            Arrays.parallelPrefix(sums, Long::sum);
        }

        long toldBefore(long asked) {
            int i = Arrays.binarySearch(told, asked);
            int before = i < 0 ? -i - 1 : i;
            while (before > 0 && told[before - 1] >= asked) {
                before--;
            }
            return before == 0 ? 0 : sums[before - 1];
        }
    }
}
