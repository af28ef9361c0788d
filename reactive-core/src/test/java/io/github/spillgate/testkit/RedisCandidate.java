package io.github.spillgate.testkit;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.utility.DockerImageName;
import redis.embedded.core.ExecutableProvider;
import redis.embedded.model.OsArchitecture;

/**
 * A possible source of a Redis. Whether it is available shows when it is started.
 *
 * @param what a description for error messages
 * @param required whether its failure is an error even if another candidate starts
 * @param starter starts a new server, or finds a running one; or throws an error that says how to fix the cause
 */
record RedisCandidate(String what, boolean required, Supplier<RedisForTests> starter) {

    private static final String URI = "SPILLGATE_REDIS_URI";
    private static final String BINARIES = "SPILLGATE_REDIS_BINARIES";
    private static final String DOCKER = "SPILLGATE_TEST_DOCKER";
    private static final List<String> IMAGES =
            List.of("redis:6.2-alpine", "redis:7.4-alpine", "redis:8-alpine", "valkey/valkey:9-alpine");
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private static @Nullable Path embedded;

    /** All that a machine with this environment has to offer, the preferred first. */
    static List<RedisCandidate> all(Map<String, String> environment) {
        String uri = environment.get(URI);
        List<RedisCandidate> all = new ArrayList<>(binaries(environment));
        if (uri != null && !uri.isBlank()) {
            all.set(0, named(uri));
        }
        boolean required = "true".equals(environment.get(DOCKER));
        boolean refused = "false".equals(environment.get(DOCKER));
        if (required || (!refused && hasDocker(environment))) {
            IMAGES.forEach(image -> all.add(new RedisCandidate(image + " in Docker", required, () -> inDocker(image))));
        }
        return all;
    }

    /** Those of which we start as many processes as we like. */
    static List<RedisCandidate> binaries(Map<String, String> environment) {
        String path = environment.get("PATH");
        List<RedisCandidate> binaries = new ArrayList<>();
        binaries.add(onThePath("redis-server", path));
        // A missing Valkey is not reported, because it is optional.
        if (find("valkey-server", path).isPresent()) {
            binaries.add(onThePath("valkey-server", path));
        }
        entries(environment.get(BINARIES)).forEach(named -> binaries.add(atThe(Path.of(named))));
        binaries.add(embedded());
        return binaries;
    }

    private static RedisCandidate named(String uri) {
        return new RedisCandidate(URI, true, () -> {
            RedisProcess.Info info = ask(parse(uri));
            // Up to the last @: a password may hold one.
            String shown = uri.replaceFirst("//.*@", "//");
            return RedisForTests.at(URI + " " + shown + " (" + info.product() + ")", info.version(), uri);
        });
    }

    private static RedisURI parse(String uri) {
        try {
            return RedisURI.create(uri);
        } catch (IllegalArgumentException e) {
            // Without its cause, which quotes the URI with the password in it.
            throw new IllegalArgumentException(
                    "expected a URI such as redis://127.0.0.1:6379 (not shown, for it may hold a password)");
        }
    }

    private static RedisCandidate onThePath(String program, @Nullable String path) {
        return of(
                program + " on the PATH",
                false,
                () -> find(program, path)
                        .orElseThrow(() -> new IllegalStateException("there is none; the PATH is " + path)),
                product -> product + " on the PATH");
    }

    private static RedisCandidate atThe(Path binary) {
        return of(
                BINARIES + " " + binary,
                true,
                () -> {
                    if (!Files.isExecutable(binary)) {
                        throw new IllegalStateException("expected a program that may be run");
                    }
                    return binary;
                },
                product -> product + " at " + binary);
    }

    private static RedisCandidate embedded() {
        return of(
                "redis-server of embedded-redis",
                false,
                RedisCandidate::embeddedBinary,
                product -> "embedded " + product);
    }

    private static RedisCandidate of(String what, boolean required, Supplier<Path> binary, UnaryOperator<String> name) {
        return new RedisCandidate(what, required, () -> {
            RedisProcess process = RedisProcess.start(binary.get(), RedisProcess.Listening.PLAINLY);
            return RedisForTests.of(name.apply(process.info().product()), process);
        });
    }

    private static Optional<Path> find(String program, @Nullable String path) {
        String file = RedisProcess.isWindows() ? program + ".exe" : program;
        return entries(path)
                .map(directory -> Path.of(directory, file))
                .filter(Files::isRegularFile)
                .filter(Files::isExecutable)
                .findFirst();
    }

    private static Stream<String> entries(@Nullable String list) {
        return Arrays.stream((list == null ? "" : list).split(File.pathSeparator))
                .filter(entry -> !entry.isBlank());
    }

    /** The binary out of the jar, once per JVM; and only that, so that all servers are started and told about alike. */
    private static synchronized Path embeddedBinary() {
        Path binary = embedded;
        if (binary == null) {
            OsArchitecture here = OsArchitecture.detectOSandArchitecture();
            if (!ExecutableProvider.newProvidedVersionsMap().containsKey(here)) {
                throw new IllegalStateException("embedded-redis ships no binary for " + here.os + " on " + here.arch);
            }
            Path directory = RedisProcess.Leftovers.newDirectory("binary");
            try {
                binary = ExecutableProvider.newJarResourceProvider(directory.toFile())
                        .get()
                        .toPath();
            } catch (IOException e) {
                throw new UncheckedIOException(e.getMessage(), e);
            }
            embedded = binary;
        }
        return binary;
    }

    /** A look at the usual sockets: Testcontainers logs at length, and takes its time, where there is no Docker. */
    private static boolean hasDocker(Map<String, String> environment) {
        String home = System.getProperty("user.home");
        return environment.get("DOCKER_HOST") != null
                || Stream.of(
                                "/var/run/docker.sock",
                                home + "/.docker/run/docker.sock",
                                home + "/.docker/desktop/docker.sock",
                                environment.get("XDG_RUNTIME_DIR") + "/docker.sock")
                        .map(Path::of)
                        .anyMatch(Files::exists);
    }

    private static RedisForTests inDocker(String image) {
        if (!DockerClientFactory.instance().isDockerAvailable()) {
            throw new IllegalStateException("Docker does not answer; expected `docker info` to work for this user");
        }
        // Never closed: it is shared by all tests, and Testcontainers removes it when the JVM has gone.
        GenericContainer<?> container = new GenericContainer<>(DockerImageName.parse(image)).withExposedPorts(6379);
        container.start();
        String address = "redis://" + container.getHost() + ":" + container.getMappedPort(6379);
        RedisProcess.Info info = ask(RedisURI.create(address));
        return RedisForTests.at(info.product() + " in Docker (" + image + ")", info.version(), address);
    }

    /** Over Lettuce, which knows about passwords, TLS and Sentinels. */
    private static RedisProcess.Info ask(RedisURI uri) {
        uri.setTimeout(PATIENCE);
        try (RedisClient client = RedisClient.create(uri);
                StatefulRedisConnection<String, String> connection = client.connect()) {
            return RedisProcess.Info.parse(connection.sync().info("server"));
        }
    }
}
