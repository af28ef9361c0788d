package io.github.spillgate.examples.benchmark.work;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class WorksTest {

    @Test
    void onlyCountsOfLongWindowsStayBetweenTurns() {
        assertThat(Works.all().stream().filter(Work::keepsCounts).map(Work::kind))
                .containsOnly("denied", "denied-keys", "kinds", "three-limits", "zipf");
        assertThat(Works.all().stream().filter(work -> !work.keepsCounts()).map(Work::name))
                .contains("many-keys", "hot-key", "kinds", "keys-10000", "in-flight-64", "cluster", "leased-1")
                .doesNotContain("kinds-busy");
    }
}
