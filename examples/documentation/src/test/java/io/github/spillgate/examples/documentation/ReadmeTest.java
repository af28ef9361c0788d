package io.github.spillgate.examples.documentation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.redis.RedisStore;
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
import java.util.List;
import java.util.UUID;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import reactor.core.publisher.Mono;

/** The README and the page on pipelines, run on a real Redis; and the page of options, which must list every option. */
class ReadmeTest {

    private static final Path README = Snippets.ROOT.resolve("README.md");
    private static final Path PIPELINES = Snippets.ROOT.resolve("docs/pipelines.md");
    private static final Path OPTIONS = Snippets.ROOT.resolve("docs/options.md");

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private static final String REDIS = "redis://localhost:6379";

    /** The context of the code of the README. */
    private static final String GREETING = """
            import io.github.spillgate.*;
            import io.github.spillgate.redis.*;
            import java.time.*;
            import java.util.function.Function;
            import reactor.core.publisher.*;

            public final class Greeting implements Function<Void, Object[]> {
                @Override
                public Object[] apply(Void nothing) {
            %s
                    return new Object[] {limiter, greeting};
                }
            }
            """;

    /** The pipeline; the test runs each part once. */
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
                    return new Object[] {answer, turn, slowed.map(Order::number).collectList(), both, decision};
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

    /** The code of the page, with the Redis of the test, a key of its own, and a longer deadline for a busy machine. */
    @Test
    @SuppressWarnings("unchecked")
    void theShownLimiterAllowsOneHundredAndTwentyCallsAMinute() throws Exception {
        String shown = Snippets.of(README, "java").get(0);
        String key = "user:" + UUID.randomUUID();
        assertThat(shown).containsOnlyOnce(".build()").containsOnlyOnce(REDIS).containsOnlyOnce("user:42");
        String snippet = shown.replace(REDIS, RedisForTests.first().uri().toString())
                .replace("user:42", key)
                .replace(".build()", ".deadline(Duration.ofSeconds(30)).build()");
        Object[] parts = this.<Void>run("Greeting", GREETING.formatted(snippet)).apply(null);
        try (RateLimiter limiter = (RateLimiter) parts[0]) {
            await().atMost(PATIENCE)
                    .until(() -> limiter.peek("ready").block(PATIENCE).source() == Source.REDIS);
            Mono<String> greeting = (Mono<String>) parts[1];
            List<String> answers = greeting.repeat(120).collectList().block(PATIENCE);
            assertThat(answers.subList(0, 120)).containsOnly("Hello");
            assertThat(Duration.parse(answers.get(120).substring("Retry in ".length())))
                    .isBetween(Duration.ZERO, Duration.ofMinutes(1));
            limiter.reset(key).block(PATIENCE);
        }
    }

    /** A badge is a picture, so that it needs no server; nothing else would notice that it is out of date. */
    @Test
    void theBadgesAreTrue() throws IOException {
        String pom = Files.readString(Snippets.ROOT.resolve("pom.xml"));
        Matcher version =
                Pattern.compile("<version>([0-9.]+)(-SNAPSHOT)?</version>").matcher(pom);
        assertThat(version.find()).isTrue();
        String state = version.group(1) + (version.group(2) == null ? "" : ", not released yet");
        Matcher jdk = Pattern.compile("<maven.compiler.release>(\\d+)<").matcher(pom);
        assertThat(jdk.find()).isTrue();
        assertThat(Files.readString(Snippets.ROOT.resolve("LICENSE"))).contains("Apache License", "Version 2.0");
        assertThat(Files.readString(Snippets.ROOT.resolve("docs/badges.svg")))
                .contains(">Apache 2.0<", ">" + jdk.group(1) + " and newer<", ">" + state + "<");
        assertThat(Files.readString(README))
                .contains("![License: Apache 2.0. JDK " + jdk.group(1) + " and newer. Version " + state + "]");
    }

    @Test
    @SuppressWarnings("unchecked")
    void thePipelineAcquiresWaitsThrottlesAndChargesSeveralKeys() throws Exception {
        String snippet = Snippets.of(PIPELINES, "java").get(1);
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
            assertThat(((Mono<Decision>) parts[4]).block(PATIENCE).isAllowed()).isFalse();
            assertThat(answer.repeat(3).collectList().block(PATIENCE))
                    .hasSize(4)
                    .containsOnly("done");
            assertThatThrownBy(() -> answer.block(PATIENCE))
                    .isInstanceOf(RateLimitedException.class)
                    .hasMessageStartingWith("the rate limit is exceeded: 5/1h; retry after ");

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
    void everyOptionIsListed() throws IOException {
        String options = Files.readString(OPTIONS);
        for (Class<?> builder :
                List.of(RateLimiterBuilder.class, RedisStore.Builder.class, ResilientStore.Builder.class)) {
            for (Method option : builder.getDeclaredMethods()) {
                if (Modifier.isPublic(option.getModifiers())
                        && !option.getName().equals("build")) {
                    assertThat(options).as(builder.getName()).contains("." + option.getName() + "(…)` |");
                }
            }
        }
    }

    /** Compiles the class, and makes an instance. */
    @SuppressWarnings("unchecked")
    private <T> Function<T, Object[]> run(String type, String source) throws Exception {
        Snippets.assertCompiles(type, source, temp);
        // Not closed, because its classes are still in use.
        URLClassLoader loader =
                new URLClassLoader(new URL[] {temp.toUri().toURL()}, getClass().getClassLoader());
        return (Function<T, Object[]>)
                loader.loadClass(type).getDeclaredConstructor().newInstance();
    }
}
