package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;

/** Our rules for an HTTP server: one rule for all requests. */
final class OneRule implements AutoCloseable {

    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final RateLimiter limiter;
    private final Rules rules;
    private final Runnable close;

    private OneRule(Setting setting, PathSyntax syntax, String paths, LimitStore store, Runnable close) {
        Rate rate = setting.onlyRate();
        RateLimiterBuilder builder = RateLimiter.builder("benchmark").store(store);
        if (store.deadline().isEmpty()) {
            // Redis must decide everything.
            builder.deadline(TIMEOUT);
        }
        this.limiter = builder.build();
        Rule rule = Rule.named("benchmark")
                .paths(paths)
                .key(KeySource.header(WebServer.KEY))
                .limit(Limit.of(rate.permits(), rate.window()))
                .build();
        this.rules = Rules.of(limiter, syntax, List.of(rule));
        this.close = close;
    }

    static OneRule local(Setting setting, PathSyntax syntax, String paths) {
        return new OneRule(setting, syntax, paths, LocalStore.bounded(100_000), () -> {});
    }

    static OneRule inRedis(Setting setting, PathSyntax syntax, String paths) {
        return inRedis(setting, syntax, paths, RedisStore.create(RedisStore.uri(setting.uri())), () -> {});
    }

    static OneRule inRedisOfClient(Setting setting, PathSyntax syntax, String paths) {
        RedisClient client = RedisClient.create(setting.uri());
        return inRedis(setting, syntax, paths, RedisStore.create(client), client::shutdown);
    }

    private static OneRule inRedis(Setting setting, PathSyntax syntax, String paths, RedisStore store, Runnable close) {
        store.prepare("").block(TIMEOUT);
        return new OneRule(setting, syntax, paths, store, () -> {
            store.closeLater().block(TIMEOUT);
            close.run();
        });
    }

    Rules rules() {
        return rules;
    }

    @Override
    public void close() {
        limiter.closeLater().block(TIMEOUT);
        close.run();
    }
}
