package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.CounterState;
import java.util.List;
import java.util.function.DoubleSupplier;
import java.util.stream.IntStream;

/**
 * Simulates the clients of a mix. The log, both counters and brute force decide on the same requests, and each
 * continues from what it has admitted itself, as in production.
 *
 * <p>Clients are independent, so they are simulated one after the other, in parallel groups of some hundreds. Each
 * starts at a random moment of a window.
 */
final class Crowd {

    private static final int TOGETHER = 250;

    private final Mix mix;
    private final Limit counter;
    private final Limit aligned;
    private final long window;
    private final int windows;

    /** Creates a crowd that sends requests for this number of windows. */
    Crowd(Mix mix, int windows) {
        this.mix = mix;
        this.windows = windows;
        counter = mix.limit().counter();
        aligned = counter.alignedToClock();
        window = mix.limit().window().toMillis();
    }

    Tally decide() {
        int groups = (mix.clients() + TOGETHER - 1) / TOGETHER;
        List<Tally> tallies = IntStream.range(0, groups)
                .parallel()
                .mapToObj(group -> decide(group * TOGETHER, Math.min(mix.clients(), (group + 1) * TOGETHER)))
                .toList();
        // Add in order, because a sum of floating-point numbers depends on it.
        Tally all = new Tally();
        tallies.forEach(all::add);
        return all;
    }

    private Tally decide(int from, int to) {
        Ours logs = new Ours(mix.limit(), to - from);
        Ours counters = new Ours(counter, to - from);
        Ours alignedCounters = new Ours(aligned, to - from);
        Tally tally = new Tally();
        for (int client = from; client < to; client++) {
            String name = "client-" + client;
            Beside first = new Beside(counter, counters.of(name), tally.fromFirstHit);
            Beside onClock = new Beside(aligned, alignedCounters.of(name), tally.aligned);
            come(client, logs.of(name), first, onClock, tally);
        }
        return tally;
    }

    private void come(int client, Admission log, Beside first, Beside onClock, Tally tally) {
        Chance chance = new Chance(client);
        DoubleSupplier gaps = mix.habits()
                .get(client % mix.habits().size())
                .gaps(mix.rate().applyAsDouble(chance), mix.limit(), chance);
        double begin = VirtualClock.START + chance.share() * window;
        Admission exact = new BruteForce(mix.limit());
        Lately all = new Lately(window);
        for (double time = gaps.getAsDouble(); time < windows * window; time += gaps.getAsDouble()) {
            long now = (long) (begin + time);
            int within = all.add(now);
            boolean allowed = log.admits(now);
            tally.asked++;
            tally.denied += allowed ? 0 : 1;
            tally.wrongOfLog += allowed == exact.admits(now) ? 0 : 1;
            first.decide(now, allowed, within);
            onClock.decide(now, allowed, within);
        }
    }

    /** A counter that decides on the requests of one client, compared with the log. */
    private static final class Beside {

        private final Limit limit;
        private final long window;
        private final Admission admission;
        private final Tally.OfCounter tally;
        private final Lately admitted;
        private CounterState ofAll;

        Beside(Limit limit, Admission admission, Tally.OfCounter tally) {
            this.limit = limit;
            this.admission = admission;
            this.tally = tally;
            window = limit.window().toMillis();
            admitted = new Lately(window);
            ofAll = new CounterState(0, 0, 0);
        }

        void decide(long now, boolean allowedByLog, int within) {
            boolean allowed = admission.admits(now);
            tally.wronglyAllowed += allowed && !allowedByLog ? 1 : 0;
            tally.wronglyDenied += !allowed && allowedByLog ? 1 : 0;
            if (allowed) {
                tally.allowed++;
                tally.mostInAWindow = Math.max(tally.mostInAWindow, admitted.add(now));
            }
            judge(now, within);
        }

        /** Compares the estimate of a counter that counts all requests, which is what others have measured. */
        private void judge(long now, int within) {
            ofAll = (ofAll.isEmpty() ? CounterState.empty(limit, now) : ofAll.at(limit, now)).plus(1);
            double estimate = ofAll.previous() * (1 - (double) (now - ofAll.start()) / window) + ofAll.current();
            boolean isOver = within > limit.permits();
            boolean isToldOver = estimate > limit.permits();
            tally.wronglyOver += isToldOver && !isOver ? 1 : 0;
            tally.wronglyUnder += isOver && !isToldOver ? 1 : 0;
            tally.off += Math.abs(estimate - within) / within;
        }
    }
}
