package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
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
final class MixSimulation {

    private static final int CLIENTS_IN_GROUP = 250;

    private final Mix mix;
    private final Limit counter;
    private final Limit aligned;
    private final long window;
    private final int windows;

    /** Creates a simulation of clients that send requests for this number of windows. */
    MixSimulation(Mix mix, int windows) {
        this.mix = mix;
        this.windows = windows;
        counter = mix.limit().counter();
        aligned = counter.alignedToClock();
        window = mix.limit().window().toMillis();
    }

    SimulationCounts decide() {
        int groups = (mix.clients() + CLIENTS_IN_GROUP - 1) / CLIENTS_IN_GROUP;
        List<SimulationCounts> tallies = IntStream.range(0, groups)
                .parallel()
                .mapToObj(group ->
                        decide(group * CLIENTS_IN_GROUP, Math.min(mix.clients(), (group + 1) * CLIENTS_IN_GROUP)))
                .toList();
        SimulationCounts all = new SimulationCounts();
        tallies.forEach(all::add);
        return all;
    }

    private SimulationCounts decide(int from, int to) {
        LocalLimiter logs = new LocalLimiter(mix.limit(), to - from);
        LocalLimiter counters = new LocalLimiter(counter, to - from);
        LocalLimiter alignedCounters = new LocalLimiter(aligned, to - from);
        SimulationCounts tally = new SimulationCounts();
        for (int client = from; client < to; client++) {
            String name = "client-" + client;
            ComparedCounter first = new ComparedCounter(counter, counters.of(name), tally.fromFirstHit);
            ComparedCounter onClock = new ComparedCounter(aligned, alignedCounters.of(name), tally.aligned);
            simulate(client, logs.of(name), first, onClock, tally);
        }
        return tally;
    }

    private void simulate(
            int client, Admission log, ComparedCounter first, ComparedCounter onClock, SimulationCounts tally) {
        SeededRandom chance = new SeededRandom(client);
        DoubleSupplier gaps = mix.patterns()
                .get(client % mix.patterns().size())
                .gaps(mix.rate().applyAsDouble(chance), mix.limit(), chance);
        double begin = VirtualClock.START + chance.share() * window;
        Admission exact = new BruteForce(mix.limit());
        for (double time = gaps.getAsDouble(); time < windows * window; time += gaps.getAsDouble()) {
            long now = (long) (begin + time);
            boolean allowed = log.admits(now);
            tally.asked++;
            tally.denied += allowed ? 0 : 1;
            tally.wrongOfLog += allowed == exact.admits(now) ? 0 : 1;
            first.decide(now, allowed);
            onClock.decide(now, allowed);
        }
    }

    /** A counter that decides on the requests of one client, compared with the log. */
    private static final class ComparedCounter {

        private final Admission admission;
        private final SimulationCounts.OfCounter tally;
        private final SlidingCount admitted;

        ComparedCounter(Limit limit, Admission admission, SimulationCounts.OfCounter tally) {
            this.admission = admission;
            this.tally = tally;
            this.admitted = new SlidingCount(limit.window().toMillis());
        }

        void decide(long now, boolean allowedByLog) {
            boolean allowed = admission.admits(now);
            tally.wronglyAllowed += allowed && !allowedByLog ? 1 : 0;
            tally.wronglyDenied += !allowed && allowedByLog ? 1 : 0;
            if (allowed) {
                tally.allowed++;
                tally.mostInAWindow = Math.max(tally.mostInAWindow, admitted.add(now));
            }
        }
    }
}
