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

/** A process of its own that waits for permits of a limiter, as another instance of a service does. */
final class AnotherProcess implements AutoCloseable {

    private final Process process;
    private final BufferedReader said;
    private final List<Long> grants = new ArrayList<>();

    private AnotherProcess(Process process) {
        this.process = process;
        this.said = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Starts it; when this returns, it has its connection. */
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

    /** Lets it wait for its permits; when this returns, it has the first of them. */
    void go() throws IOException {
        process.getOutputStream().write('\n');
        process.getOutputStream().flush();
        grants.add(Long.parseLong(said.readLine()));
    }

    /** Returns when each of its permits was granted, once it has all of them. */
    List<Long> grants() throws IOException {
        for (String line = said.readLine(); line != null; line = said.readLine()) {
            grants.add(Long.parseLong(line));
        }
        return grants;
    }

    private void expect(String line) throws IOException {
        String first = said.readLine();
        if (!line.equals(first)) {
            close();
            throw new IOException("the other process said " + first + " instead of " + line);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            said.close();
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
