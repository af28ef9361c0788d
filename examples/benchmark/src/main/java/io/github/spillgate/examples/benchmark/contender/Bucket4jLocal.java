package io.github.spillgate.examples.benchmark.contender;

import io.github.bucket4j.Bucket;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Bucket4j in this process: a lock-free bucket for each key, in a concurrent map. The map is unbounded, which is an
 * advantage here.
 */
final class Bucket4jLocal implements Contender {

    private final ConcurrentHashMap<String, Bucket> buckets = new ConcurrentHashMap<>();
    private final Rate rate;

    Bucket4jLocal(Setting setting) {
        rate = setting.onlyRate();
    }

    @Override
    public void decide(String key, Answer answer) {
        // Call get first: computeIfAbsent may lock even if the key exists.
        Bucket bucket = buckets.get(key);
        if (bucket == null) {
            bucket = buckets.computeIfAbsent(key, absent -> bucket());
        }
        answer.decided(bucket.tryConsume(1));
    }

    private Bucket bucket() {
        return Bucket.builder()
                .addLimit(limit -> limit.capacity(rate.permits()).refillGreedy(rate.permits(), rate.window()))
                .build();
    }

    @Override
    public void close() {}
}
