package io.github.spillgate.examples.benchmark.wrk;

import io.github.spillgate.examples.benchmark.contender.Rate;
import io.github.spillgate.examples.benchmark.contender.Setting;
import io.github.spillgate.examples.benchmark.contender.WebServer;
import java.io.IOException;
import java.time.Duration;
import java.util.List;

/** One HTTP server in a process of its own. It prints its port, and ends when its input ends. */
final class ServerProcess {

    /** More than any key gets from wrk. */
    private static final Rate RATE = new Rate(100, Duration.ofSeconds(1));

    private ServerProcess() {}

    /** Serves; the arguments are the name of a {@link WebServer} and the port of Redis. */
    public static void main(String[] arguments) throws IOException {
        Setting setting = new Setting(Integer.parseInt(arguments[1]), List.of(RATE));
        try (WebServer.Opened server = WebServer.valueOf(arguments[0]).open(setting)) {
            System.out.println(server.port());
            while (System.in.read() >= 0) {
                // The parent writes nothing, and its end is the end of the input.
            }
        }
        System.exit(0);
    }
}
