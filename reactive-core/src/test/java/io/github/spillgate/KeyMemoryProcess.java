package io.github.spillgate;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.JavaProcess;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.util.stream.IntStream;
import reactor.core.publisher.Flux;

/** A process that charges many keys, and reports how many bytes of its heap each of them takes afterwards. */
final class KeyMemoryProcess {

    static final String LOCAL = "local";

    private static final int WARM_UP = 1_000;
    private static final int IN_FLIGHT = 64;

    private KeyMemoryProcess() {}

    public static void main(String[] args) {
        int keys = Integer.parseInt(args[1]);
        int length = Integer.parseInt(args[2]);
        RateLimiter limiter = limiter(args[0], Limit.parse(args[3]));
        int requests = Integer.parseInt(args[4]);
        // The machine may be busy.
        limiter.ready().retry(10).block();
        String prefix = "x".repeat(length - 8);
        charge(limiter, prefix, 0, WARM_UP, requests);
        long before = used();
        charge(limiter, prefix, WARM_UP, keys, requests);
        long after = used();
        JavaProcess.reportReady();
        System.out.println((after - before) / keys);
        limiter.closeLater().block();
    }

    private static RateLimiter limiter(String store, Limit limit) {
        return RateLimiter.builder("memory")
                .store(store.equals(LOCAL) ? LocalStore.bounded(1_000_000) : RedisStore.create(RedisStore.uri(store)))
                .limit(limit)
                .build();
    }

    private static void charge(RateLimiter limiter, String prefix, int from, int keys, int requests) {
        Flux.fromStream(IntStream.range(from, from + keys).boxed())
                .flatMap(i -> limiter.tryAcquire(prefix + (10_000_000 + i)).repeat(requests - 1), IN_FLIGHT)
                .blockLast();
    }

    /** Returns the bytes that are reachable. A collection is complete when another one frees nothing. */
    private static long used() {
        MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
        long used = Long.MAX_VALUE;
        for (long next = collected(memory); next < used; next = collected(memory)) {
            used = next;
        }
        return used;
    }

    private static long collected(MemoryMXBean memory) {
        memory.gc();
        return memory.getHeapMemoryUsage().getUsed();
    }
}
