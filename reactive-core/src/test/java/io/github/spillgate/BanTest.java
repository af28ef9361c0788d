package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.local.LocalStore;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** The limit that bans or pauses a key; {@code BanStoresTest} has what it does. */
class BanTest {

    private static final Limit.Ban BAN = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));

    @Test
    void theTextFormHasAllSettings() {
        assertThat(Limit.parse("ban 1h after 3/10m")).isEqualTo(BAN);
        assertThat(Limit.parse(" ban  60m after 3/600s growing name=login "))
                .isEqualTo(BAN.growing().named("login"));
        assertThat(Limit.parse("pausable")).isEqualTo(Limit.pausable());
        assertThat(BAN.growing().named("x")).hasToString("ban 1h after 3/10m growing name=x");
        assertThat(Limit.pausable().named("x")).hasToString("pausable name=x");
        assertThat(BAN.name()).isEqualTo("ban");
        assertThat(Limit.pausable().name()).isEqualTo("pause");
    }

    @ParameterizedTest
    @ValueSource(strings = {"ban 1h after 3/10m", "ban 90s after 1/1ms growing", "pausable", "pausable name=partner"})
    void theTextFormIsReadBack(String text) {
        assertThat(Limit.parse(text)).hasToString(text);
        assertThat(Limit.parse(text).takesPermits()).isFalse();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "ban | expected ban, its time, after, and denials/window, but found \"ban\"",
                "ban 1h | expected ban, its time, after, and denials/window, but found \"ban 1h\"",
                "ban 1h after 3 | expected ban, its time, after, and denials/window, but found \"ban 1h after 3\"",
                "ban 1h if 3/10m | expected ban, its time, after, and denials/window, but found \"ban 1h if 3/10m\"",
                "ban x after 3/10m | time \"x\" is not a number of at most 12 digits and one of ms, s, m, h, d",
                "ban 1h after 3/x | window \"x\" is not a number of at most 12 digits and one of ms, s, m, h, d",
                "ban 1h after 0/10m | denials 0 are out of range: expected 1 to 100 for a ban",
                "ban 1h after 101/10m | denials 101 are out of range: expected 1 to 100 for a ban",
                "ban 1h after 99999999999/10m | denials 99999999999 are out of range: expected 1 to 100 for a ban",
                "ban 999d after 3/10m | time of a ban PT23976H is too long: expected at most 366 days",
                "ban 1h after 3/999d | window of a ban PT23976H is too long: expected at most 366 days",
                "ban 1h after 3/10m counting-denied | a ban has only growing and name=…, but found \"counting-denied\"",
                "ban 1h after 3/10m near=80% | a ban has only growing and name=…, but found \"near=\"",
                "pausable growing | pausable has only name=…, but found \"growing\"",
                "pausable growing | but found \"growing\"; for example \"pausable name=partner\"",
                "bandwidth 10/s | but found \"bandwidth\"; for example \"100/1m\"",
                "10/1s growing | growing is for a ban only, such as ban 1h after 3/10m",
            })
    void aWrongTextSaysWhatWasExpected(String text, String message) {
        assertThatThrownBy(() -> Limit.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("limit \"" + text + "\" cannot be read: ")
                .hasMessageContaining(message);
    }

    @Test
    void whatIsForOtherLimitsIsRefused() {
        for (Limit.Ban ban : List.of(BAN, Limit.pausable())) {
            assertThatThrownBy(() -> ban.near(80)).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(ban::leased).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(ban::counter).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(ban::countingDenied).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> ban.burst(1)).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(ban::window).isInstanceOf(IllegalStateException.class);
        }
        assertThatThrownBy(Limit.pausable()::growing)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("\"pausable\" is a pause, which does not grow: expected a ban");
    }

    @Test
    void anotherTimeOrNumberOfDenialsKeepsTheBans() {
        Limit other = Limit.ban(Duration.ofDays(2), 9, Duration.ofSeconds(1)).growing();
        assertThat(other).isNotEqualTo(BAN);
        assertThat(other.identity())
                .isEqualTo(BAN.identity())
                .isNotEqualTo(Limit.pausable().identity());
        assertThat(BAN.growing()).isNotEqualTo(BAN);
        assertThat(Limit.ban(Duration.ofHours(2), 3, Duration.ofMinutes(10))).isNotEqualTo(BAN);
        assertThat(Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(9))).isNotEqualTo(BAN);
        assertThat(Limit.ban(Duration.ofHours(1), 4, Duration.ofMinutes(10))).isNotEqualTo(BAN);
    }

    @Test
    void aKeyWithoutLimitsCannotBeBanned() {
        LimitLookup lookup = LimitLookup.of(
                        key -> Mono.just(key.equals("banned") ? List.of(Limit.perMinute(9), BAN) : List.of()))
                .whenEmpty(LimitLookup.Otherwise.allow());
        RateLimiter limiter = RateLimiter.builder("api")
                .store(LocalStore.bounded(16))
                .limit(Limit.perMinute(9))
                .lookup(lookup)
                .build();
        limiter.ban("banned", Duration.ofHours(1)).block();
        assertThat(limiter.tryAcquire("banned").block().isAllowed()).isFalse();
        limiter.pardon("banned").block();
        assertThat(limiter.tryAcquire("banned").block().isAllowed()).isTrue();
        assertThatThrownBy(() -> limiter.ban("free", Duration.ofHours(1)).block())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith("limiter api cannot ban this key: expected a limit for that");
    }
}
