package io.github.spillgate.webflux;

import static io.github.spillgate.testkit.LoopRequests.awaitLane;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisURI;
import io.lettuce.core.resource.Transports;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Event loops with NIO, such as those of Vert.x, in an application in which Lettuce uses a native transport. */
class NioLoopTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    @Test
    void decisionsStayOnTheirLoop() {
        if (System.getProperty("os.name").equals("Linux")
                && System.getProperty("os.arch").toLowerCase(Locale.ROOT).matches("amd64|x86_64")) {
            assertThat(Transports.socketChannelClass().getSimpleName())
                    .as("Reactor Netty has brought it")
                    .isEqualTo("EpollSocketChannel");
        }
        EventLoopGroup loops = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
        try (RedisForTests redis = RedisForTests.startOwn()) {
            // A name, because the resolver has a transport too.
            RedisStore store =
                    RedisStore.create(RedisURI.create("localhost", redis.uri().getPort()));
            store.prepare("").retry(3).block(LONG);
            RateLimiter limiter = RateLimiter.builder("nio")
                    .store(new Unprotected(store))
                    .limit(Limit.perHour(1_000_000))
                    .build();
            awaitLane(loops.next(), limiter);
            store.closeLater().block(LONG);
        } finally {
            Future<?> unused = loops.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        }
    }
}
