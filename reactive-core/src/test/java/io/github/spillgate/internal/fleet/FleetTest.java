package io.github.spillgate.internal.fleet;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.Exchanges;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** The exchanges of a process with a store, in virtual time. */
class FleetTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final CountingStore store = new CountingStore();
    private final Fleet fleet = Fleet.of(store);
    private final List<Fleet.Member> members = new ArrayList<>();

    @Test
    void aProcessThatNeverRegisteredIsAlone() {
        store.number = Mono.error(new IllegalStateException("down"));
        join("api");
        assertThat(number("api")).isEqualTo(1);
    }

    @Test
    void aProcessRegistersSoonAndEveryFiveSeconds() {
        join("api");
        assertThat(store.requests).containsExactly("[api] for 20 s");
        for (int i = 2; i <= 20; i++) {
            time.passMillis(5_000);
            assertThat(store.requests).hasSizeBetween(i, i + 1);
        }
    }

    @Test
    void allLimitersOfAProcessShareOneExchange() {
        for (int i = 0; i < 1_000; i++) {
            members.add(fleet.joinLimiter(new Object(), "limiter-" + i, values -> {}));
        }
        time.passMillis(100);
        assertThat(store.requests).hasSize(1);
        time.passMillis(5_000);
        assertThat(store.requests).hasSize(2);
    }

    @Test
    void aHigherNumberCountsAtOnce() {
        join("api");
        store.number = Mono.just(4);
        time.passMillis(5_000);
        assertThat(number("api")).isEqualTo(4);
    }

    @Test
    void aLowerNumberCountsOnceNoRegistrationCanBeMissing() {
        store.number = Mono.just(4);
        join("api");
        store.number = Mono.just(3);
        time.passMillis(22_000);
        assertThat(number("api")).isEqualTo(4);
        time.passMillis(10_000);
        assertThat(number("api")).isEqualTo(3);
    }

    @Test
    void theFirstProcessThatIsBackAfterAnOutageDoesNotBelieveThatItIsAlone() {
        store.number = Mono.just(4);
        join("api");
        store.number = Mono.error(new IllegalStateException("down"));
        time.passMillis(600_000);
        assertThat(number("api")).isEqualTo(4);
        store.number = Mono.just(1);
        time.passMillis(5_000);
        assertThat(number("api")).isEqualTo(4);
        store.number = Mono.just(4);
        time.passMillis(30_000);
        assertThat(number("api")).isEqualTo(4);
    }

    @Test
    void anExchangeThatIsNotAnsweredDelaysNothing() {
        store.number = Mono.just(4);
        join("api");
        store.number = Mono.never();
        time.passMillis(60_000);
        store.number = Mono.just(5);
        time.passMillis(6_000);
        assertThat(number("api")).isEqualTo(5);
    }

    @Test
    void beyondABoundLimitersUseTheHighestNumber() {
        store.number = Mono.just(7);
        for (int i = 0; i < 1_500; i++) {
            join("limiter-" + i);
        }
        assertThat(store.limiters).isEqualTo(1_001);
        assertThat(number("another")).isEqualTo(7);
    }

    @Test
    void theLastLimiterThatIsClosedEndsTheRegistration() {
        join("api");
        join("login");
        store.requests.clear();
        members.remove(0).leave().block();
        assertThat(store.requests).isEmpty();
        time.passMillis(5_000);
        assertThat(store.requests).containsExactly("[login] for 20 s");
        members.remove(0).leave().block();
        assertThat(store.requests).last().isEqualTo("[] for 0 s");
        store.requests.clear();
        time.passMillis(60_000);
        assertThat(store.requests).isEmpty();
    }

    @Test
    void aProcessThatIsNotRegisteredDoesNotWaitForTheStoreWhenItEnds() {
        store.number = Mono.error(new IllegalStateException("down"));
        join("api");
        store.requests.clear();
        members.remove(0).leave().block();
        assertThat(store.requests).isEmpty();
    }

    @Test
    void aLimiterThatIsNeitherClosedNorUsedEndsItsExchanges() {
        fleet.joinLimiter(new Object(), "lost", values -> {});
        time.passMillis(100);
        assertThat(store.requests).isNotEmpty();
        await().until(() -> {
            System.gc();
            store.requests.clear();
            time.passMillis(10_000);
            return store.requests.isEmpty();
        });
    }

    @Test
    void aStoreThatIsNotUsedAnyMoreIsCollected() {
        WeakReference<LimitStore> unused = new WeakReference<>(new CountingStore());
        Fleet.Member member =
                Fleet.of(Objects.requireNonNull(unused.get())).joinLimiter(new Object(), "api", values -> {});
        time.passMillis(5_000);
        await().until(() -> {
            System.gc();
            return unused.get() == null;
        });
        time.passMillis(5_000);
        assertThat(member.published()).isEmpty();
    }

    @Test
    void storesThatAreEqualAreNotTheSame() {
        CountingStore one = new EqualStore();
        CountingStore other = new EqualStore();
        members.add(Fleet.of(one).joinLimiter(new Object(), "api", values -> {}));
        members.add(Fleet.of(other).joinLimiter(new Object(), "login", values -> {}));
        time.passMillis(100);
        assertThat(one.requests).containsExactly("[api] for 20 s");
        assertThat(other.requests).containsExactly("[login] for 20 s");
        assertThat(Fleet.of(one)).isSameAs(Fleet.of(one));
    }

    @Test
    void aStoreInMemoryIsNotAsked() {
        LimitStore local = LocalStore.bounded(16);
        Fleet.Member member = Fleet.of(local).joinLimiter(new Object(), "api", values -> {});
        time.passMillis(60_000);
        assertThat(member.beat().block()).isNull();
        assertThat(Fleet.of(local).instances().of("api").number()).isEqualTo(1);
    }

    private void join(String limiter) {
        members.add(fleet.joinLimiter(new Object(), limiter, values -> {}));
        time.passMillis(20);
    }

    private int number(String limiter) {
        return fleet.instances().of(limiter).number();
    }

    /** A store that returns a number of instances. */
    private static class CountingStore extends Unprotected {

        private final List<String> requests = new ArrayList<>();
        private Mono<Integer> number = Mono.just(1);
        private int limiters;

        CountingStore() {
            super(LocalStore.bounded(16));
        }

        @Override
        public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
            return Mono.defer(() -> {
                requests.add(request.limiters() + " for " + request.lifetime().toSeconds() + " s");
                limiters = request.limiters().size();
                return number.map(counted -> Exchanges.counted(request, counted));
            });
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }
    }

    /** A store such as a record, which is equal to others. */
    private static final class EqualStore extends CountingStore {

        @Override
        public boolean equals(@Nullable Object other) {
            return other instanceof EqualStore;
        }

        @Override
        public int hashCode() {
            return 1;
        }
    }
}
