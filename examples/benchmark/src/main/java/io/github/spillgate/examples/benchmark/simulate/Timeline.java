package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.examples.benchmark.report.StepChart.Mark;
import io.github.spillgate.examples.benchmark.report.StepChart.Step;
import io.github.spillgate.examples.benchmark.report.TimelineChart;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * The requests of one client, and what a limit of each kind decides on them.
 *
 * @param name the name of the file of the picture
 * @param limit the limit
 * @param requests the requests, in order
 * @param tick the unit of all times
 * @param ticks the duration of the picture
 * @param axis the labels of the time axis
 */
record Timeline(String name, Limit limit, List<Request> requests, Duration tick, int ticks, List<Mark> axis) {

    private static final String CLIENT = "client";

    /**
     * A request.
     *
     * @param at the time, in ticks
     * @param work the duration of its work, in ticks
     */
    record Request(long at, long work) {}

    /** Returns the pictures of all kinds. The rates decide on the same requests. */
    static List<Timeline> all() {
        Limit log = Limit.perDay(10);
        return List.of(
                days("log", log),
                days("counter", log.counter()),
                days("bucket", log.burst(10)),
                days("quota", Limit.daily(10)),
                calls());
    }

    /** A burst before a midnight, one after it, then a request every two hours for 20 hours, and two later. */
    private static Timeline days(String name, Limit limit) {
        LongStream times = Stream.of(
                        LongStream.of(60, 100, 140),
                        LongStream.range(0, 9).map(i -> 205 + 4 * i),
                        LongStream.range(0, 9).map(i -> 245 + 4 * i),
                        LongStream.range(0, 11).map(i -> 300 + 20 * i),
                        LongStream.of(560, 620))
                .reduce(LongStream.empty(), LongStream::concat);
        List<Request> requests = times.mapToObj(at -> new Request(at, 0)).toList();
        List<Mark> midnights = LongStream.rangeClosed(0, 3)
                .mapToObj(day -> mark(Duration.ofDays(day), "midnight"))
                .toList();
        return new Timeline(name, limit, requests, Duration.ofMinutes(6), 720, midnights);
    }

    /** A call every second, of two seconds; for 20 s the calls take eight seconds. */
    private static Timeline calls() {
        List<Request> requests = LongStream.range(0, 60)
                .mapToObj(second -> new Request(10 * second, second >= 20 && second < 40 ? 80 : 20))
                .toList();
        List<Mark> axis = LongStream.rangeClosed(0, 6)
                .mapToObj(i -> mark(Duration.ofSeconds(10 * i), 10 * i + " s"))
                .toList();
        return new Timeline("concurrent", Limit.concurrent(4), requests, Duration.ofMillis(100), 600, axis);
    }

    private static Mark mark(Duration at, String label) {
        return new Mark(at.toSeconds(), at.toSeconds(), label);
    }

    TimelineChart chart() {
        LocalLimiter limiter = new LocalLimiter(limit, 1);
        Map<Long, List<Decision>> endingWork = new HashMap<>();
        List<Double> allowed = new ArrayList<>();
        List<Double> denied = new ArrayList<>();
        List<Step> used = new ArrayList<>();
        for (long now = 0; now <= ticks; now++) {
            RateLimiter present = limiter.at(VirtualClock.START + now * tick.toMillis());
            double second = now * tick.toMillis() / 1_000.0;
            endingWork
                    .getOrDefault(now, List.of())
                    .forEach(decision -> present.release(decision).block());
            for (Request request : requests) {
                if (request.at() == now) {
                    Decision decision =
                            present.tryAcquire(CLIENT).blockOptional().orElseThrow();
                    (decision.isAllowed() ? allowed : denied).add(second);
                    endingWork
                            .computeIfAbsent(now + request.work(), end -> new ArrayList<>())
                            .add(decision);
                }
            }
            Decision usage = present.peek(CLIENT).blockOptional().orElseThrow();
            used.add(new Step(second, (int) usage.limits().get(0).used()));
        }
        int seconds = (int) (ticks * tick.toMillis() / 1_000);
        String description = limit + ": " + allowed.size() + " requests allowed, " + denied.size() + " denied";
        return new TimelineChart(
                limit.toString(), description, (int) limit.permits(), seconds, axis, allowed, denied, used);
    }
}
