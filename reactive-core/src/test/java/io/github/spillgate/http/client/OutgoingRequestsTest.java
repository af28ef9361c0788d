package io.github.spillgate.http.client;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.WaitQueueCount;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.MoodyPartner;
import io.github.spillgate.testkit.MoodyPartner.Arrival;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

class OutgoingRequestsTest {

    private static final String KEY = "partner";
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    private final MoodyPartner partner = new MoodyPartner(1_000);
    private final List<RateLimiter> limiters = new ArrayList<>();

    @AfterEach
    void close() {
        limiters.forEach(limiter -> limiter.closeLater().block());
        partner.close();
    }

    @Test
    void aRefusedRequestIsSentAgainAfterThePause() {
        partner.refuse(Duration.ofSeconds(1), "Retry-After:1");
        OutgoingRequests requests = requests(limiter("100/s burst=1")).build();
        assertThat(get(requests, KEY).block(PATIENCE).statusCode()).isEqualTo(200);
        List<Arrival> arrivals = partner.arrivals();
        assertThat(arrivals).extracting(Arrival::status).containsExactly(429, 200);
        assertThat(arrivals.get(1).at() - arrivals.get(0).at()).isGreaterThanOrEqualTo(1_000);
        assertThat(requests.pauses()).isEqualTo(1);
        assertThat(requests.retries()).isEqualTo(1);
        assertThat(requests.waits()).isEqualTo(2);
        assertThat(requests.waited()).isGreaterThan(Duration.ofMillis(500));
    }

    @Test
    void aBodyIsNotSentTwiceWithoutConsent() {
        partner.refuse(Duration.ofSeconds(2), "Retry-After:2");
        OutgoingRequests requests = requests(limiter("100/s burst=1")).build();
        RateLimitedException refused = catchThrowableOfType(
                RateLimitedException.class,
                () -> requests.send(KEY, false, JdkResponses.post(partner.uri("/"), "order 1"), JdkResponses.ACCESS)
                        .block(PATIENCE));
        assertThat(refused.retryAfter().orElseThrow()).isBetween(Duration.ofMillis(1), Duration.ofSeconds(2));
        assertThat(refused.decision().isAllowed()).isFalse();
        // Not the fault of a client on whose behalf the request was sent.
        assertThat(Problem.of(List.of(refused.decision())).status()).isEqualTo(503);
        assertThat(partner.arrivals()).extracting(Arrival::body).containsExactly("order 1");
    }

    /** A client of this application must not see the limit of a partner, which it has not exceeded. */
    @Test
    void aRequestWithoutAPermitIsNotTheFaultOfAClient() {
        OutgoingRequests requests =
                requests(limiter("1/1h burst=1")).longestWait(Duration.ZERO).build();
        get(requests, KEY).block(PATIENCE);
        RateLimitedException denied = catchThrowableOfType(
                RateLimitedException.class, () -> get(requests, KEY).block(PATIENCE));
        assertThat(denied.decision().violated()).containsExactly(Limit.pausable());
        assertThat(denied.decision().limits()).isEmpty();
        assertThat(denied.retryAfter().orElseThrow()).isGreaterThan(Duration.ofMinutes(58));
        assertThat(Problem.of(List.of(denied.decision())).status()).isEqualTo(503);
    }

    @Test
    void aBodyIsSentAgainByConsent() {
        partner.refuse(Duration.ofSeconds(1), "Retry-After:1");
        OutgoingRequests requests = requests(limiter("100/s burst=1")).build();
        requests.send(KEY, true, JdkResponses.post(partner.uri("/"), "order 1"), JdkResponses.ACCESS)
                .block(PATIENCE);
        assertThat(partner.arrivals()).extracting(Arrival::body).containsExactly("order 1", "order 1");
    }

    @ParameterizedTest
    @CsvSource({
        "GET, false, true",
        "HEAD, false, true",
        "OPTIONS, false, true",
        "TRACE, false, true",
        "DELETE, false, true",
        "DELETE, true, false",
        "GET, true, false",
        "POST, false, false",
        "PUT, false, false",
        "PATCH, false, false",
        "get, false, false",
    })
    void onlySafeRequestsAndDeletesWithoutABodyAreRepeatable(String method, boolean hasBody, boolean repeatable) {
        assertThat(OutgoingRequests.isRepeatable(method, hasBody)).isEqualTo(repeatable);
    }

    @Test
    void aPauseBeyondTheLongestWaitFailsAtOnceAndAlsoLaterRequests() {
        partner.refuse(Duration.ofMinutes(5), "Retry-After:300");
        OutgoingRequests requests = requests(limiter("100/s burst=1"))
                .longestWait(Duration.ofSeconds(5))
                .build();
        for (int i = 0; i < 3; i++) {
            RateLimitedException refused = catchThrowableOfType(
                    RateLimitedException.class, () -> get(requests, KEY).block(PATIENCE));
            assertThat(refused.retryAfter().orElseThrow()).isBetween(Duration.ofSeconds(200), Duration.ofSeconds(300));
        }
        assertThat(partner.arrivals()).hasSize(1);
    }

    @Test
    void noPauseIsLongerThanTheLongestPause() {
        partner.refuse(Duration.ofMillis(200), "Retry-After:3600");
        OutgoingRequests requests = requests(limiter("100/s burst=1"))
                .longestPause(Duration.ofMillis(300))
                .build();
        assertThat(get(requests, KEY).block(PATIENCE).statusCode()).isEqualTo(200);
    }

    @Test
    void a429PausesOnlyTheKeyOfItsRequest() {
        partner.refuse(Duration.ofMinutes(5), "Retry-After:300");
        OutgoingRequests requests = requests(limiter("100/s burst=1")).build();
        assertThatThrownBy(() -> get(requests, KEY).block(PATIENCE)).isInstanceOf(RateLimitedException.class);
        try (MoodyPartner other = new MoodyPartner(100)) {
            assertThat(requests.send("other", true, JdkResponses.get(other.uri("/")), JdkResponses.ACCESS)
                            .block(PATIENCE)
                            .statusCode())
                    .isEqualTo(200);
        }
        assertThatThrownBy(() -> get(requests, KEY).block(PATIENCE)).isInstanceOf(RateLimitedException.class);
        assertThat(partner.arrivals()).hasSize(1);
    }

    @Test
    void aCancelledRequestFreesItsPlaceInTheQueue() {
        RateLimiter limiter = limiter("1/10s burst=1");
        OutgoingRequests requests =
                requests(limiter).longestWait(Duration.ofMinutes(1)).build();
        get(requests, KEY).block(PATIENCE);
        List<Disposable> waiting = Flux.range(0, 50)
                .map(i -> get(requests, KEY).subscribe())
                .collectList()
                .block();
        assertThat(WaitQueueCount.of(limiter)).isEqualTo(1);
        waiting.forEach(Disposable::dispose);
        await().until(() -> WaitQueueCount.of(limiter) == 0);
        assertThat(partner.arrivals()).hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theKeyIsPausedAlsoIfTheCallerCancels(boolean whileReading) {
        partner.refuse(Duration.ofMinutes(5), "Retry-After:300");
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(new ForwardingLimitStore(LocalStore.bounded(100)) {
                    @Override
                    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                        return Mono.delay(Duration.ofMillis(300)).then(super.correct(corrections));
                    }
                })
                .limit(Limit.parse("100/s burst=1"))
                .limit(Limit.pausable())
                .build();
        limiters.add(limiter);
        OutgoingRequests requests =
                requests(limiter).longestWait(Duration.ofHours(1)).build();
        AtomicInteger released = new AtomicInteger();
        ResponseAccess<HttpResponse<Void>> access = new JdkResponses() {
            @Override
            public Mono<Void> release(HttpResponse<Void> response) {
                return Mono.<Void>fromRunnable(released::incrementAndGet)
                        .then(whileReading ? Mono.never() : Mono.empty());
            }
        };
        Disposable call = requests.send(KEY, true, JdkResponses.get(partner.uri("/")), access)
                .subscribe();
        await().until(() -> released.get() == 1);
        call.dispose();
        await().until(() -> limiter.peek(KEY).block().violated().contains(Limit.pausable()));
        assertThat(WaitQueueCount.of(limiter)).isZero();
    }

    @Test
    void permitsOfAConcurrencyLimitAreReleasedHoweverARequestEnds() {
        RateLimiter limiter = limiter("1 concurrent hold=30s");
        OutgoingRequests requests =
                requests(limiter).longestWait(Duration.ofSeconds(20)).build();
        get(requests, KEY).block(PATIENCE);
        partner.refuse(Duration.ofSeconds(1), "Retry-After:1");
        get(requests, KEY).block(PATIENCE);
        Mono<HttpResponse<Void>> failing = Mono.error(new IllegalStateException("no connection"));
        assertThatThrownBy(() ->
                        requests.send(KEY, true, failing, JdkResponses.ACCESS).block(PATIENCE))
                .hasMessage("no connection");
        assertThat(requests.send(KEY, true, Mono.<HttpResponse<Void>>never(), JdkResponses.ACCESS)
                        .timeout(Duration.ofMillis(100), Mono.empty())
                        .blockOptional())
                .isEmpty();
        get(requests, KEY).block(PATIENCE);
        assertThat(limiter.holders()).isZero();
        assertThat(partner.arrivals()).extracting(Arrival::status).containsExactly(200, 429, 200, 200);
    }

    @Test
    void aRequestWithoutAResponseReleasesItsPermit() {
        RateLimiter limiter = limiter("1 concurrent hold=30s");
        OutgoingRequests requests = requests(limiter).build();
        assertThat(requests.send(KEY, true, Mono.<HttpResponse<Void>>empty(), JdkResponses.ACCESS)
                        .blockOptional(PATIENCE))
                .isEmpty();
        assertThat(limiter.holders()).isZero();
    }

    @Test
    void noRequestIsSentAgainAfterTheLongestWait() {
        partner.refuse(Duration.ofHours(1), "Retry-After:1");
        OutgoingRequests requests = requests(limiter("10000/s burst=100"))
                .longestWait(Duration.ofMillis(200))
                .longestPause(Duration.ofMillis(1))
                .build();
        // The pause has ended before the body.
        ResponseAccess<HttpResponse<Void>> slow = new JdkResponses() {
            @Override
            public Mono<Void> release(HttpResponse<Void> response) {
                return Mono.delay(Duration.ofMillis(50)).then();
            }
        };
        assertThatThrownBy(() -> requests.send(KEY, true, JdkResponses.get(partner.uri("/")), slow)
                        .block(Duration.ofSeconds(20)))
                .isInstanceOf(RateLimitedException.class);
        assertThat(partner.arrivals()).hasSizeBetween(1, 6);
    }

    @Test
    void aRefusedRequestIsNotSentAgainAtOnceIfThePauseIsNotStored() {
        partner.refuse(Duration.ofHours(1), "Retry-After:1");
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(new ForwardingLimitStore(LocalStore.bounded(100)) {
                    @Override
                    public Optional<Duration> deadline() {
                        return Optional.empty();
                    }

                    @Override
                    public Mono<StoreDecision> take(StoreRequest request) {
                        return Mono.error(new LimitStoreException(LimitStoreException.Kind.UNAVAILABLE, "down"));
                    }

                    @Override
                    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                        return Mono.error(new LimitStoreException(LimitStoreException.Kind.UNAVAILABLE, "down"));
                    }
                })
                .fallback(Fallback.allow())
                .limit(Limit.parse("10/s"))
                .limit(Limit.pausable())
                .build();
        limiters.add(limiter);
        OutgoingRequests requests =
                requests(limiter).longestWait(Duration.ofMillis(2_500)).build();
        assertThatThrownBy(() -> get(requests, KEY).block(Duration.ofSeconds(20)))
                .isInstanceOf(RateLimitedException.class);
        assertThat(partner.arrivals()).hasSizeLessThanOrEqualTo(3);
    }

    @Test
    void pausesAreLoggedOnceForEachKeyWithTheKeyEscaped() {
        partner.refuse(Duration.ofMinutes(5), "Retry-After:300");
        OutgoingRequests requests = requests(limiter("100/s burst=9")).build();
        try (LogForTests log = LogForTests.listen()) {
            Flux.range(0, 5)
                    .flatMap(i -> get(requests, "a\nb").onErrorComplete())
                    .blockLast(PATIENCE);
            assertThat(log.lines("pauses"))
                    .singleElement()
                    .asString()
                    .contains("\"a\\u000ab\" for 300000 ms: the service responded with 429");
            await().atMost(10, TimeUnit.SECONDS)
                    .until(() ->
                            !log.lines("was paused", "more times by responses").isEmpty());
        }
    }

    @Test
    void aLimiterMustBePausable() {
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(LocalStore.bounded(100))
                .limit(Limit.perSecond(10))
                .build();
        limiters.add(limiter);
        assertThatThrownBy(() -> OutgoingRequests.builder(limiter))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("expected one more, Limit.pausable()");
    }

    @Test
    void timesOutOfRangeAreRefused() {
        OutgoingRequests.Builder builder = requests(limiter("1/s"));
        assertThatThrownBy(() -> builder.longestWait(Duration.ofMillis(-1)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("longest wait");
        assertThatThrownBy(() -> builder.longestPause(Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("longest pause");
    }

    private RateLimiter limiter(String limit) {
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(LocalStore.bounded(100))
                .limit(Limit.parse(limit))
                .limit(Limit.pausable())
                .build();
        limiters.add(limiter);
        return limiter;
    }

    private static OutgoingRequests.Builder requests(RateLimiter limiter) {
        return OutgoingRequests.builder(limiter);
    }

    private Mono<HttpResponse<Void>> get(OutgoingRequests requests, String key) {
        return requests.send(key, true, JdkResponses.get(partner.uri("/")), JdkResponses.ACCESS);
    }
}
