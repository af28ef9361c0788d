package io.github.spillgate.failover;

import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.stream.IntStream;

/**
 * Models of limiters that decide from a count of each instance, and synchronize it with a shared one afterwards.
 * Both have fixed windows. Made from the published sources, to compare how much they admit; nothing else of them is
 * modelled.
 */
abstract class DelayedSync {

    final long limit;
    final long windowNanos;
    private final Map<Long, Long> admitted = new HashMap<>();
    private final PriorityQueue<Event> events = new PriorityQueue<>(Comparator.comparingLong(Event::at));

    private record Event(long at, Runnable action) {}

    private DelayedSync(long limit, Duration window) {
        this.limit = limit;
        this.windowNanos = window.toNanos();
    }

    /** Decides on a request at a time in nanoseconds, which is not before that of an earlier one. */
    void ask(int instance, long now) {
        for (Event event = events.peek(); event != null && event.at <= now; event = events.peek()) {
            events.remove();
            event.action.run();
        }
        if (admits(instance, now)) {
            admitted.merge(windowAt(now), 1L, Long::sum);
        }
    }

    /** Returns by how much the limit was exceeded in the worst of its own windows, in per cent of the limit. */
    double over() {
        long most = admitted.values().stream().mapToLong(Long::longValue).max().orElse(0);
        return Math.max(0, 100.0 * (most - limit) / limit);
    }

    final void at(long time, Runnable action) {
        events.add(new Event(time, action));
    }

    abstract boolean admits(int instance, long now);

    /** Returns the window of a time, as the limiter itself defines it. */
    abstract long windowAt(long now);

    /**
     * A model of the backend {@code redis-local-async} of WSO2's gateway: an instance decides from the shared count of
     * its last synchronization and its own requests since. It sends these every 50 ms, the default, and gets the shared
     * count a round trip later. Windows begin at multiples of their length.
     */
    static final class Wso2 extends DelayedSync {

        private static final long INTERVAL = 50_000_000;
        private static final long ONE_WAY = 500_000;

        private final Map<Long, Long> shared = new HashMap<>();
        private final Replica[] instances;

        Wso2(long limit, Duration window, int instances) {
            super(limit, window);
            this.instances =
                    IntStream.range(0, instances).mapToObj(i -> new Replica()).toArray(Replica[]::new);
            for (int i = 0; i < instances; i++) {
                sendAt(this.instances[i], INTERVAL * i / instances);
            }
        }

        private static final class Replica {
            private long window = -1;
            private long base;
            private long own;
            private boolean isBlocked;
        }

        @Override
        boolean admits(int number, long now) {
            Replica instance = instances[number];
            if (instance.window != windowAt(now)) {
                instance.window = windowAt(now);
                instance.base = 0;
                instance.own = 0;
                instance.isBlocked = false;
            }
            instance.isBlocked |= instance.base + instance.own + 1 > limit;
            instance.own += instance.isBlocked ? 0 : 1;
            return !instance.isBlocked;
        }

        private void sendAt(Replica instance, long time) {
            at(time, () -> {
                long window = instance.window;
                long sent = instance.own;
                if (sent > 0) {
                    at(time + ONE_WAY, () -> {
                        long sum = shared.merge(window, sent, Long::sum);
                        at(time + 2 * ONE_WAY, () -> synchronize(instance, window, sent, sum));
                    });
                }
                sendAt(instance, time + INTERVAL);
            });
        }

        private void synchronize(Replica instance, long window, long sent, long sum) {
            if (instance.window == window) {
                instance.base = sum;
                instance.own -= sent;
                instance.isBlocked |= sum >= limit;
            }
        }

        @Override
        long windowAt(long now) {
            return now / windowNanos;
        }
    }

    /**
     * A model of the delayed synchronization of APISIX's plugin limit-count: an instance decides from what remained at
     * its last synchronization, less its own requests since. It sends these 200 ms after the first of them, an interval
     * that APISIX has measured with; by default it synchronizes with each request. Requests wait for a synchronization,
     * so it takes no time here. A window begins with the first request that is synchronized after the last one.
     */
    static final class Apisix extends DelayedSync {

        private static final long INTERVAL = 200_000_000;

        private final Gateway[] instances;
        private long sharedLeft;
        private long sharedEnd = Long.MIN_VALUE;

        Apisix(long limit, Duration window, int instances) {
            super(limit, window);
            this.instances =
                    IntStream.range(0, instances).mapToObj(i -> new Gateway()).toArray(Gateway[]::new);
        }

        private static final class Gateway {
            private long left;
            private long end = Long.MIN_VALUE;
            private long own;
            private boolean willSend;
        }

        @Override
        boolean admits(int number, long now) {
            Gateway instance = instances[number];
            if (now >= instance.end) {
                synchronize(instance, now);
            }
            if (!instance.willSend) {
                instance.willSend = true;
                at(now + INTERVAL, () -> {
                    instance.willSend = false;
                    synchronize(instance, now + INTERVAL);
                });
            }
            if (instance.left - instance.own < 1) {
                return false;
            }
            instance.own++;
            return true;
        }

        private void synchronize(Gateway instance, long now) {
            if (now >= sharedEnd) {
                sharedLeft = limit;
                sharedEnd = now + windowNanos;
            }
            sharedLeft -= instance.own;
            instance.own = 0;
            instance.left = Math.max(0, sharedLeft);
            instance.end = sharedEnd;
        }

        @Override
        long windowAt(long now) {
            return sharedEnd;
        }
    }
}
