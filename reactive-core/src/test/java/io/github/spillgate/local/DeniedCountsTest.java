package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.Count;
import io.github.spillgate.count.RateCount;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Which denied counts are protected from eviction, and which one a new count replaces. */
class DeniedCountsTest {

    private static final long NOW = 1_790_000_000_000L;
    private static final long AN_HOUR = 3_600_000;

    /** The time without a denial after which a count may be replaced. */
    private static final long PATIENCE = 10_000;

    private final List<Object> back = new ArrayList<>();
    private final DeniedCounts<Count> protectedCounts = new DeniedCounts<>(3, (handle, count) -> back.add(handle));

    @Test
    void aProtectedCountIsFoundByItsHandle() {
        assertThat(protectedCounts.get("a")).isNull();
        Count a = keep("a", NOW + AN_HOUR, NOW);
        assertThat(protectedCounts.get("a")).isSameAs(a);
        assertThat(protectedCounts.get("b")).isNull();
        assertThat(protectedCounts.size()).isEqualTo(1);
        assertThat(a.isProtected()).isTrue();
    }

    @Test
    void aCountDeniedAgainTakesNoSecondPlace() {
        Count a = keep("a", NOW + AN_HOUR, NOW);
        protectedCounts.keep("a", a, NOW + AN_HOUR, NOW + 1);
        keep("b", NOW + AN_HOUR, NOW + 1);
        keep("c", NOW + AN_HOUR, NOW + 1);
        assertThat(protectedCounts.size()).isEqualTo(3);
        assertThat(back).isEmpty();
        assertThat(protectedCounts.get("c")).isNotNull();
    }

    @Test
    void aFullTableRejectsANewCountWhileAllOthersAreActive() {
        fill(NOW + AN_HOUR);
        Count late = keep("late", NOW + AN_HOUR, NOW + PATIENCE - 1);
        assertThat(protectedCounts.get("late")).isNull();
        assertThat(late.isProtected()).isFalse();
        assertThat(protectedCounts.size()).isEqualTo(3);
        assertThat(back).isEmpty();
    }

    @Test
    void noCountIsReplacedBeforeItsExpiry() {
        fill(NOW + 1_000);
        keep("late", NOW + AN_HOUR, NOW + 999);
        assertThat(protectedCounts.get("late")).isNull();
        assertThat(back).isEmpty();
    }

    @Test
    void anExpiredCountIsReplacedAndReturnsToTheCache() {
        List<Count> before = fill(NOW + 1_000);
        keep("late", NOW + AN_HOUR, NOW + 1_000);
        assertThat(protectedCounts.get("late")).isNotNull();
        assertThat(back).containsExactly("a");
        assertThat(protectedCounts.get("a")).isNull();
        assertThat(before.get(0).isProtected()).isFalse();
        assertThat(before.get(0).isEvicted()).isFalse();
        assertThat(protectedCounts.size()).isEqualTo(3);
    }

    /** Otherwise a thread that has found it before would go on to decide on it. */
    @Test
    void aCountThatTheCacheEvictsAtOnceIsMarked() {
        DeniedCounts<Count> beforeAFullCache = new DeniedCounts<>(1, (handle, count) -> back.add(count.evict()));
        Count count = RateCount.of(Limit.perHour(1));
        beforeAFullCache.keep("a", count, NOW + 1_000, NOW);
        beforeAFullCache.keep("late", RateCount.of(Limit.perHour(1)), NOW + AN_HOUR, NOW + 1_000);
        assertThat(back).containsExactly(true);
        assertThat(count.isEvicted()).isTrue();
    }

    @Test
    void aCountWithoutRecentDenialsIsReplaced() {
        fill(NOW + AN_HOUR);
        keep("late", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(protectedCounts.get("late")).isNotNull();
        assertThat(back).containsExactly("a");
    }

    @Test
    void aCountWithRecentDenialsKeepsItsPlace() {
        List<Count> before = fill(NOW + AN_HOUR);
        protectedCounts.keep("a", before.get(0), NOW + AN_HOUR, NOW + PATIENCE - 1);
        keep("late", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(back).containsExactly("b");
        assertThat(protectedCounts.get("a")).isSameAs(before.get(0));
        assertThat(protectedCounts.get("late")).isNotNull();
    }

    @Test
    void aLongerDenialExtendsTheProtection() {
        List<Count> before = fill(NOW + 1_000);
        protectedCounts.keep("a", before.get(0), NOW + AN_HOUR, NOW + 500);
        keep("late", NOW + AN_HOUR, NOW + 1_000);
        assertThat(back).containsExactly("b");
        assertThat(protectedCounts.get("a")).isSameAs(before.get(0));
    }

    /** A newcomer costs no more than a look at two, however many there are. */
    @Test
    void onlyTheTwoOldestCountsAreCheckedForReplacement() {
        List<Count> before = fill(NOW + AN_HOUR);
        protectedCounts.keep("a", before.get(0), NOW + AN_HOUR, NOW + PATIENCE);
        protectedCounts.keep("b", before.get(1), NOW + AN_HOUR, NOW + PATIENCE);
        keep("late", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(protectedCounts.get("late")).isNull();
        assertThat(back).isEmpty();
        // Those two have had their look, and the third is next.
        keep("later", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(protectedCounts.get("later")).isNotNull();
        assertThat(back).containsExactly("c");
    }

    @Test
    void aClockStepBackEndsTheProtection() {
        fill(NOW + AN_HOUR);
        keep("late", NOW, NOW - AN_HOUR);
        assertThat(protectedCounts.get("late")).isNotNull();
        assertThat(back).containsExactly("a");
    }

    @Test
    void anEvictedCountIsNotProtected() {
        Count forgotten = RateCount.of(Limit.perHour(1));
        assertThat(forgotten.evict()).isTrue();
        protectedCounts.keep("a", forgotten, NOW + AN_HOUR, NOW);
        assertThat(protectedCounts.get("a")).isNull();
        assertThat(protectedCounts.size()).isZero();
        fill(NOW + AN_HOUR);
        assertThat(protectedCounts.get("c")).isNotNull();
    }

    private List<Count> fill(long until) {
        return List.of(keep("a", until, NOW), keep("b", until, NOW), keep("c", until, NOW));
    }

    private Count keep(String handle, long until, long now) {
        Count count = RateCount.of(Limit.perHour(1));
        protectedCounts.keep(handle, count, until, now);
        return count;
    }
}
