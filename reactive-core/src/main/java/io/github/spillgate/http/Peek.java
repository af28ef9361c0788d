package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Looks at more counts than one question to a limiter takes at once; nothing is taken, so the questions need not be
 * one.
 */
final class Peek {

    /** What a question to the limiter is about at most. */
    private static final int MOST_COUNTS = 16;

    private Peek() {}

    static Mono<Decision> at(RateLimiter limiter, List<Charge> charges) {
        return Flux.fromIterable(portions(charges))
                .concatMap(limiter::peek)
                .collectList()
                .map(Peek::joined);
    }

    private static List<List<Charge>> portions(List<Charge> charges) {
        List<List<Charge>> portions = new ArrayList<>(1);
        int counts = MOST_COUNTS;
        for (Charge charge : charges) {
            counts += charge.limits().size();
            if (counts > MOST_COUNTS) {
                portions.add(new ArrayList<>());
                counts = charge.limits().size();
            }
            portions.get(portions.size() - 1).add(charge);
        }
        return portions;
    }

    private static Decision joined(List<Decision> portions) {
        Decision last = portions.get(portions.size() - 1);
        return portions.size() == 1
                ? last
                : Decision.ofPeek(
                        last.source(),
                        last.at().toEpochMilli(),
                        portions.stream().flatMap(one -> one.limits().stream()).toList());
    }
}
