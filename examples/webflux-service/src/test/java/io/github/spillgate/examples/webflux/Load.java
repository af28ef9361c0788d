package io.github.spillgate.examples.webflux;

import io.github.spillgate.examples.webflux.Burst.Ask;
import io.github.spillgate.examples.webflux.Outcome.Answer;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Sends a bounded load to one or more instances of the service on this machine, and checks that they allow exactly as
 * many requests as the limits.
 */
public final class Load {

    private static final int AT_ONCE = 32;
    private static final int TO_WARM_UP = 300;
    private static final Duration LONGEST_STEP = Duration.ofMinutes(1);
    private static final Pattern USED = Pattern.compile("\"name\":\"([^\"]+)\",\"permits\":\\d+,\"used\":([1-9]\\d*)");
    private static final Pattern VALUE = Pattern.compile("\"value\":([0-9.]+)");

    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final List<URI> instances;
    private final AtomicInteger next = new AtomicInteger();

    Load(List<URI> instances) {
        this.instances = List.copyOf(instances);
    }

    /**
     * Sends all bursts, and prints the results.
     *
     * @param args the addresses of the instances; by default {@code http://localhost:8080}
     */
    public static void main(String[] args) {
        Load load = new Load(
                args.length == 0
                        ? List.of(URI.create("http://localhost:8080"))
                        : Arrays.stream(args).map(Load::instance).toList());
        load.checkFresh();
        load.warmUp();
        double before = load.fellBack();
        List<List<Burst>> steps = new ArrayList<>(Burst.all());
        steps.add(List.of(Burst.paidDay()));
        System.out.print(Outcome.TABLE);
        List<String> wrong = new ArrayList<>();
        for (List<Burst> step : steps) {
            for (Outcome outcome : load.send(step)) {
                System.out.print(outcome.row());
                outcome.wrong().ifPresent(wrong::add);
            }
        }
        double fellBack = load.fellBack() - before;
        System.out.printf("%nDecided by the fallback, because Redis missed the deadline: %.0f%n", fellBack);
        if (!wrong.isEmpty()) {
            String why = fellBack > 0
                    ? "; an instance that falls back decides without the others, so the total may differ;"
                            + " SPILLGATE_DEADLINE=5s lets the instances wait longer for Redis"
                    : "";
            throw new IllegalStateException("the limits do not hold: " + String.join("; ", wrong) + why);
        }
        System.out.println("Every limit holds exactly.");
    }

    static URI instance(String text) {
        try {
            URI uri = URI.create(text);
            if (uri.getHost() != null && InetAddress.getByName(uri.getHost()).isLoopbackAddress()) {
                return uri;
            }
        } catch (IllegalArgumentException | UnknownHostException e) {
            // Reported below.
        }
        throw new IllegalArgumentException("\"" + text
                + "\" is no instance of the service on this machine: expected one, for example http://localhost:8080");
    }

    /** Checks that no permit is used, because the expected numbers hold only then. */
    void checkFresh() {
        Flux.fromIterable(Burst.all())
                .flatMapIterable(step -> step)
                .map(burst -> burst.asks().get(0))
                .concatMap(first -> {
                    // An unknown key may not read the usage, but any customer may read that of its address.
                    String apiKey = first.apiKey().startsWith("guess") ? "paid-key" : first.apiKey();
                    return ask(new Ask("GET", VatController.USAGE, apiKey, first.forwardedFor()))
                            .doOnNext(answer -> checkFresh(apiKey, answer));
                })
                .onErrorMap(
                        ConnectException.class,
                        e -> new IllegalStateException(
                                "no service listens at one of " + instances
                                        + ": expected the service to run there, and README.md of the example says how "
                                        + "to start it",
                                e))
                .blockLast(LONGEST_STEP);
    }

    private static void checkFresh(String apiKey, Answer answer) {
        Matcher used = USED.matcher(answer.body());
        if (answer.status() != 200 || used.find()) {
            throw new IllegalStateException((answer.status() != 200
                            ? "the service responds with " + answer.status() + " to " + apiKey
                            : used.group(2) + " of " + used.group(1) + " are used by " + apiKey)
                    + ": expected an unused service, for example one that has just been started");
        }
    }

    /** Reads the usage, which takes no permit, until classes are loaded and each instance has its connections. */
    void warmUp() {
        Flux.range(0, TO_WARM_UP)
                .flatMap(i -> ask(new Ask("GET", VatController.USAGE, "paid-key", "192.0.2.1")), AT_ONCE)
                .blockLast(LONGEST_STEP);
    }

    /** Sends the bursts of a step concurrently, each as fast as responses arrive. */
    List<Outcome> send(List<Burst> step) {
        return Objects.requireNonNull(Flux.fromIterable(step)
                .flatMapSequential(this::send)
                .collectList()
                .block(LONGEST_STEP));
    }

    private Mono<Outcome> send(Burst burst) {
        return Mono.defer(() -> {
            long since = System.nanoTime();
            return Flux.fromIterable(burst.asks())
                    .flatMap(this::ask, AT_ONCE)
                    .collectList()
                    .map(answers -> new Outcome(burst, answers, Duration.ofNanos(System.nanoTime() - since)));
        });
    }

    /** Sends a request to the next instance, in turn. */
    Mono<Answer> ask(Ask ask) {
        return Mono.defer(() -> {
            URI instance = instances.get(Math.floorMod(next.getAndIncrement(), instances.size()));
            long since = System.nanoTime();
            return Mono.fromFuture(() -> client.sendAsync(ask.to(instance), BodyHandlers.ofString()))
                    .map(response -> Answer.of(response, Duration.ofNanos(System.nanoTime() - since)));
        });
    }

    /** Returns how many decisions the fallback has made. Because of those, instances may together exceed a limit. */
    double fellBack() {
        // Use new connections, because Spring responds to these on another thread (see docs/webflux.md).
        return Objects.requireNonNull(Flux.fromIterable(instances)
                .flatMap(instance -> Mono.fromFuture(() -> HttpClient.newHttpClient()
                        .sendAsync(
                                HttpRequest.newBuilder(instance.resolve("/actuator/metrics/spillgate.fallbacks"))
                                        .timeout(Duration.ofSeconds(30))
                                        .build(),
                                BodyHandlers.ofString())))
                .map(response -> Optional.of(VALUE.matcher(response.body()))
                        .filter(Matcher::find)
                        .map(value -> Double.parseDouble(value.group(1)))
                        .orElseThrow(() -> new IllegalStateException("no metric of fallbacks in: " + response.body())))
                .reduce(0.0, Double::sum)
                .block(LONGEST_STEP));
    }
}
