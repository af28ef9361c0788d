package io.github.spillgate.examples.pipeline;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Two instances of a service call one partner, who allows five calls a second, and no more in any second, wherever it starts.
 * Both ask the same Redis; whoever is denied comes back when the decision says.
 */
public final class PartnerCalls {

    private static final Limit PARTNER_ALLOWS = Limit.perSecond(5);
    private static final int CALLS_OF_EACH = 12;

    private PartnerCalls() {}

    public static void main(String[] args) throws IOException {
        try (ExampleRedis redis = ExampleRedis.start()) {
            System.out.printf("Redis: %s%n", redis.name());
            System.out.printf(
                    "The partner allows %s; instances A and B have %d calls to make each.%n%n",
                    PARTNER_ALLOWS, CALLS_OF_EACH);
            RedisClient clientOfA = RedisClient.create(redis.uri());
            RedisClient clientOfB = RedisClient.create(redis.uri());
            try {
                Flux.merge(instance("A", clientOfA), instance("B", clientOfB))
                        .collectList()
                        .doOnNext(PartnerCalls::report)
                        .block(Duration.ofMinutes(1));
            } finally {
                clientOfA.shutdown();
                clientOfB.shutdown();
            }
        }
    }

    /** One instance of the service: its own client and its own limiter. They share a limit because they share its name. */
    private static Flux<Decision> instance(String instance, RedisClient client) {
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(RedisStore.create(client))
                .limit(PARTNER_ALLOWS)
                .build();
        return Flux.range(1, CALLS_OF_EACH).concatMap(number -> permit(limiter, instance, number));
    }

    private static Mono<Decision> permit(RateLimiter limiter, String instance, int number) {
        return limiter.tryAcquire("vat-service").flatMap(decision -> {
            if (decision.isAllowed()) {
                say(decision, instance, "call " + number + ", " + decision.remaining() + " left for now");
                return Mono.just(decision);
            }
            Duration wait = decision.retryAfter().orElseThrow();
            say(decision, instance, "call " + number + " has to wait " + wait.toMillis() + " ms");
            return Mono.delay(wait).then(Mono.defer(() -> permit(limiter, instance, number)));
        });
    }

    private static void say(Decision decision, String instance, String text) {
        System.out.printf("%tT.%<tL  %s  %s%n", decision.at().toEpochMilli(), instance, text);
    }

    /** The instants are Redis's own, so they tell the truth about any second. */
    private static void report(List<Decision> allowed) {
        List<Instant> calls = allowed.stream().map(Decision::at).sorted().toList();
        long most = calls.stream()
                .mapToLong(first -> calls.stream()
                        .filter(call -> !call.isBefore(first) && call.isBefore(first.plusSeconds(1)))
                        .count())
                .max()
                .orElse(0);
        Duration took = Duration.between(calls.get(0), calls.get(calls.size() - 1));
        System.out.printf(
                Locale.ROOT,
                "%n%d calls in %.1f s; the fullest second held %d.%n",
                calls.size(),
                took.toMillis() / 1000.0,
                most);
    }
}
