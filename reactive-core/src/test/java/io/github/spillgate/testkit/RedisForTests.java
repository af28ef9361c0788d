package io.github.spillgate.testkit;

import io.lettuce.core.RedisURI;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * A real Redis for tests, which needs nothing installed.
 *
 * <p>Half of this library is Lua, and only Redis runs it as Redis does. So no test talks to a mock, and no test is
 * skipped for lack of a Redis: a machine that runs Maven runs them all. {@code docs/CONTRIBUTING.md} lists the sources
 * of the servers in their order.
 *
 * <p>What the environment asks for must be there: a server that {@code SPILLGATE_REDIS_URI} names, the programs of
 * {@code SPILLGATE_REDIS_BINARIES}, and the images where {@code SPILLGATE_TEST_DOCKER} is {@code true}, as it is with
 * {@code mvn -Pdocker}; a build that is to test those cannot pass without them. Any other that does not start is told
 * on {@code System.out} and left out, as long as one does.
 *
 * <p>{@link #first()} and {@link #all()} hand out <em>shared</em> servers: started at the first call, once per JVM,
 * gone with it. Tests share their data as well and tell their keys apart by name. A test that stops, stalls or restarts
 * its server takes one for itself with {@link #startOwn()}.
 *
 * <p>Not even a server of our own outlives the JVM, unless that is killed with SIGKILL: Redis has no option to go when
 * its parent goes. What lingers then is idle, listens on the loopback interface alone, and saves nothing.
 */
public final class RedisForTests implements AutoCloseable {

    private static final Attempts SHARED =
            new Attempts(RedisCandidate.all(System.getenv()), RedisForTests::share, System.out::println);

    private final String name;
    private final String version;
    private final String address;
    private final @Nullable Path binary;
    private final @Nullable RedisProcess process;

    private RedisForTests(
            String name, String version, String address, @Nullable Path binary, @Nullable RedisProcess process) {
        this.name = name;
        this.version = version;
        this.address = address;
        this.binary = binary;
        this.process = process;
    }

    /** The Redis for a test that needs only one: the first of {@link #all()}, and no other is started for it. */
    public static RedisForTests first() {
        return SHARED.first();
    }

    /** Every Redis at hand, for a test that must hold on each of them; never empty. */
    public static List<RedisForTests> all() {
        return SHARED.all();
    }

    /**
     * Starts a server that is the caller's alone, of the binary on the {@code PATH} or else of the embedded one.
     * Whatever {@code SPILLGATE_REDIS_URI} says, that one is not ours to kill.
     */
    public static RedisForTests startOwn() {
        return new Attempts(RedisCandidate.binaries(System.getenv()), UnaryOperator.identity(), line -> {}).first();
    }

    /** Those of {@link #all()} of which there can be {@link #another()}, because this machine has the program. */
    public static List<RedisForTests> programs() {
        return all().stream().filter(redis -> redis.binary != null).toList();
    }

    /** Those of {@link #programs()} that speak TLS; which do not is said. Never empty. */
    public static List<RedisForTests> programsWithTls() {
        List<RedisForTests> withTls = new ArrayList<>();
        StringBuilder without = new StringBuilder();
        for (RedisForTests redis : programs()) {
            try {
                redis.another(TlsForTests.ofServer()).close();
                withTls.add(redis);
            } catch (IllegalStateException e) {
                System.out.println("[spillgate] tests of TLS go without " + redis + ": " + e.getMessage());
                without.append("\n  - ").append(e.getMessage());
            }
        }
        if (withTls.isEmpty()) {
            throw new IllegalStateException("Tests of TLS need a Redis that was built with it. Tried:" + without);
        }
        return withTls;
    }

    /** A server somewhere else, of which we know nothing but the address. */
    static RedisForTests at(String name, String version, String address) {
        return new RedisForTests(name, version, address, null, null);
    }

    /** A server that we started. */
    static RedisForTests of(String name, RedisProcess process) {
        return new RedisForTests(name, process.info().version(), process.address(), process.binary(), process);
    }

    /** Which Redis this is, for people: {@code redis-server 7.0.15 on the PATH}. Holds no credentials. */
    public String name() {
        return name;
    }

    /** The version of the server as it says itself, Valkey's own where it is a Valkey. */
    public String version() {
        return version;
    }

    /** Returns the URI, as a new object on each call because a {@code RedisURI} is mutable. */
    public RedisURI uri() {
        return RedisURI.create(address);
    }

    /** Starts a server that is the caller's alone, of the program that this one is of. */
    public RedisForTests another() {
        return another(RedisProcess.Listening.PLAINLY);
    }

    /**
     * Starts a server that is the caller's alone, of the program that this one is of, and speaks TLS and nothing else.
     */
    public RedisForTests another(TlsForTests tls) {
        return another(tls.listening());
    }

    /**
     * Stops the own server in its tracks (SIGSTOP), as a stalled virtual machine would: it keeps its connections and
     * its port, the kernel even accepts new connections for it, and nothing is answered. When this returns, it stands
     * still.
     *
     * @throws UnsupportedOperationException on Windows, which has no such signal
     */
    public void pause() {
        own().pause();
    }

    /** Resumes the paused server; it then executes the commands received during the pause. */
    public void resume() {
        own().resume();
    }

    /** Kills the own server; connections break and new ones are refused. When this returns, it is gone. */
    public void kill() {
        own().kill();
    }

    /** Starts the own server again on the same port, empty, its scripts forgotten; kills it first if it still runs. */
    public void restart() {
        own().restart();
    }

    /**
     * Kills the own server for good. Does nothing to a shared one: JUnit closes the arguments of parameterised tests,
     * and the next test needs it.
     */
    @Override
    public void close() {
        if (process != null) {
            process.close();
        }
    }

    @Override
    public String toString() {
        return name;
    }

    /** The process behind the own server, for those of this package. */
    RedisProcess own() {
        if (process == null) {
            throw new IllegalStateException("expected a Redis of the test's own, from RedisForTests.startOwn(), but "
                    + name + " is shared by all tests of this JVM");
        }
        return process;
    }

    /** The same server without the handle on its process, so that no test can take it away from the others. */
    private RedisForTests share() {
        return new RedisForTests(name, version, address, binary, null);
    }

    private RedisForTests another(RedisProcess.Listening listening) {
        if (binary == null) {
            throw new IllegalStateException(
                    "expected a Redis of this machine's, from RedisForTests.programs(), but got " + name);
        }
        return of(name, RedisProcess.start(binary, listening));
    }

    private String nameAndPlace() {
        return process == null ? name : name + ", 127.0.0.1:" + process.port();
    }

    /** Goes through candidates in their order, each at most once, remembers what came of it, and says so. */
    static final class Attempts {

        private static final String ANY_WILL_DO = """
            Expected one that starts. Any of these will do:
              - install one: apt-get install redis-server, dnf install redis, apk add redis, brew install redis
              - set SPILLGATE_REDIS_URI to one that may be written to, such as redis://127.0.0.1:6379
              - start Docker, with SPILLGATE_TEST_DOCKER not set to false
            """;

        private static final String AS_ASKED = """
            Expected it to start, for SPILLGATE_REDIS_URI, SPILLGATE_REDIS_BINARIES or SPILLGATE_TEST_DOCKER=true asks
            for it.
            Start it, or unset the variable.
            """;

        private final Deque<RedisCandidate> untried;
        private final UnaryOperator<RedisForTests> whenStarted;
        private final Consumer<String> say;
        private final List<RedisForTests> started = new ArrayList<>();
        private final List<Failure> failures = new ArrayList<>();

        Attempts(List<RedisCandidate> candidates, UnaryOperator<RedisForTests> whenStarted, Consumer<String> say) {
            this.untried = new ArrayDeque<>(candidates);
            this.whenStarted = whenStarted;
            this.say = say;
        }

        synchronized RedisForTests first() {
            while (started.isEmpty() && !untried.isEmpty()) {
                tryNext();
            }
            if (started.isEmpty()) {
                throw noRedis();
            }
            return started.get(0);
        }

        synchronized List<RedisForTests> all() {
            while (!untried.isEmpty()) {
                tryNext();
            }
            if (started.isEmpty() || lacksRequired()) {
                throw noRedis();
            }
            return List.copyOf(started);
        }

        private void tryNext() {
            RedisCandidate candidate = untried.remove();
            try {
                RedisForTests redis = candidate.starter().get();
                say.accept("[spillgate] tests use " + redis.nameAndPlace());
                started.add(whenStarted.apply(redis));
            } catch (RuntimeException e) {
                failures.add(new Failure(candidate.what(), candidate.required(), e));
                if (candidate.required()) {
                    untried.clear();
                } else {
                    say.accept("[spillgate] tests go without " + candidate.what() + ": " + reason(e));
                }
            }
        }

        private IllegalStateException noRedis() {
            StringBuilder text = new StringBuilder("Tests need Redis, and none is skipped for want of it. Tried:");
            for (Failure failure : failures) {
                text.append("\n  - ").append(failure.what()).append(": ");
                text.append(reason(failure.cause()).replace("\n", "\n    "));
            }
            text.append("\n").append(lacksRequired() ? AS_ASKED : ANY_WILL_DO);
            IllegalStateException noRedis =
                    new IllegalStateException(text.toString().stripTrailing());
            failures.forEach(failure -> noRedis.addSuppressed(failure.cause()));
            return noRedis;
        }

        private boolean lacksRequired() {
            return failures.stream().anyMatch(Failure::required);
        }

        private static String reason(Exception cause) {
            String message = cause.getMessage();
            return message == null ? cause.toString() : message;
        }

        private record Failure(String what, boolean required, Exception cause) {}
    }
}
