package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;

/** Several connections take from one bucket at the same time. Each decision is checked at its own instant. */
class BucketContentionTest {

    private static final int CONNECTIONS = 8;

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final List<RedisStore> stores = IntStream.range(0, CONNECTIONS)
            .mapToObj(i -> RedisStore.create(client))
            .toList();

    @AfterEach
    void shutdown() {
        stores.forEach(RedisStore::close);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @ParameterizedTest
    @ValueSource(strings = {"1000/1s burst=50", "7/30ms burst=4", "100000/1m burst=700"})
    void noIntervalHasMoreThanTheBurstAndTheRateAndNoPermitIsLost(String text) {
        takeAtTheSameTime(text, 4_000);
    }

    @Test
    @Proof
    void noPermitIsLostInAMillionDecisions() {
        takeAtTheSameTime("7/30ms burst=4", 1_000_000 / CONNECTIONS);
    }

    private void takeAtTheSameTime(String text, int number) {
        Limit limit = Limit.parse(text);
        Charge charge = Charge.of(UUID.randomUUID().toString(), limit);
        List<Decision> decisions = Flux.fromIterable(stores)
                .map(store -> Unprotected.limiter(store))
                .flatMap(limiter -> Flux.range(0, number).flatMap(i -> limiter.tryAcquire(charge), 16), CONNECTIONS)
                .collectList()
                .block();
        Map<Long, List<Decision>> byTime = decisions.stream()
                .collect(Collectors.groupingBy(
                        decision -> decision.at().toEpochMilli(), TreeMap::new, Collectors.toList()));
        long permit = limit.window().toMillis();
        long capacity = limit.capacity() * permit;
        long level = 0;
        long before = 0;
        for (Map.Entry<Long, List<Decision>> millisecond : byTime.entrySet()) {
            level = Math.max(0, level - (millisecond.getKey() - before) * limit.permits());
            before = millisecond.getKey();
            long granted =
                    millisecond.getValue().stream().filter(Decision::isAllowed).count();
            level += granted * permit;
            assertThat(level).isLessThanOrEqualTo(capacity);
            if (granted < millisecond.getValue().size()) {
                assertThat(level + permit).as("with a denial").isGreaterThan(capacity);
            }
        }
        assertThat(decisions).hasSize(CONNECTIONS * number);
        assertThat(decisions.stream().filter(decision -> !decision.isAllowed())).isNotEmpty();
    }
}
