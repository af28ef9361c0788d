package io.github.spillgate.examples.benchmark;

import io.github.spillgate.examples.benchmark.contender.Contender;
import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.Setting;
import io.github.spillgate.examples.benchmark.measure.Cpu;
import io.github.spillgate.examples.benchmark.measure.Driver;
import io.github.spillgate.examples.benchmark.measure.Load;
import io.github.spillgate.examples.benchmark.measure.RedisServer;
import io.github.spillgate.examples.benchmark.measure.Servers;
import io.github.spillgate.examples.benchmark.measure.Slice;
import io.github.spillgate.examples.benchmark.report.Result;
import io.github.spillgate.examples.benchmark.work.Work;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * One work: everybody is set up and warmed up, and then takes turns, in another order in each round. What goes on
 * besides on the machine, and changes from minute to minute, meets all of them alike.
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
        work.entrants().forEach(entrant -> servers.of(entrant.home()).forEach(RedisServer::empty));
        try (Driver driver = Driver.of(work.threads())) {
            Runnable after = work.after().isZero() ? () -> {} : Cpu.busyFor(work.after());
            List<String> many = IntStream.range(0, work.keys())
                    .mapToObj(number -> "user:" + number)
                    .toList();
            progress.print("  warm-up ");
            for (Entrant entrant : work.entrants()) {
                Turns turns = new Turns(work, entrant, keys(work, entrant, many), after, driver);
                all.add(turns);
                turns.warmUp();
            }
            // Clients and keys are there to stay: else the first pauses within the slices would carry them about.
            System.gc();
            List<Turns> order = new ArrayList<>(all);
            Random random = new Random(SEED);
            for (int round = 1; round <= pace.rounds(); round++) {
                progress.printf(" round %d ", round);
                Collections.shuffle(order, random);
                order.forEach(Turns::next);
            }
            progress.println();
            return all.stream().map(Turns::result).toList();
        } finally {
            all.forEach(Turns::close);
        }
    }

    /** A single key is another one for each who takes part: two of them may store the same under the same name. */
    private static List<String> keys(Work work, Entrant entrant, List<String> many) {
        return work.keys() == 1 ? List.of("hot:" + entrant.title().replace(' ', '-')) : many;
    }

    /** One who takes part, and what has come of his turns. */
    private final class Turns implements AutoCloseable {

        private final Work work;
        private final Entrant entrant;
        private final Driver driver;
        private final List<Contender> instances = new ArrayList<>();
        private final Load load;
        private final List<Slice> slices = new ArrayList<>();

        Turns(Work work, Entrant entrant, List<String> keys, Runnable after, Driver driver) {
            this.work = work;
            this.entrant = entrant;
            this.driver = driver;
            List<RedisServer> home = servers.of(entrant.home());
            Setting setting = new Setting(home.get(0).host(), home.get(0).port(), work.rates());
            for (int i = 0; i < work.instances(); i++) {
                instances.add(entrant.open(setting));
            }
            this.load = new Load(instances, home, keys, work.inFlight(), after, false);
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
            // The keys of the one before would be in the way, and would go on expiring while this one is measured. But
            // a limit that is used up is to stay so.
            if (!work.denied()) {
                load.servers().forEach(RedisServer::empty);
            }
            instances.forEach(instance -> instance.prepare(load.keys()));
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
        }
    }
}
