package io.github.spillgate.failover.ledger;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** The number of instances that a limiter knows, in virtual time. */
class InstancesTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final CountingStore store = new CountingStore();
    private boolean isNeeded = true;
    private final Instances instances = new Instances(store, () -> isNeeded);

    @Test
    void anInstanceThatNeverRegisteredIsAlone() {
        store.number = Mono.error(new IllegalStateException("down"));
        instances.register("api");
        assertThat(instances.of("api").number()).isEqualTo(1);
    }

    @Test
    void anInstanceRegistersAtOnceAndEveryFiveSeconds() {
        instances.register("api");
        assertThat(store.registrations).containsExactly("api for 20 s");
        time.passMillis(15_000);
        assertThat(store.registrations).hasSize(4);
    }

    @Test
    void aHigherNumberCountsAtOnce() {
        instances.register("api");
        store.number = Mono.just(4);
        time.passMillis(5_000);
        assertThat(instances.of("api").number()).isEqualTo(4);
    }

    @Test
    void aLowerNumberCountsOnceNoRegistrationCanBeMissing() {
        store.number = Mono.just(4);
        instances.register("api");
        store.number = Mono.just(3);
        time.passMillis(25_000);
        assertThat(instances.of("api").number()).isEqualTo(4);
        time.passMillis(5_000);
        assertThat(instances.of("api").number()).isEqualTo(3);
    }

    @Test
    void theFirstInstanceThatIsBackAfterAnOutageDoesNotBelieveThatItIsAlone() {
        store.number = Mono.just(4);
        instances.register("api");
        store.number = Mono.error(new IllegalStateException("down"));
        time.passMillis(600_000);
        assertThat(instances.of("api").number()).isEqualTo(4);
        store.number = Mono.just(1);
        time.passMillis(5_000);
        assertThat(instances.of("api").number()).isEqualTo(4);
        store.number = Mono.just(4);
        time.passMillis(30_000);
        assertThat(instances.of("api").number()).isEqualTo(4);
    }

    @Test
    void aRegistrationThatIsNotAnsweredDelaysNothing() {
        store.number = Mono.just(4);
        instances.register("api");
        store.number = Mono.never();
        time.passMillis(60_000);
        store.number = Mono.just(5);
        time.passMillis(6_000);
        assertThat(instances.of("api").number()).isEqualTo(5);
    }

    @Test
    void withAFixedShareNoInstanceRegisters() {
        isNeeded = false;
        instances.register("api");
        time.passMillis(60_000);
        assertThat(store.registrations).isEmpty();
    }

    @Test
    void theNumberOfLimitersIsBounded() {
        store.number = Mono.just(7);
        for (int i = 0; i < 1_500; i++) {
            instances.register("limiter-" + i);
        }
        store.registrations.clear();
        time.passMillis(5_000);
        assertThat(store.registrations).hasSize(1_000);
        assertThat(instances.of("another").number()).isEqualTo(7);
    }

    @Test
    void theEndRemovesTheRegistrations() {
        instances.register("api");
        instances.register("login");
        store.registrations.clear();
        instances.end(true).block();
        assertThat(store.registrations).containsExactlyInAnyOrder("api for 0 s", "login for 0 s");
        time.passMillis(60_000);
        instances.register("late");
        assertThat(store.registrations).hasSize(2);
    }

    /** A store that returns a number of instances. */
    private static final class CountingStore extends Unprotected {

        private final List<String> registrations = new ArrayList<>();
        private Mono<Integer> number = Mono.just(1);

        CountingStore() {
            super(LocalStore.bounded(16));
        }

        @Override
        public Mono<Integer> register(String limiter, UUID instance, Duration lifetime) {
            registrations.add(limiter + " for " + lifetime.toSeconds() + " s");
            return number;
        }
    }
}
