package io.github.spillgate.http;

import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.internal.Checks;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The instrumentation of rules: listeners, tracers, and warnings in the log.
 *
 * <pre>{@code
 * RuleInstrumentation.none()
 *         .listener(RuleMetrics.of(meters))
 *         .tracer(RuleObservations.of(observations))
 * }</pre>
 *
 * <p>Immutable.
 */
public final class RuleInstrumentation {

    private static final RuleInstrumentation NONE = new RuleInstrumentation(List.of(), List.of(), null);

    final List<RuleListener> listeners;
    final List<RuleTracer> tracers;
    final @Nullable MisconfigurationLog warnings;

    private RuleInstrumentation(
            List<RuleListener> listeners, List<RuleTracer> tracers, @Nullable MisconfigurationLog warnings) {
        this.listeners = listeners;
        this.tracers = tracers;
        this.warnings = warnings;
    }

    /**
     * Returns an instrumentation without listeners, tracers and warnings.
     *
     * @return the instrumentation
     */
    public static RuleInstrumentation none() {
        return NONE;
    }

    /**
     * Returns a copy with one more listener. Listeners are called in the order in which they were added.
     *
     * @param listener the listener
     * @return the instrumentation
     */
    public RuleInstrumentation listener(RuleListener listener) {
        Checks.present(listener, "listener", "RuleMetrics.of(registry)");
        return new RuleInstrumentation(with(listeners, listener), tracers, warnings);
    }

    /**
     * Returns a copy with one more tracer.
     *
     * @param tracer the tracer
     * @return the instrumentation
     */
    public RuleInstrumentation tracer(RuleTracer tracer) {
        Checks.present(tracer, "tracer", "RuleObservations.of(registry)");
        return new RuleInstrumentation(listeners, with(tracers, tracer), warnings);
    }

    /**
     * Returns a copy that logs possible misconfigurations, each once: a request has {@code X-Forwarded-For} although no
     * proxy is trusted, a lookup fails, or no decision is possible. Adapters that are configured by settings do this by
     * default.
     *
     * @param client the source of addresses, with the proxies that are trusted
     * @param remedy the setting that fixes it, for example {@code client-address.header}
     * @return the instrumentation
     */
    public RuleInstrumentation warnings(ClientAddress client, String remedy) {
        Checks.present(client, "client", "ClientAddress.ofPeer()");
        Checks.present(remedy, "remedy", "client-address.header");
        return new RuleInstrumentation(listeners, tracers, new MisconfigurationLog(client, remedy));
    }

    private static <T> List<T> with(List<T> some, T another) {
        List<T> all = new ArrayList<>(some);
        all.add(another);
        return List.copyOf(all);
    }
}
