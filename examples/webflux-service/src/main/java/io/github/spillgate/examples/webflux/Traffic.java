package io.github.spillgate.examples.webflux;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.http.Rules;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpStatus;
import org.springframework.web.reactive.function.client.WebClient;

/** The requests that the page has sent to the instances of this service, in turn, and what became of them. */
final class Traffic {

    /** If the page has not called for longer, requests are skipped instead of sent in a burst. */
    private static final Duration LONGEST_PAUSE = Duration.ofMillis(500);

    private static final Duration TIMEOUT = Duration.ofSeconds(5);

    final Tally allowed = new Tally();
    final Tally denied = new Tally();
    final Tally failed = new Tally();
    final Tally allowedIfFailsOpen = new Tally();
    final Tally allowedByEachProcess = new Tally();

    private final WebClient client = WebClient.create();
    private final InstantSource clock = InstantSource.system();
    private final List<Instance> instances = new CopyOnWriteArrayList<>();

    private volatile @Nullable Limit limit;
    private Instant last = Instant.EPOCH;
    private double due;
    private int turn;

    /** Sends requests to this instance too. */
    void join(Instance instance) {
        instances.add(instance);
        // The first decision of a new process often takes longer than the deadline.
        send(instance.uri);
    }

    /** Sends as many requests as are due since the last call, and waits for none of them. */
    synchronized void send(int rate) {
        Instant now = clock.instant();
        due += rate * Math.min(Duration.between(last, now).toMillis(), LONGEST_PAUSE.toMillis()) / 1e3;
        last = now;
        for (; due >= 1; due--) {
            send(instances.get(turn++ % instances.size()).uri);
        }
    }

    private void send(URI instance) {
        client.get()
                .uri(instance.resolve("/playground/hit"))
                .exchangeToMono(response -> response.releaseBody().thenReturn(response.statusCode()))
                .timeout(TIMEOUT)
                .filter(status -> !status.is2xxSuccessful() && !status.equals(HttpStatus.TOO_MANY_REQUESTS))
                .subscribe(status -> failed.add(clock.instant()), error -> failed.add(clock.instant()));
    }

    /** Notes the limit, which may change, with a decision on a request. */
    void decided(Limit limit, boolean isAllowed, Instant at) {
        this.limit = limit;
        (isAllowed ? allowed : denied).add(at);
    }

    Seen seen() {
        Instant now = clock.instant();
        Limit current = limit;
        return new Seen(
                current == null ? null : current.permits(),
                allowed.count(now),
                denied.count(now),
                failed.count(now),
                allowedIfFailsOpen.count(now),
                allowedByEachProcess.count(now),
                instances.stream().map(Instance::seen).toList());
    }

    /**
     * An instance of the service.
     *
     * @param uri its address
     * @param limiter its limiter
     * @param rules its rules
     * @param grants what the limiter has granted locally
     */
    record Instance(URI uri, RateLimiter limiter, Rules rules, Comparison grants) {

        private InstanceSeen seen() {
            StoreState state = limiter.state();
            return new InstanceSeen(
                    uri.getPort(),
                    limits(),
                    state.source().name(),
                    state.problem().orElse(null),
                    grants.grantedLocally(),
                    state.toReconcile(),
                    state.reconciled(),
                    state.lost());
        }

        /** Returns the limits of the page in this instance, as in its configuration or as published. */
        private String limits() {
            return rules.list().stream()
                    .filter(rule -> rule.name().equals("playground"))
                    .flatMap(rule -> rule.limits().stream())
                    .map(limit -> limit.permits() + " in " + limit.window().toSeconds() + " s")
                    .collect(Collectors.joining(", "));
        }
    }

    /** What the page shows of the requests in ten seconds. */
    record Seen(
            @Nullable Long permits,
            Tally.Counted allowed,
            Tally.Counted denied,
            Tally.Counted failed,
            Tally.Counted failsOpen,
            Tally.Counted eachProcess,
            List<InstanceSeen> instances) {}

    /** What the page shows of an instance. Of the permits granted locally, those not in the other numbers expired. */
    record InstanceSeen(
            int port,
            String limits,
            String source,
            @Nullable String problem,
            long grantedLocally,
            long toReconcile,
            long reconciled,
            long lost) {}
}
