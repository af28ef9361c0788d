package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.failover.LeaseProcess.Grant;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Mono;

/**
 * Instances in two processes lease from one log or token bucket, or do not, while the processes and Redis stop and go
 * on, and a process is killed. No window has more than the limit, by the times of the decisions.
 */
class LeaseProcessesTest {

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<LeaseProcess> processes = new ArrayList<>();
    private final Random random = new Random();

    @AfterEach
    void close() throws IOException {
        for (LeaseProcess process : processes) {
            process.close();
        }
        redis.close();
    }

    @ParameterizedTest
    @CsvSource({"2, 0, 3000/2s", "1, 1, 20000/10s", "2, 1, 2000/1s burst=400"})
    @Thorough
    void noWindowHasMoreThanTheLimit(int leasing, int others, String limit) throws Exception {
        run(leasing, others, Limit.parse(limit), 5);
    }

    @ParameterizedTest
    @CsvSource({
        "1, 0, 200/1s",
        "2, 2, 3000/1s",
        "8, 0, 5000/2s resolution=7ms",
        "4, 4, 20000/10s",
        "8, 0, 60000/1m",
        "2, 2, 3000/1s burst=600",
        "8, 0, 60000/1m burst=3000",
        "4, 4, 2000/1s burst=2000",
    })
    @Proof
    void noWindowHasMoreThanTheLimitInALongRun(int leasing, int others, String limit) throws Exception {
        run(leasing, others, Limit.parse(limit), 40);
    }

    private void run(int leasing, int others, Limit limit, int stalls) throws Exception {
        String uri = redis.uri().toURI().toString();
        for (int i = 0; i < 2; i++) {
            processes.add(LeaseProcess.start(uri, limit, leasing, others));
        }
        await().atMost(Duration.ofMinutes(1)).until(() -> leased() > 50);
        for (int i = 0; i < stalls; i++) {
            LeaseProcess stalled = processes.get(random.nextInt(processes.size()));
            boolean isRedis = random.nextInt(3) == 0;
            if (isRedis) {
                redis.pause();
            } else {
                stalled.signal("STOP");
            }
            pause(400);
            if (isRedis) {
                redis.resume();
            } else {
                stalled.signal("CONT");
            }
            pause(600);
        }
        processes.get(0).close();
        processes.add(LeaseProcess.start(uri, limit, leasing, others));
        long before = leased();
        await().atMost(Duration.ofMinutes(1)).until(() -> leased() > before + 20);
        for (LeaseProcess process : processes) {
            process.close();
        }
        assertThat(mostInAWindow(limit)).isLessThanOrEqualTo(limit.burst());
    }

    /** Stalls have a duration, so this has one too. */
    private void pause(int most) {
        Mono.delay(Duration.ofMillis(1 + random.nextInt(most))).block();
    }

    private long leased() {
        return processes.stream()
                .flatMap(process -> process.grants().stream())
                .filter(Grant::isLeased)
                .count();
    }

    private long mostInAWindow(Limit limit) {
        List<Grant> grants = processes.stream()
                .flatMap(process -> process.grants().stream())
                .sorted(Comparator.comparingLong(Grant::at))
                .toList();
        if (limit.algorithm() == Algorithm.BUCKET) {
            GrantedBucket bucket = new GrantedBucket(limit);
            grants.forEach(grant -> bucket.take(grant.at(), grant.permits()));
            return bucket.most();
        }
        Deque<Grant> window = new ArrayDeque<>();
        long most = 0;
        long permits = 0;
        for (Grant grant : grants) {
            window.add(grant);
            permits += grant.permits();
            while (window.getFirst().at() <= grant.at() - limit.window().toMillis()) {
                permits -= window.remove().permits();
            }
            most = Math.max(most, permits);
        }
        return most;
    }
}
