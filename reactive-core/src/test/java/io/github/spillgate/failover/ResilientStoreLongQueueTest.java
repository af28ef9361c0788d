package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** More requests than a Redis with little time can decide by the deadline, although it replies to each command. */
class ResilientStoreLongQueueTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration DEADLINE = Duration.ofSeconds(1);
    private static final int REQUESTS = 200;

    /** Takes the time of Redis for 20 ms. */
    private static final String WORK = """
            local function micros()
              local time = redis.call('TIME')
              return time[1] * 1000000 + time[2]
            end
            local start = micros()
            repeat until micros() - start > 20000
            return 1
            """;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> admin = client.connect();
    private final RedisStore store =
            RedisStore.builder(redis.uri()).batching(1, 1, REQUESTS).build();
    private final RateLimiter limiter = RateLimiter.builder("queue")
            .store(store)
            .deadline(DEADLINE)
            .limit(Limit.perHour(1_000_000))
            .build();

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    @Test
    void requestsThatWaitForOthersOpenNoBreakerAndAreNotSentTooLate() {
        limiter.ready().block(LONG);
        limiter.tryAcquire("first").block(LONG);
        long sentBefore = sent();
        Disposable work = Mono.fromCallable(() -> admin.sync().eval(WORK, ScriptOutputType.INTEGER))
                .repeat()
                .subscribeOn(Schedulers.boundedElastic())
                .subscribe();
        List<Source> sources;
        try (LogForTests log = LogForTests.listen()) {
            sources = Flux.range(0, REQUESTS)
                    .flatMap(i -> limiter.tryAcquire("user:" + i), REQUESTS)
                    .map(Decision::source)
                    .collectList()
                    .block(LONG);
            assertThat(limiter.tryAcquire("last").block(LONG).source()).isEqualTo(Source.REDIS);
            assertThat(log.lines("Falling back", store.toString())).isEmpty();
        } finally {
            work.dispose();
        }
        assertThat(sources).hasSize(REQUESTS).contains(Source.REDIS, Source.LOCAL);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(sent() - sentBefore).isLessThan(REQUESTS);
    }

    /** Returns how many decisions Redis has received. */
    private long sent() {
        return admin.sync()
                .info("commandstats")
                .lines()
                .filter(line -> line.startsWith("cmdstat_evalsha:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll(".*calls=(\\d+),.*", "$1")))
                .sum();
    }
}
