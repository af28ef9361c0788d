package io.github.spillgate.metrics;

import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.internal.Checks;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.concurrent.TimeUnit;
import java.util.function.ToDoubleFunction;

/**
 * Meters of requests to other services: {@code spillgate.outgoing.waits}, the time they waited for permits, {@code
 * spillgate.outgoing.pauses}, the responses that paused a key, and {@code spillgate.outgoing.retries}, the refused
 * requests that waited again. Each has the tag {@code limiter} with the name of the limiter.
 */
public final class OutgoingMetrics implements MeterBinder {

    private final OutgoingRequests requests;

    private OutgoingMetrics(OutgoingRequests requests) {
        this.requests = requests;
    }

    /**
     * Returns the meters of requests.
     *
     * @param requests the requests
     * @return the meters, to be bound to a registry
     */
    public static OutgoingMetrics of(OutgoingRequests requests) {
        return new OutgoingMetrics(Checks.present(requests, "requests", "OutgoingRequests.builder(limiter).build()"));
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        Tags tags = Tags.of("limiter", requests.limiter().name());
        FunctionTimer.builder(
                        "spillgate.outgoing.waits",
                        requests,
                        OutgoingRequests::waits,
                        counted -> counted.waited().toNanos(),
                        TimeUnit.NANOSECONDS)
                .description("Waits of requests to other services for their permits")
                .tags(tags)
                .register(registry);
        counter(registry, tags, "pauses", "Responses that paused a key", OutgoingRequests::pauses);
        counter(registry, tags, "retries", "Refused requests that waited again", OutgoingRequests::retries);
    }

    private void counter(
            MeterRegistry registry,
            Tags tags,
            String what,
            String description,
            ToDoubleFunction<OutgoingRequests> value) {
        FunctionCounter.builder("spillgate.outgoing." + what, requests, value)
                .description(description)
                .tags(tags)
                .register(registry);
    }
}
