package io.github.spillgate.examples.benchmark;

import io.github.spillgate.examples.benchmark.contender.Contender;
import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.Setting;
import io.github.spillgate.examples.benchmark.measure.Driver;
import io.github.spillgate.examples.benchmark.measure.Load;
import io.github.spillgate.examples.benchmark.measure.Server;
import io.github.spillgate.examples.benchmark.measure.Servers;
import io.github.spillgate.examples.benchmark.measure.Slice;
import io.github.spillgate.examples.benchmark.measure.Wire;
import io.github.spillgate.examples.benchmark.measure.Zipf;
import io.github.spillgate.examples.benchmark.report.Result;
import io.github.spillgate.examples.benchmark.work.Work;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * Runs one workload: sets up and warms up all contenders, and then measures each in every round, in a different order.
 * So other load on the machine affects all contenders alike.
 */
final class Rounds {

    private static final long SEED = 42;

    private final Servers servers;
    private final Pace pace;
    private final PrintStream progress;

    Rounds(Servers servers, Pace pace, PrintStream progress) {
        this.servers = servers;
        this.pace = pace;
        this.progress = progress;
    }

    List<Result> of(Work work) {
        List<Turns> all = new ArrayList<>();
        work.entrants().forEach(entrant -> servers.of(entrant.topology()).forEach(Server::empty));
        try (Driver driver = Driver.of(work.threads())) {
            List<String> shared = keys("user", work);
            progress.print("  warm-up ");
            for (Entrant entrant : work.entrants()) {
                // Of the same length for each contender.
                List<String> keys = isShared(work) ? shared : keys("c" + (100 + all.size()), work);
                Turns turns = new Turns(work, entrant, keys, work.skewed() ? Zipf.of(keys) : keys, driver);
                all.add(turns);
                turns.warmUp();
            }
            // Clients and keys are long-lived: collect now, so that no pause within a slice has to promote them.
            System.gc();
            List<Turns> order = new ArrayList<>(all);
            Random random = new Random(SEED);
            Turns last = order.get(order.size() - 1);
            for (int round = 1; round <= pace.rounds(); round++) {
                progress.printf(" round %d ", round);
                Collections.shuffle(order, random);
                if (order.get(0) == last) {
                    // Not the same contender again: its permits of the last second are still in use.
                    Collections.rotate(order, 1);
                }
                order.forEach(Turns::next);
                last = order.get(order.size() - 1);
            }
            progress.println();
            return all.stream().map(Turns::result).toList();
        } finally {
            all.forEach(Turns::close);
        }
    }

    private static List<String> keys(String prefix, Work work) {
        return IntStream.range(0, work.keys())
                .mapToObj(number -> prefix + ":" + number)
                .toList();
    }

    /**
     * Returns whether all contenders have the same keys. As some use the same names in Redis, it has to be emptied
     * between their turns, and each has a single key for itself.
     */
    private static boolean isShared(Work work) {
        return work.keys() > 1 && !work.keepsCounts();
    }

    /** The turns of one contender, and their results. */
    private final class Turns implements AutoCloseable {

        private final Work work;
        private final Entrant entrant;
        private final List<String> keys;
        private final Driver driver;
        private final Optional<Wire> wire;
        private final List<Contender> instances = new ArrayList<>();
        private final Load load;
        private final List<Slice> slices = new ArrayList<>();

        /**
         * Creates the turns of a contender.
         *
         * @param keys the keys, each once
         * @param drawn the keys, each as often as it is used
         */
        Turns(Work work, Entrant entrant, List<String> keys, List<String> drawn, Driver driver) {
            this.work = work;
            this.entrant = entrant;
            this.keys = keys;
            this.driver = driver;
            List<Server> nodes = servers.of(entrant.topology());
            int port = nodes.get(0).port();
            this.wire = work.isFar() ? Optional.of(new Wire(port)) : Optional.empty();
            Setting setting = new Setting(wire.map(Wire::port).orElse(port), work.rates());
            for (int i = 0; i < work.instances(); i++) {
                instances.add(entrant.open(setting));
            }
            this.load = new Load(instances, nodes, drawn, work.inFlight(), false);
        }

        void warmUp() {
            prepare();
            drive(pace.warmUp());
        }

        void next() {
            prepare();
            driver.drive(load.everyKeyInTurn(), pace.runIn());
            slices.add(drive(pace.slice()));
        }

        private void prepare() {
            // Keys of the previous contender would take memory and expire during this turn.
            if (!work.keepsCounts()) {
                load.servers().forEach(Server::empty);
            }
            instances.forEach(instance -> instance.prepare(keys));
        }

        private Slice drive(Duration time) {
            progress.print('.');
            progress.flush();
            try {
                return driver.drive(load, time);
            } catch (IllegalStateException e) {
                throw new IllegalStateException(work.name() + ", " + entrant.title() + ": " + e.getMessage(), e);
            }
        }

        Result result() {
            return new Result(work, entrant, slices);
        }

        @Override
        public void close() {
            instances.forEach(Contender::close);
            wire.ifPresent(Wire::close);
        }
    }
}
