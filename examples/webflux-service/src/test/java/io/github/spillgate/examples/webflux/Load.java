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
 * Sends a bounded load to the service that runs on this machine, in one instance or several, and counts whether they
 * let in exactly as many as the limits say. It ends by itself.
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
     * Sends all of it, and says what came of it.
     *
     * @param args where the instances are; none for {@code http://localhost:8080}
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
        System.out.printf("%nDecided by the fallback, because Redis did not answer in time: %.0f%n", fellBack);
        if (!wrong.isEmpty()) {
            String why = fellBack > 0
                    ? "; two that decide apart, two instances or an instance and Redis, let in others than one would, "
                            + "and"
                            + " SPILLGATE_DEADLINE=5s lets the instances wait longer for Redis"
                    : "";
            throw new IllegalStateException("not as the limits say: " + String.join("; ", wrong) + why);
        }
        System.out.println("All of it is exactly as the limits say.");
    }

    static URI instance(String text) {
        try {
            URI uri = URI.create(text);
            if (uri.getHost() != null && InetAddress.getByName(uri.getHost()).isLoopbackAddress()) {
                return uri;
            }
        } catch (IllegalArgumentException | UnknownHostException e) {
            // Told below.
        }
        throw new IllegalArgumentException("\"" + text
                + "\" is no instance of the service on this machine: expected one, for example http://localhost:8080");
    }

    /** How many fit is only known of counts that nobody has touched. */
    void checkFresh() {
        Flux.fromIterable(Burst.all())
                .flatMapIterable(step -> step)
                .map(burst -> burst.asks().get(0))
                .concatMap(first -> {
                    // A key that is made up may not look, and anybody may look for its address.
                    String apiKey = first.apiKey().startsWith("guess") ? "paid-key" : first.apiKey();
                    return ask(new Ask("GET", VatController.USAGE, apiKey, first.forwardedFor()))
                            .doOnNext(answer -> checkFresh(apiKey, answer));
                })
                .onErrorMap(
                        ConnectException.class,
                        e -> new IllegalStateException(
                                "nobody listens at one of " + instances
                                        + ": expected the service to run there, and README.md of the example says how "
                                        + "to start it",
                                e))
                .blockLast(LONGEST_STEP);
    }

    private static void checkFresh(String apiKey, Answer answer) {
        Matcher used = USED.matcher(answer.body());
        if (answer.status() != 200 || used.find()) {
            throw new IllegalStateException((answer.status() != 200
                            ? "the service answers " + answer.status() + " to " + apiKey
                            : used.group(2) + " of " + used.group(1) + " are used by " + apiKey)
                    + ": expected a service that nobody has asked yet, for example one that has just been started");
        }
    }

    /**
     * Looks at the usage, which charges nothing, until the classes are loaded and each instance has its connections.
     */
    void warmUp() {
        Flux.range(0, TO_WARM_UP)
                .flatMap(i -> ask(new Ask("GET", VatController.USAGE, "paid-key", "192.0.2.1")), AT_ONCE)
                .blockLast(LONGEST_STEP);
    }

    /** Sends the bursts of a step at once, each as fast as it is answered. */
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

    /** The instances take turns. */
    Mono<Answer> ask(Ask ask) {
        return Mono.defer(() -> {
            URI instance = instances.get(Math.floorMod(next.getAndIncrement(), instances.size()));
            long since = System.nanoTime();
            return Mono.fromFuture(() -> client.sendAsync(ask.to(instance), BodyHandlers.ofString()))
                    .map(response -> Answer.of(response, Duration.ofNanos(System.nanoTime() - since)));
        });
    }

    /**
     * How many decisions the instances have made by themselves until now. By those, two may let in more than one would.
     */
    double fellBack() {
        // On connections of their own, because Spring answers these on another thread (see docs/webflux.md).
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
