package io.github.spillgate.examples.documentation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.resilience.ResilientStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Snippets;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import reactor.core.publisher.Mono;

/** What the README shows does what it says, on a real Redis, and it names every option. */
class ReadmeTest {

    private static final Path README = Snippets.ROOT.resolve("README.md");

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    /** The first thing that is shown; a deadline that a busy machine meets is the only thing that is put in. */
    private static final String FIRST = """
            import io.github.spillgate.*;
            import io.github.spillgate.redis.*;
            import io.lettuce.core.RedisClient;
            import java.time.Duration;
            import java.util.function.Function;
            import reactor.core.publisher.Mono;

            public final class First implements Function<RedisClient, Object[]> {
                @Override
                public Object[] apply(RedisClient redisClient) {
            %s
                    return new Object[] {limiter, decision};
                }
            }
            """;

    /** The pipeline; each part of it is asked once. */
    private static final String PIPELINE = """
            import io.github.spillgate.*;
            import java.time.*;
            import java.util.*;
            import java.util.function.Function;
            import reactor.core.publisher.*;

            public final class Pipeline implements Function<RateLimiter, Object[]> {
                interface Plan {
                    List<Limit> limits();
                }

                record Order(int number) {}

                static final class TooManyRequests extends RuntimeException {
                    TooManyRequests(Optional<Duration> retryAfter) {
                        super("come back in " + retryAfter.orElseThrow());
                    }
                }

                static Mono<String> work() {
                    return Mono.just("done");
                }

                @Override
                public Object[] apply(RateLimiter limiter) {
                    String ip = "192.0.2.7";
                    String apiKey = "secret";
                    Plan plan = () -> List.of(Limit.perDay(5));
                    Flux<Order> orders = Flux.range(0, 3).map(Order::new);
            %s
                    return new Object[] {answer, turn, slowed.map(Order::number).collectList(), both};
                }
            }
            """;

    @TempDir
    Path temp;

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());

    @AfterEach
    void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }

    @Test
    @SuppressWarnings("unchecked")
    void theFirstSnippetAllowsOneHundredAndTwentyAndDeniesTheNext() throws Exception {
        String snippet =
                Snippets.of(README, "java").get(0).replace(".build()", ".deadline(Duration.ofSeconds(30)).build()");
        Object[] made = this.<RedisClient>run("First", FIRST.formatted(snippet)).apply(client);
        RateLimiter limiter = (RateLimiter) made[0];
        Mono<Decision> decision = (Mono<Decision>) made[1];
        try {
            await().atMost(PATIENCE)
                    .until(() -> limiter.peek("user:42").block(PATIENCE).source() == Source.REDIS);
            limiter.reset("user:42").block(PATIENCE);
            for (int i = 0; i < 120; i++) {
                assertThat(decision.block(PATIENCE).isAllowed()).isTrue();
            }
            Decision last = decision.block(PATIENCE);
            assertThat(last.isAllowed()).isFalse();
            assertThat(last.retryAfter())
                    .hasValueSatisfying(wait -> assertThat(wait).isBetween(Duration.ZERO, Duration.ofMinutes(1)));
        } finally {
            limiter.reset("user:42").block(PATIENCE);
            limiter.close();
        }
    }

    @Test
    @SuppressWarnings("unchecked")
    void thePipelineAsksWaitsSlowsAndTakesSeveralKeysAtOnce() throws Exception {
        String snippet = Snippets.of(README, "java").get(1);
        RateLimiter limiter = RateLimiter.builder("readme-" + System.nanoTime())
                .store(RedisStore.create(client))
                .deadline(Duration.ofSeconds(30))
                .limit(Limit.of(5, Duration.ofHours(1)))
                .build();
        try {
            await().atMost(PATIENCE)
                    .until(() -> limiter.peek("ready").block(PATIENCE).source() == Source.REDIS);
            Object[] parts = this.<RateLimiter>run("Pipeline", PIPELINE.formatted(snippet))
                    .apply(limiter);

            Mono<String> answer = (Mono<String>) parts[0];
            assertThat(answer.block(PATIENCE)).isEqualTo("done");
            assertThat(answer.map(Object::toString)
                            .onErrorResume(error -> Mono.just(error.getMessage()))
                            .block(PATIENCE))
                    .startsWith("come back in PT");

            assertThat(((Mono<List<Integer>>) parts[2]).block(PATIENCE)).containsExactly(0, 1, 2);
            Mono<Decision> turn = (Mono<Decision>) parts[1];
            assertThat(turn.block(PATIENCE).isAllowed()).isTrue();
            assertThat(turn.block(PATIENCE).isAllowed()).isTrue();
            assertThat(turn.block(PATIENCE).isAllowed()).isFalse();

            Mono<Decision> both = (Mono<Decision>) parts[3];
            assertThat(both.block(PATIENCE).limits())
                    .extracting(Decision.Usage::remaining)
                    .containsExactly(119L, 2L);
            assertThat(both.block(PATIENCE).isAllowed()).isFalse();
            assertThat(limiter.peek(Charge.of("ip:192.0.2.7", Limit.perMinute(120)))
                            .block(PATIENCE)
                            .limits())
                    .extracting(Decision.Usage::remaining)
                    .containsExactly(119L);
        } finally {
            limiter.close();
        }
    }

    @Test
    void everyOptionIsNamed() throws IOException {
        String readme = Files.readString(README);
        for (Class<?> builder :
                List.of(RateLimiter.Builder.class, RedisStore.Builder.class, ResilientStore.Builder.class)) {
            for (Method option : builder.getDeclaredMethods()) {
                if (Modifier.isPublic(option.getModifiers())
                        && !option.getName().equals("build")) {
                    assertThat(readme).as(builder.getName()).contains("." + option.getName() + "(…)` |");
                }
            }
        }
    }

    @SuppressWarnings("unchecked")
    private <T> Function<T, Object[]> run(String type, String source) throws Exception {
        Snippets.assertCompiles(type, source, temp);
        // Not closed: what it has loaded is still used.
        URLClassLoader loader =
                new URLClassLoader(new URL[] {temp.toUri().toURL()}, getClass().getClassLoader());
        Object made = loader.loadClass(type).getDeclaredConstructor().newInstance();
        assertThat(Arrays.stream(made.getClass().getInterfaces())).contains(Function.class);
        return (Function<T, Object[]>) made;
    }
}
