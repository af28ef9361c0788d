package io.github.spillgate;

import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Scannable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.MonoOperator;
import reactor.core.scheduler.Schedulers;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.context.Context;

/** The listeners of one limiter. Their exceptions are logged, and do not affect decisions. Thread-safe. */
final class DecisionListeners {

    private static final Logger LOG = Loggers.getLogger(DecisionListeners.class);
    private static final long PAUSE = TimeUnit.MINUTES.toNanos(1);
    private static final int LONGEST = 200;

    private final String limiter;
    private final List<DecisionListener> listeners;

    /** The earliest time of the next log line, in nanoseconds. */
    private final AtomicLong nextLog = new AtomicLong(now());

    private DecisionListeners(String limiter, List<DecisionListener> listeners) {
        this.limiter = limiter;
        this.listeners = listeners;
    }

    /** Returns the listeners; null if there are none, so that decisions without listeners cost nothing more. */
    static @Nullable DecisionListeners of(String limiter, List<DecisionListener> listeners) {
        return listeners.isEmpty() ? null : new DecisionListeners(limiter, List.copyOf(listeners));
    }

    /** Returns the current time in nanoseconds, which virtual time replaces in tests. */
    static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** Returns a Mono that reports the decision when it emits it. */
    Mono<Decision> reporting(Mono<Decision> decision) {
        return new ReportingMono(decision, this);
    }

    /** Reports a decision that is emitted now. */
    void report(Decision decision, long since) {
        Duration took = Duration.ofNanos(Math.max(0, now() - since));
        for (DecisionListener listener : listeners) {
            try {
                listener.decided(limiter, decision, took);
            } catch (Throwable e) {
                // Errors too, such as a missing class: whatever a listener does, the decision is emitted.
                log(e);
            }
        }
    }

    private void log(Throwable e) {
        long now = now();
        long next = nextLog.get();
        if (now - next >= 0 && nextLog.compareAndSet(next, now + PAUSE)) {
            LOG.warn(
                    "A listener of limiter {} failed; decisions are not affected: {}",
                    limiter,
                    Text.quote(e.toString(), LONGEST));
        }
    }

    /** A Mono that reports the decision of its source. */
    static final class ReportingMono extends MonoOperator<Decision, Decision> {

        private final DecisionListeners listeners;

        ReportingMono(Mono<? extends Decision> source, DecisionListeners listeners) {
            super(source);
            this.listeners = listeners;
        }

        @Override
        public void subscribe(CoreSubscriber<? super Decision> actual) {
            source.subscribe(new ReportingSubscriber(listeners, actual));
        }
    }

    private static final class ReportingSubscriber implements CoreSubscriber<Decision>, Subscription, Scannable {

        private final DecisionListeners listeners;
        private final CoreSubscriber<? super Decision> actual;
        private final long since = now();
        private @Nullable Subscription source;
        private boolean reported;
        private volatile boolean cancelled;

        ReportingSubscriber(DecisionListeners listeners, CoreSubscriber<? super Decision> actual) {
            this.listeners = listeners;
            this.actual = actual;
        }

        @Override
        public Context currentContext() {
            return actual.currentContext();
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            source = subscription;
            actual.onSubscribe(this);
        }

        @Override
        public void onNext(Decision decision) {
            if (!cancelled && !reported) {
                reported = true;
                listeners.report(decision, since);
            }
            actual.onNext(decision);
        }

        @Override
        public void onError(Throwable error) {
            actual.onError(error);
        }

        @Override
        public void onComplete() {
            actual.onComplete();
        }

        @Override
        public void request(long n) {
            Subscription subscription = source;
            if (subscription != null) {
                subscription.request(n);
            }
        }

        @Override
        public void cancel() {
            cancelled = true;
            Subscription subscription = source;
            if (subscription != null) {
                subscription.cancel();
            }
        }

        @Override
        @SuppressWarnings("rawtypes") // Reactor's signature
        public @Nullable Object scanUnsafe(Attr key) {
            if (key == Attr.PARENT) {
                return source;
            }
            if (key == Attr.ACTUAL) {
                return actual;
            }
            if (key == Attr.CANCELLED) {
                return cancelled;
            }
            return key == Attr.RUN_STYLE ? Attr.RunStyle.SYNC : null;
        }
    }
}
