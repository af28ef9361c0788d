package io.github.spillgate;

import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.JavaProcess;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Flux;

/** Another process that waits for permits of a limiter, like another instance of a service. */
final class AnotherProcess implements AutoCloseable {

    private final JavaProcess process;
    private final List<Long> grants = new ArrayList<>();

    private AnotherProcess(JavaProcess process) {
        this.process = process;
    }

    /** Starts the process, and returns when it is connected. */
    static AnotherProcess start(String uri, String limiter, Limit limit, int calls) throws IOException {
        return new AnotherProcess(JavaProcess.start(AnotherProcess.class, uri, limiter, limit, calls)
                .awaitReady());
    }

    /** Starts its waits, and returns when it has its first permit. */
    void go() throws IOException {
        process.writeLine("");
        grants.add(Long.parseLong(process.readLine()));
    }

    /** Waits until it has all permits, and returns the times of the grants. */
    List<Long> grants() throws IOException {
        for (String line = process.readLine(); line != null; line = process.readLine()) {
            grants.add(Long.parseLong(line));
        }
        return grants;
    }

    @Override
    public void close() {
        process.close();
    }

    public static void main(String[] args) throws IOException {
        RedisClient client = RedisClient.create(args[0]);
        RateLimiter limiter = RateLimiter.builder(args[1])
                .store(new Unprotected(RedisStore.create(client)))
                .limit(Limit.parse(args[2]))
                .build();
        int calls = Integer.parseInt(args[3]);
        limiter.peek("a").block();
        JavaProcess.reportReady();
        System.in.read();
        Flux.range(0, calls)
                .flatMap(i -> limiter.acquire("a", Duration.ofMinutes(1)), calls)
                .toStream()
                .forEach(decision -> System.out.println(decision.at().toEpochMilli()));
        client.shutdown();
    }
}
