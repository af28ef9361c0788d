package io.github.spillgate.http.client;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.testkit.JavaProcess;
import io.github.spillgate.testkit.LimiterForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.net.URI;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** One instance of a service, with callers that send requests to a partner without end. */
final class PartnerCallers implements AutoCloseable {

    /** The permits that Redis has granted, by its clock, in milliseconds since 1970. */
    final Queue<Long> grants = new ConcurrentLinkedQueue<>();

    /** When pauses were known to be in Redis, by the clock of this machine. */
    final Queue<Long> pauses = new ConcurrentLinkedQueue<>();

    /** When responses arrived. */
    final Queue<Long> responses = new ConcurrentLinkedQueue<>();

    final AtomicInteger limited = new AtomicInteger();
    final RateLimiter limiter;

    private final RedisClient redis;
    private final Disposable calls;

    PartnerCallers(RedisURI uri, String name, String limit, int callers, Mono<Integer> request, Duration longestWait) {
        redis = RedisClient.create(uri);
        ForwardingLimitStore store = new ForwardingLimitStore(RedisStore.create(redis)) {
            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                return super.correct(corrections).doOnSuccess(done -> pauses.add(System.currentTimeMillis()));
            }
        };
        limiter = RateLimiter.builder(name)
                .store(store)
                .deadline(Duration.ofSeconds(30))
                .limit(Limit.parse(limit))
                .limit(Limit.pausable())
                .listener((of, decision, took) -> {
                    if (decision.isAllowed()) {
                        grants.add(decision.at().toEpochMilli());
                    }
                })
                .build();
        LimiterForTests.awaitReady(limiter);
        Mono<?> call = request == null
                ? limiter.acquire("partner", longestWait)
                : request.doOnNext(status -> responses.add(System.currentTimeMillis()));
        calls = Flux.range(0, callers)
                .flatMap(
                        caller -> call.onErrorResume(RateLimitedException.class, e -> {
                                    limited.incrementAndGet();
                                    return Mono.empty();
                                })
                                // A connection breaks when the partner restarts.
                                .onErrorResume(
                                        e -> Mono.delay(Duration.ofMillis(20)).then(Mono.empty()))
                                .repeat(),
                        callers)
                .subscribe();
    }

    /** Callers of this limiter that only take permits. */
    static PartnerCallers ofPermits(RedisURI uri, String name, String limit, int callers) {
        return new PartnerCallers(uri, name, limit, callers, null, Duration.ofMinutes(5));
    }

    /** Callers that send requests to a partner. */
    static PartnerCallers of(RedisURI uri, String name, String limit, int callers, URI partner) {
        // The limiter exists only after the request was built.
        OutgoingRequests[] requests = new OutgoingRequests[1];
        // Also loads the classes of the client, which blocks.
        Mono<HttpResponse<Void>> get = JdkResponses.get(partner);
        Mono<Integer> request = Mono.defer(() -> requests[0] == null
                ? Mono.delay(Duration.ofMillis(1)).then(Mono.empty())
                : requests[0].send("partner", true, get, JdkResponses.ACCESS).map(response -> response.statusCode()));
        PartnerCallers callersOf = new PartnerCallers(uri, name, limit, callers, request, Duration.ZERO);
        requests[0] = OutgoingRequests.builder(callersOf.limiter)
                .longestWait(Duration.ofMinutes(2))
                .build();
        return callersOf;
    }

    @Override
    public void close() {
        calls.dispose();
        limiter.closeLater().block();
        redis.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** Another process: prints grants and pauses when it gets a line. */
    public static void main(String[] args) throws Exception {
        try (PartnerCallers callers =
                of(RedisURI.create(args[0]), args[1], args[2], Integer.parseInt(args[3]), URI.create(args[4]))) {
            JavaProcess.reportReady();
            System.in.read();
            callers.calls.dispose();
            callers.grants.forEach(at -> System.out.println("grant " + at));
            callers.pauses.forEach(at -> System.out.println("pause " + at));
            System.out.println("end 0");
        }
        System.exit(0);
    }
}
