package io.github.spillgate;

import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Flux;

/** Another process that waits for permits of a limiter, like another instance of a service. */
final class AnotherProcess implements AutoCloseable {

    private final Process process;
    private final BufferedReader output;
    private final List<Long> grants = new ArrayList<>();

    private AnotherProcess(Process process) {
        this.process = process;
        this.output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Starts the process, and returns when it is connected. */
    static AnotherProcess start(String uri, String limiter, Limit limit, int calls) throws IOException {
        AnotherProcess other = new AnotherProcess(new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx128m",
                        "-cp",
                        System.getProperty("java.class.path"),
                        AnotherProcess.class.getName(),
                        uri,
                        limiter,
                        limit.toString(),
                        Integer.toString(calls))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start());
        other.expect("ready");
        return other;
    }

    /** Starts its waits, and returns when it has its first permit. */
    void go() throws IOException {
        process.getOutputStream().write('\n');
        process.getOutputStream().flush();
        grants.add(Long.parseLong(output.readLine()));
    }

    /** Waits until it has all permits, and returns the times of the grants. */
    List<Long> grants() throws IOException {
        for (String line = output.readLine(); line != null; line = output.readLine()) {
            grants.add(Long.parseLong(line));
        }
        return grants;
    }

    private void expect(String line) throws IOException {
        String first = output.readLine();
        if (!line.equals(first)) {
            close();
            throw new IOException("the other process said " + first + " instead of " + line);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            output.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public static void main(String[] args) throws IOException {
        RedisClient client = RedisClient.create(args[0]);
        RateLimiter limiter = RateLimiter.builder(args[1])
                .store(new Unprotected(RedisStore.create(client)))
                .limit(Limit.parse(args[2]))
                .build();
        int calls = Integer.parseInt(args[3]);
        limiter.peek("a").block();
        System.out.println("ready");
        System.in.read();
        Flux.range(0, calls)
                .flatMap(i -> limiter.acquire("a", Duration.ofMinutes(1)), calls)
                .toStream()
                .forEach(decision -> System.out.println(decision.at().toEpochMilli()));
        client.shutdown();
    }
}
