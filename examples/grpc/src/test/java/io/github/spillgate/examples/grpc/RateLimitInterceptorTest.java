package io.github.spillgate.examples.grpc;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.WaitQueueCount;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.internal.GrpcUtil;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The interceptor of docs/websockets-and-grpc.md, with a real server, a real client and a real Redis. */
class RateLimitInterceptorTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Limit THREE = Limit.of(3, Duration.ofHours(1));
    private static final Limit ONE_AT_A_TIME = Limit.concurrent(1).hold(Duration.ofSeconds(1));

    private final AtomicInteger asked = new AtomicInteger();
    private final AtomicInteger cancelled = new AtomicInteger();
    private final List<AutoCloseable> open = new CopyOnWriteArrayList<>();
    private RedisForTests redis = RedisForTests.first();

    @AfterEach
    void close() throws Exception {
        for (int i = open.size() - 1; i >= 0; i--) {
            open.get(i).close();
        }
    }

    @Test
    void callsAreAllowedUntilTheLimitAndThenEndWithResourceExhausted() {
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = calls(limiter);
        Channel client = talk.client();
        for (String question : List.of("a", "b", "c")) {
            assertThat(talk.say(client, question)).isEqualTo(question);
        }
        StatusRuntimeException denied = failure(() -> talk.say(client, "d"));
        assertThat(denied.getStatus().getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
        assertThat(Integer.parseInt(Talk.trailer(denied, "retry-after"))).isBetween(3_500, 3_600);
        assertThat(Talk.trailer(denied, "ratelimit-policy")).isEqualTo("\"1h\";q=3;w=3600");
        assertThat(Talk.trailer(denied, "ratelimit")).startsWith("\"1h\";r=0;t=");
        assertThat(Talk.trailer(denied, "grpc-retry-pushback-ms")).isEqualTo("-1");
        assertThat(talk.handled()).containsExactly("aours", "bours", "cours");
        assertThat(used(limiter)).isEqualTo(3);
    }

    @Test
    void responseHeadersContainTheRemainingPermits() {
        Talk talk = calls(limiter(THREE, LONG));
        AtomicReference<Metadata> headers = new AtomicReference<>();
        Channel client = ClientInterceptors.intercept(
                talk.client(), MetadataUtils.newCaptureMetadataInterceptor(headers, new AtomicReference<>()));
        talk.say(client, "a");
        assertThat(headers.get().get(Metadata.Key.of("ratelimit", Metadata.ASCII_STRING_MARSHALLER)))
                .startsWith("\"1h\";r=2;t=");
    }

    @Test
    void theApiKeyOfAClientIsNotSentBack() {
        Talk talk = calls(limiter(THREE, LONG));
        Metadata headers = new Metadata();
        headers.put(Metadata.Key.of("x-api-key", Metadata.ASCII_STRING_MARSHALLER), "secret;r=9,\"x\"");
        Channel client =
                ClientInterceptors.intercept(talk.client(), MetadataUtils.newAttachHeadersInterceptor(headers));
        for (int i = 0; i < 3; i++) {
            talk.say(client, "a");
        }
        StatusRuntimeException denied = failure(() -> talk.say(client, "a"));
        assertThat(denied.getStatus().getDescription()).isEqualTo("too many requests");
        assertThat(denied.getTrailers().toString()).contains("retry-after").doesNotContain("secret");
        assertThat(talk.say(talk.client(), "a"))
                .as("a client without a key is charged by its address")
                .isEqualTo("a");
    }

    @Test
    void aClientRetriesAfterThePushback() {
        Talk talk = calls(limiter(Limit.perSecond(1), LONG));
        Channel client = talk.client(settings -> settings.enableRetry()
                .defaultServiceConfig(Map.of(
                        "methodConfig",
                        List.of(Map.of(
                                "name",
                                List.of(Map.of()),
                                "retryPolicy",
                                Map.of(
                                        "maxAttempts",
                                        3.0,
                                        "initialBackoff",
                                        "0.001s",
                                        "maxBackoff",
                                        "0.001s",
                                        "backoffMultiplier",
                                        1.0,
                                        "retryableStatusCodes",
                                        List.of("RESOURCE_EXHAUSTED")))))));
        talk.say(client, "a");
        assertThat(talk.say(client, "b")).isEqualTo("b");
        assertThat(asked.get()).as("decisions").isBetween(2, 4);
        assertThat(talk.handled()).hasSize(2);
    }

    @Test
    void aCallWaitsForASlowStoreWithoutBlockingAThread() {
        redisOfOurOwn();
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = calls(limiter);
        Channel client = talk.client();
        talk.say(client, "a");
        redis.pause();
        Answers answers = new Answers();
        talk.sayLater(client, answers);
        await().until(() -> asked.get() == 2);
        assertThat(talk.free(client)).as("on the only thread of the server").isEqualTo("free");
        assertThat(answers.heard).isEmpty();
        redis.resume();
        await().atMost(LONG).until(() -> answers.heard.equals(List.of("later", "end")));
        assertThat(talk.handled()).containsExactly("aours", "laterours");
    }

    @Test
    void theLocalStoreDecidesIfRedisMissesTheDeadline() {
        redisOfOurOwn();
        RateLimiter limiter = limiter(THREE, Duration.ofMillis(100));
        Talk talk = calls(limiter);
        Channel client = talk.client();
        talk.say(client, "a");
        redis.pause();
        talk.say(client, "b");
        talk.say(client, "c");
        assertThat(failure(() -> talk.say(client, "d")).getStatus().getCode())
                .isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
        redis.resume();
    }

    @Test
    void aCallCancelledBeforeItsDecisionNeverReachesItsHandler() {
        redisOfOurOwn();
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = calls(limiter);
        Channel client = talk.client();
        talk.say(client, "a");
        redis.pause();
        Answers answers = new Answers();
        ClientCall<String, String> call = talk.sayLater(client, answers);
        await().until(() -> asked.get() == 2);
        call.cancel("changed my mind", null);
        await().atMost(LONG).until(() -> cancelled.get() == 1);
        redis.resume();
        talk.say(client, "b");
        assertThat(talk.handled()).containsExactly("aours", "bours");
        assertThat(used(limiter)).isBetween(2L, 3L);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCallNeverReachesItsHandlerIfItsDeadlinePassesFirst() {
        redisOfOurOwn();
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = calls(limiter);
        Channel client = talk.client();
        talk.say(client, "a");
        redis.pause();
        Answers answers = new Answers();
        talk.sayLater(client, CallOptions.DEFAULT.withDeadlineAfter(300, TimeUnit.MILLISECONDS), answers);
        await().atMost(LONG).until(() -> answers.heard.equals(List.of("DEADLINE_EXCEEDED")));
        await().atMost(LONG).until(() -> cancelled.get() == 1);
        redis.resume();
        talk.say(client, "b");
        assertThat(talk.handled()).containsExactly("aours", "bours");
    }

    @Test
    void aCallIsUnavailableIfNoStoreCanDecide() {
        redisOfOurOwn();
        RateLimiter limiter = limiter(THREE, Duration.ofMillis(100), Fallback.error());
        Talk talk = calls(limiter);
        Channel client = talk.client();
        redis.kill();
        StatusRuntimeException failed = failure(() -> talk.say(client, "a"));
        assertThat(failed.getStatus().getCode()).isEqualTo(Status.Code.UNAVAILABLE);
        assertThat(failed.getStatus().getDescription()).isNull();
        assertThat(talk.handled()).isEmpty();
    }

    @Test
    void aFailingHandlerEndsOnlyItsCall() {
        Talk talk = calls(limiter(THREE, LONG));
        Channel client = talk.client();
        StatusRuntimeException failed = failure(() -> talk.say(client, Talk.FAIL));
        assertThat(failed.getStatus().getCode()).isEqualTo(Status.Code.UNKNOWN);
        assertThat(failed.toString()).doesNotContain("secret");
        assertThat(talk.say(client, "a")).isEqualTo("a");
    }

    @Test
    void ofCallsChargesAStreamOnce() {
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = calls(limiter);
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        for (int i = 0; i < 10; i++) {
            stream.onNext("m" + i);
        }
        stream.onCompleted();
        await().atMost(LONG).until(() -> answers.heard.contains("end"));
        assertThat(answers.heard).hasSize(11);
        assertThat(talk.started()).containsExactly("ours");
        assertThat(used(limiter)).isEqualTo(1);
    }

    @Test
    void theFirstDeniedMessageEndsTheStream() {
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = messages(limiter, Duration.ZERO);
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        for (int i = 0; i < 5; i++) {
            stream.onNext("m" + i);
        }
        await().atMost(LONG).until(() -> answers.heard.size() == 4);
        assertThat(answers.heard).containsExactly("m0", "m1", "m2", "RESOURCE_EXHAUSTED");
        assertThat(Talk.trailer(answers.failed.get(), "retry-after")).isNotNull();
        await().atMost(LONG).until(() -> talk.ended().size() == 1);
        assertThat(Status.fromThrowable(talk.ended().get(0)).getCode()).isEqualTo(Status.Code.CANCELLED);
        assertThat(talk.handled()).containsExactly("m0ours", "m1ours", "m2ours");
        assertThat(used(limiter)).isEqualTo(3);
    }

    @Test
    void messagesWaitInOrderAndCostOnePermitEach() {
        RateLimiter limiter = limiter(Limit.of(2, Duration.ofMillis(300)), LONG);
        Talk talk = messages(limiter, LONG);
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        List<String> sent = IntStream.range(0, 7).mapToObj(i -> "m" + i).toList();
        long began = System.nanoTime();
        sent.forEach(stream::onNext);
        stream.onCompleted();
        await().atMost(LONG).until(() -> answers.heard.contains("end"));
        assertThat(System.nanoTime() - began)
                .as("nanoseconds for seven messages, two per window")
                .isGreaterThan(900_000_000L);
        assertThat(answers.heard.subList(0, 7)).isEqualTo(sent);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aMessageIsReadOnlyAfterThePreviousOneHasItsPermit() {
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = messages(limiter, Duration.ofHours(2));
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        for (int i = 0; i < 50; i++) {
            stream.onNext("m" + i);
        }
        await().atMost(LONG).until(() -> talk.handled().size() == 3 && WaitQueueCount.of(limiter) == 1);
        await().during(Duration.ofMillis(300))
                .atMost(LONG)
                .untilAsserted(() -> assertThat(talk.read()).isEqualTo(4));
        assertThat(answers.heard).containsExactly("m0", "m1", "m2");
    }

    @Test
    void aStreamCancelledWhileAMessageWaitsLeavesNoWaiter() {
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = messages(limiter, Duration.ofHours(2));
        ClientCall<String, String> call = talk.stream(talk.client());
        StreamObserver<String> stream = ClientCalls.asyncBidiStreamingCall(call, new Answers());
        for (int i = 0; i < 5; i++) {
            stream.onNext("m" + i);
        }
        await().atMost(LONG).until(() -> talk.handled().size() == 3 && WaitQueueCount.of(limiter) == 1);
        call.cancel("enough", null);
        await().atMost(LONG).until(() -> talk.ended().size() == 1);
        await().atMost(LONG).untilAsserted(() -> assertNoWaiterIsLeft(limiter));
        assertThat(used(limiter)).isEqualTo(3);
        assertThat(talk.handled()).hasSize(3);
    }

    @Test
    void aFailingStreamHandlerIsCancelled() {
        Talk talk = messages(limiter(THREE, LONG), LONG);
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        stream.onNext("a");
        stream.onNext(Talk.FAIL);
        await().atMost(LONG).until(() -> answers.heard.equals(List.of("a", "UNKNOWN")));
        await().atMost(LONG).until(() -> talk.ended().size() == 1);
    }

    @Test
    void ofMessagesDoesNotChargeUnaryCalls() {
        RateLimiter limiter = limiter(THREE, LONG);
        Talk talk = messages(limiter, LONG);
        Channel client = talk.client();
        for (int i = 0; i < 5; i++) {
            talk.say(client, "a");
        }
        assertThat(used(limiter)).isZero();
    }

    @Test
    void callsAndMessagesAreChargedSeparately() {
        RateLimiter calls = limiter(THREE, LONG);
        RateLimiter messages = limiter(THREE, LONG);
        ForkJoinPool executor = new ForkJoinPool(1);
        Talk talk = talk(executor, service -> limited(service, calls, messages, executor));
        talk.say(talk.client(), "a");
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        for (int i = 0; i < 4; i++) {
            stream.onNext("m" + i);
        }
        await().atMost(LONG).until(() -> answers.heard.size() == 4);
        assertThat(answers.heard).endsWith("m2", "RESOURCE_EXHAUSTED");
        assertThat(used(calls)).isEqualTo(2);
        assertThat(used(messages)).isEqualTo(3);
        assertThat(talk.started()).containsExactly("ours");
    }

    @Test
    void aStreamHoldsItsPermitUntilItHasEnded() {
        RateLimiter limiter = limiter(ONE_AT_A_TIME, LONG);
        Talk talk = calls(limiter);
        Answers first = new Answers();
        StreamObserver<String> stream = stream(talk, first);
        stream.onNext("a");
        await().atMost(LONG).until(() -> first.heard.equals(List.of("a")));
        Answers second = new Answers();
        stream(talk, second);
        await().atMost(LONG).until(() -> second.heard.equals(List.of("RESOURCE_EXHAUSTED")));
        stream.onCompleted();
        await().atMost(LONG).until(() -> first.heard.equals(List.of("a", "end")));
        await().atMost(LONG).until(() -> limiter.holders() == 0 && used(limiter) == 0);
        assertThat(talk.say(talk.client(), "b")).isEqualTo("b");
    }

    @Test
    void aCancelledStreamReleasesItsPermit() {
        RateLimiter limiter = limiter(ONE_AT_A_TIME, LONG);
        Talk talk = calls(limiter);
        ClientCall<String, String> call = talk.stream(talk.client());
        ClientCalls.asyncBidiStreamingCall(call, new Answers());
        await().atMost(LONG).until(() -> talk.started().size() == 1 && used(limiter) == 1);
        call.cancel("enough", null);
        await().atMost(LONG).until(() -> limiter.holders() == 0 && used(limiter) == 0);
    }

    @Test
    void aFailingHandlerReleasesItsPermit() {
        RateLimiter limiter = limiter(ONE_AT_A_TIME, LONG);
        Talk talk = calls(limiter);
        Answers answers = new Answers();
        StreamObserver<String> stream = stream(talk, answers);
        stream.onNext(Talk.FAIL);
        await().atMost(LONG).until(() -> answers.heard.equals(List.of("UNKNOWN")));
        await().atMost(LONG).until(() -> limiter.holders() == 0 && used(limiter) == 0);
    }

    @Test
    void aStreamThatLosesItsPermitEndsWithUnavailable() {
        RateLimiter limiter = limiter(builder(ONE_AT_A_TIME, LONG).longestHold(Duration.ofSeconds(1)));
        Talk talk = calls(limiter);
        Answers answers = new Answers();
        stream(talk, answers);
        await().atMost(LONG).until(() -> answers.heard.equals(List.of("UNAVAILABLE")));
        await().atMost(LONG).until(() -> talk.ended().size() == 1);
        assertThat(limiter.holders()).isZero();
    }

    /** A denial by HTTP in front of gRPC. */
    @Test
    void a429IsUnavailableToAClient() {
        assertThat(GrpcUtil.httpStatusToGrpcStatus(429).getCode()).isEqualTo(Status.Code.UNAVAILABLE);
    }

    private static long used(RateLimiter limiter) {
        return limiter.peek("ip:127.0.0.1").block().limits().get(0).used();
    }

    private void redisOfOurOwn() {
        redis = RedisForTests.startOwn();
        open.add(redis);
    }

    private RateLimiter limiter(Limit limit, Duration deadline, LimitStore... fallback) {
        RateLimiterBuilder builder = builder(limit, deadline);
        if (fallback.length > 0) {
            builder.fallback(fallback[0]);
        }
        return limiter(builder);
    }

    private RateLimiter limiter(RateLimiterBuilder builder) {
        RateLimiter limiter = builder.build();
        open.add(limiter);
        return limiter;
    }

    private RateLimiterBuilder builder(Limit limit, Duration deadline) {
        RedisStore store = RedisStore.create(redis.uri());
        open.add(store);
        return RateLimiter.builder("grpc-" + UUID.randomUUID())
                .store(store)
                .deadline(deadline)
                .limit(limit);
    }

    private Talk calls(RateLimiter limiter) {
        ForkJoinPool executor = new ForkJoinPool(1);
        return talk(executor, RateLimitInterceptor.ofCalls(limiter, this::key, executor));
    }

    private Talk messages(RateLimiter limiter, Duration longestWait) {
        ForkJoinPool executor = new ForkJoinPool(1);
        return talk(executor, RateLimitInterceptor.ofMessages(limiter, longestWait, this::key, executor));
    }

    // docs/websockets-and-grpc.md shows this.
    static ServerServiceDefinition limited(
            ServerServiceDefinition service, RateLimiter calls, RateLimiter messages, Executor executor) {
        return ServerInterceptors.intercept(
                service,
                RateLimitInterceptor.ofMessages(messages, Duration.ofSeconds(5), Keys::apiKey, executor),
                RateLimitInterceptor.ofCalls(calls, Keys::apiKey, executor));
    }

    private Talk talk(ForkJoinPool executor, ServerInterceptor limiting) {
        return talk(executor, service -> ServerInterceptors.intercept(service, limiting));
    }

    private Talk talk(ForkJoinPool executor, UnaryOperator<ServerServiceDefinition> limiting) {
        Talk talk = new Talk(executor, service -> ServerInterceptors.intercept(limiting.apply(service), new Outside()));
        open.add(talk);
        return talk;
    }

    private String key(ServerCall<?, ?> call, Metadata headers) {
        asked.incrementAndGet();
        return Keys.apiKey(call, headers);
    }

    private static StreamObserver<String> stream(Talk talk, Answers answers) {
        return ClientCalls.asyncBidiStreamingCall(talk.stream(talk.client()), answers);
    }

    private static StatusRuntimeException failure(Runnable call) {
        return catchThrowableOfType(StatusRuntimeException.class, call::run);
    }

    /** Adds the tenant to the context, and counts cancelled calls. */
    private final class Outside implements ServerInterceptor {

        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            Context context = Context.current().withValue(Talk.TENANT, "ours");
            return new SimpleForwardingServerCallListener<>(Contexts.interceptCall(context, call, headers, next)) {
                @Override
                public void onCancel() {
                    super.onCancel();
                    cancelled.incrementAndGet();
                }
            };
        }
    }

    private static final class Answers implements StreamObserver<String> {

        private final List<String> heard = new CopyOnWriteArrayList<>();
        private final AtomicReference<StatusRuntimeException> failed = new AtomicReference<>();

        @Override
        public void onNext(String answer) {
            heard.add(answer);
        }

        @Override
        public void onError(Throwable error) {
            failed.set((StatusRuntimeException) error);
            heard.add(Status.fromThrowable(error).getCode().name());
        }

        @Override
        public void onCompleted() {
            heard.add("end");
        }
    }
}
