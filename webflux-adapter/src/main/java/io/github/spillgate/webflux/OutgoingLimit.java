package io.github.spillgate.webflux;

import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.http.client.ResponseAccess;
import io.github.spillgate.internal.Checks;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.function.Predicate;
import org.springframework.web.reactive.function.BodyInserters;
import org.springframework.web.reactive.function.client.ClientRequest;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.ExchangeFilterFunction;
import org.springframework.web.reactive.function.client.ExchangeFunction;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Mono;

/**
 * A filter of {@link WebClient} for services that have limits of their own: each request waits for its permit, and a
 * 429 or 503 that says for how long {@linkplain OutgoingRequests pauses} its key, for all instances.
 *
 * <pre>{@code
 * RateLimiter partner = RateLimiter.builder("partner")
 *         .store(store)
 *         .limit(Limit.parse("10/s burst=1"))
 *         .limit(Limit.pausable())
 *         .build();
 * WebClient client = WebClient.builder().filter(OutgoingLimit.builder(partner).build()).build();
 * }</pre>
 *
 * <p>A request without a permit within the longest wait, and a refused request that is not sent again, fail with {@link
 * RateLimitedException}. The filter does not exist for {@code RestClient}, which would block its thread.
 */
public final class OutgoingLimit implements ExchangeFilterFunction {

    private static final ResponseAccess<ClientResponse> ACCESS = new ClientResponses();

    private final OutgoingRequests requests;
    private final Function<? super ClientRequest, String> key;
    private final Predicate<? super ClientRequest> retry;

    private OutgoingLimit(Builder builder) {
        this.requests = builder.requests.build();
        this.key = builder.key;
        this.retry = builder.retry;
    }

    /**
     * Returns a builder.
     *
     * @param limiter the limiter, with a {@linkplain io.github.spillgate.Limit#pausable() pausable} limit
     * @return the builder
     * @throws IllegalArgumentException if the limiter has no such limit
     */
    public static Builder builder(RateLimiter limiter) {
        return new Builder(limiter);
    }

    /**
     * Returns the scheme, host and port of a request, such as {@code https://api.partner.com:443}.
     *
     * @param request the request
     * @return the key
     */
    public static String origin(ClientRequest request) {
        URI url = request.url();
        String scheme = String.valueOf(url.getScheme()).toLowerCase(Locale.ROOT);
        // A name with an underscore is no host, but an authority, which may contain a password.
        String authority = String.valueOf(url.getRawAuthority());
        String host = url.getHost() == null ? authority.substring(authority.lastIndexOf('@') + 1) : url.getHost();
        int port = url.getPort() >= 0 ? url.getPort() : scheme.equals("https") ? 443 : 80;
        return scheme + "://" + host.toLowerCase(Locale.ROOT) + ":" + port;
    }

    /**
     * Returns whether a request may be sent again without asking the caller, as {@link
     * OutgoingRequests#isRepeatable(String, boolean)}.
     *
     * @param request the request
     * @return whether it is repeatable
     */
    public static boolean isRepeatable(ClientRequest request) {
        return OutgoingRequests.isRepeatable(request.method().name(), request.body() != BodyInserters.empty());
    }

    @Override
    public Mono<ClientResponse> filter(ClientRequest request, ExchangeFunction next) {
        return requests.send(key.apply(request), retry.test(request), Mono.defer(() -> next.exchange(request)), ACCESS);
    }

    /**
     * Returns the requests, which count waits, pauses and retries.
     *
     * @return the requests
     */
    public OutgoingRequests requests() {
        return requests;
    }

    private static final class ClientResponses implements ResponseAccess<ClientResponse> {

        @Override
        public int status(ClientResponse response) {
            return response.statusCode().value();
        }

        @Override
        public List<String> values(ClientResponse response, String field) {
            return response.headers().header(field);
        }

        @Override
        public Mono<Void> release(ClientResponse response) {
            return response.releaseBody();
        }

        @Override
        public ClientResponse whileHolding(ClientResponse response, Mono<ClientResponse> lost, Runnable ended) {
            return response.mutate()
                    .body(body -> body.takeUntilOther(lost).doFinally(end -> ended.run()))
                    .build();
        }
    }

    /** A builder of an {@link OutgoingLimit}. */
    public static final class Builder {

        private final OutgoingRequests.Builder requests;
        private Function<? super ClientRequest, String> key = OutgoingLimit::origin;
        private Predicate<? super ClientRequest> retry = OutgoingLimit::isRepeatable;

        private Builder(RateLimiter limiter) {
            this.requests = OutgoingRequests.builder(limiter);
        }

        /**
         * Sets the key of a request, which is charged and paused. The default is its {@linkplain
         * OutgoingLimit#origin(ClientRequest) origin}.
         *
         * @param key returns the key; it must not block
         * @return this builder
         */
        public Builder key(Function<? super ClientRequest, String> key) {
            this.key = Checks.present(key, "key", "request -> request.url().getHost()");
            return this;
        }

        /**
         * Sets which refused requests are sent again. The default is {@linkplain
         * OutgoingLimit#isRepeatable(ClientRequest) those without side effects of a second attempt}. The body of a
         * request is then subscribed to again.
         *
         * @param retry whether a request may be sent again
         * @return this builder
         */
        public Builder retry(Predicate<? super ClientRequest> retry) {
            this.retry = Checks.present(retry, "retry", "request -> true");
            return this;
        }

        /**
         * Sets how long a request waits for its permits, with all of its attempts. The default is 10 s.
         *
         * @param longest the longest wait, from zero to a day
         * @return this builder
         * @throws IllegalArgumentException if it is out of range
         */
        public Builder longestWait(Duration longest) {
            requests.longestWait(longest);
            return this;
        }

        /**
         * Sets how long one response can pause a key. The default is 10 minutes.
         *
         * @param longest the longest pause, from 1 ms to a day
         * @return this builder
         * @throws IllegalArgumentException if it is out of range
         */
        public Builder longestPause(Duration longest) {
            requests.longestPause(longest);
            return this;
        }

        /**
         * Builds the filter.
         *
         * @return the filter
         */
        public OutgoingLimit build() {
            return new OutgoingLimit(this);
        }
    }
}
