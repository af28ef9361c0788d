package io.github.spillgate.examples.benchmark.wrk;

import io.github.spillgate.examples.benchmark.contender.WebServer;
import io.github.spillgate.testkit.RedisForTests;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Measures HTTP servers with wrk, which must be installed. All servers run at the same time, and get their load in
 * turns.
 */
public final class Wrk {

    private static final List<Integer> CONNECTIONS = List.of(64, 8, 1);
    private static final int KEYS = 10_000;
    private static final Pattern RESULT = Pattern.compile("RESULT (\\d+) (\\d+) (\\d+) (\\d+) (\\d+)\\R");

    private final Path out;
    private final int warmUpSeconds;
    private final int seconds;
    private final int rounds;
    private final PrintStream log;

    private Wrk(Path out, boolean quick, PrintStream log) {
        this.out = out;
        this.warmUpSeconds = quick ? 3 : 21;
        this.seconds = quick ? 1 : 3;
        this.rounds = quick ? 2 : 5;
        this.log = log;
    }

    /** Measures all servers, and writes wrk.csv into the directory. */
    public static void write(Path out, boolean quick, PrintStream log) throws IOException {
        log.println("This takes about " + (quick ? "two" : "twelve") + " minutes.");
        new Wrk(out, quick, log).run();
    }

    private void run() throws IOException {
        List<WebProcess> servers = new ArrayList<>();
        try (RedisForTests redis = RedisForTests.startOwn()) {
            log.println("Redis " + redis.version());
            try {
                List<String> rows = measure(servers, redis);
                Files.createDirectories(out);
                Files.write(out.resolve("wrk.csv"), rows);
                log.println("Written to " + out.toAbsolutePath());
            } finally {
                for (WebProcess server : servers) {
                    server.close();
                }
            }
        }
    }

    private List<String> measure(List<WebProcess> servers, RedisForTests redis) throws IOException {
        for (WebServer server : WebServer.values()) {
            WebProcess started = WebProcess.start(server, redis.uri().getPort());
            servers.add(started);
            load(started, CONNECTIONS.get(0), warmUpSeconds);
        }
        List<String> rows = new ArrayList<>();
        rows.add("round,server,connections,requests_per_s,p50_us,p99_us,cpu_us_per_request,"
                + "context_switches_per_request,non_2xx");
        Random order = new Random(1);
        for (int round = 1; round <= rounds; round++) {
            for (int connections : CONNECTIONS) {
                Collections.shuffle(servers, order);
                for (WebProcess server : servers) {
                    String row = round + "," + measure(server, connections);
                    log.println(row);
                    rows.add(row);
                }
            }
        }
        return rows;
    }

    private String measure(WebProcess server, int connections) throws IOException {
        double cpu = server.cpuMicros();
        long switches = server.contextSwitches();
        Matcher result = load(server, connections, seconds);
        double requests = Long.parseLong(result.group(1));
        return String.format(
                Locale.ROOT,
                "%s,%d,%.2f,%s,%s,%.1f,%.2f,%s",
                server.server().title(),
                connections,
                requests * 1e6 / Long.parseLong(result.group(2)),
                result.group(3),
                result.group(4),
                (server.cpuMicros() - cpu) / requests,
                (server.contextSwitches() - switches) / requests,
                result.group(5));
    }

    private static Matcher load(WebProcess server, int connections, int seconds) throws IOException {
        Path script = Files.createTempFile("spillgate-wrk", ".lua");
        try {
            Files.writeString(script, script(server.server()));
            Process wrk = new ProcessBuilder(
                            "wrk",
                            "-t1",
                            "-c" + connections,
                            "-d" + seconds + "s",
                            "-s",
                            script.toString(),
                            "http://127.0.0.1:" + server.port() + "/")
                    .redirectErrorStream(true)
                    .start();
            String output = new String(wrk.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            Matcher result = RESULT.matcher(output);
            if (!result.find()) {
                throw new IOException("wrk has printed no result, but: " + output);
            }
            return result;
        } finally {
            Files.delete(script);
        }
    }

    /** Returns a script for wrk: requests with random keys, which are built before the first one is sent. */
    private static String script(WebServer server) {
        return """
            local requests = {}

            function init()
              math.randomseed(os.time())
              for i = 1, %d do
                requests[i] = wrk.format("GET", "/", {["%s"] = "%s-" .. i})
              end
            end

            function request()
              return requests[math.random(#requests)]
            end

            function done(summary, latency)
              local errors = summary.errors
              io.write(string.format("RESULT %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
                latency:percentile(50), latency:percentile(99),
                errors.connect + errors.read + errors.write + errors.status + errors.timeout))
            end
            """.formatted(KEYS, WebServer.KEY, server.name());
    }
}
