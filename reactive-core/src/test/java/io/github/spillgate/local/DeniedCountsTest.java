package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Who keeps a place among those that are being denied, and who gives it up to a newcomer. */
class DeniedCountsTest {

    private static final long NOW = 1_790_000_000_000L;
    private static final long AN_HOUR = 3_600_000;

    /** Who has not been denied for so long has to give way. */
    private static final long PATIENCE = 10_000;

    private final List<Object> back = new ArrayList<>();
    private final DeniedCounts<Count> apart = new DeniedCounts<>(3, (handle, count) -> back.add(handle));

    @Test
    void whoIsKeptIsFoundUnderHisHandleAndNobodyElseIs() {
        assertThat(apart.get("a")).isNull();
        Count a = keep("a", NOW + AN_HOUR, NOW);
        assertThat(apart.get("a")).isSameAs(a);
        assertThat(apart.get("b")).isNull();
        assertThat(apart.size()).isEqualTo(1);
        assertThat(a.isProtected()).isTrue();
    }

    @Test
    void whoIsDeniedAgainTakesNoSecondPlace() {
        Count a = keep("a", NOW + AN_HOUR, NOW);
        apart.keep("a", a, NOW + AN_HOUR, NOW + 1);
        keep("b", NOW + AN_HOUR, NOW + 1);
        keep("c", NOW + AN_HOUR, NOW + 1);
        assertThat(apart.size()).isEqualTo(3);
        assertThat(back).isEmpty();
        assertThat(apart.get("c")).isNotNull();
    }

    @Test
    void aNewcomerFindsNoPlaceAsLongAsAllWhoCameBeforeStillAsk() {
        fill(NOW + AN_HOUR);
        Count late = keep("late", NOW + AN_HOUR, NOW + PATIENCE - 1);
        assertThat(apart.get("late")).isNull();
        assertThat(late.isProtected()).isFalse();
        assertThat(apart.size()).isEqualTo(3);
        assertThat(back).isEmpty();
    }

    @Test
    void nobodyHasToGiveWayBeforeHisTime() {
        fill(NOW + 1_000);
        keep("late", NOW + AN_HOUR, NOW + 999);
        assertThat(apart.get("late")).isNull();
        assertThat(back).isEmpty();
    }

    @Test
    void whoHasHadHisTimeGivesUpHisPlaceAndGoesBackToAllTheOthers() {
        List<Count> before = fill(NOW + 1_000);
        keep("late", NOW + AN_HOUR, NOW + 1_000);
        assertThat(apart.get("late")).isNotNull();
        assertThat(back).containsExactly("a");
        assertThat(apart.get("a")).isNull();
        assertThat(before.get(0).isProtected()).isFalse();
        assertThat(before.get(0).isEvicted()).isFalse();
        assertThat(apart.size()).isEqualTo(3);
    }

    @Test
    void whoDoesNotAskAnyMoreGivesUpHisPlace() {
        fill(NOW + AN_HOUR);
        keep("late", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(apart.get("late")).isNotNull();
        assertThat(back).containsExactly("a");
    }

    @Test
    void whoGoesOnAskingKeepsHisPlaceAndTheNextGivesHisUp() {
        List<Count> before = fill(NOW + AN_HOUR);
        apart.keep("a", before.get(0), NOW + AN_HOUR, NOW + PATIENCE - 1);
        keep("late", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(back).containsExactly("b");
        assertThat(apart.get("a")).isSameAs(before.get(0));
        assertThat(apart.get("late")).isNotNull();
    }

    @Test
    void whoIsDeniedForLongerKeepsHisPlaceForLonger() {
        List<Count> before = fill(NOW + 1_000);
        apart.keep("a", before.get(0), NOW + AN_HOUR, NOW + 500);
        keep("late", NOW + AN_HOUR, NOW + 1_000);
        assertThat(back).containsExactly("b");
        assertThat(apart.get("a")).isSameAs(before.get(0));
    }

    /** A newcomer costs no more than a look at two, however many there are. */
    @Test
    void onlyTheTwoWhoHaveStayedLongestAreLookedAtForANewcomer() {
        List<Count> before = fill(NOW + AN_HOUR);
        apart.keep("a", before.get(0), NOW + AN_HOUR, NOW + PATIENCE);
        apart.keep("b", before.get(1), NOW + AN_HOUR, NOW + PATIENCE);
        keep("late", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(apart.get("late")).isNull();
        assertThat(back).isEmpty();
        // Those two have had their look, and the third is next.
        keep("later", NOW + AN_HOUR, NOW + PATIENCE);
        assertThat(apart.get("later")).isNotNull();
        assertThat(back).containsExactly("c");
    }

    @Test
    void aClockThatHasSteppedBackFarKeepsNobodyInHisPlace() {
        fill(NOW + AN_HOUR);
        keep("late", NOW, NOW - AN_HOUR);
        assertThat(apart.get("late")).isNotNull();
        assertThat(back).containsExactly("a");
    }

    @Test
    void aCountThatIsForgottenAlreadyIsNotKept() {
        Count forgotten = Count.of(Limit.perHour(1));
        assertThat(forgotten.evict()).isTrue();
        apart.keep("a", forgotten, NOW + AN_HOUR, NOW);
        assertThat(apart.get("a")).isNull();
        assertThat(apart.size()).isZero();
        fill(NOW + AN_HOUR);
        assertThat(apart.get("c")).isNotNull();
    }

    private List<Count> fill(long until) {
        return List.of(keep("a", until, NOW), keep("b", until, NOW), keep("c", until, NOW));
    }

    private Count keep(String handle, long until, long now) {
        Count count = Count.of(Limit.perHour(1));
        apart.keep(handle, count, until, now);
        return count;
    }
}
