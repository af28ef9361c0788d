package io.github.spillgate.redis;

import io.github.spillgate.redis.lane.Errors;
import io.github.spillgate.redis.lane.Handshake;
import io.github.spillgate.redis.lane.Lane;
import io.github.spillgate.redis.lane.OpenConnection;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandInterruptedException;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Checks that a server is a primary. A replica rejects charges but would go on denying from stale data, which would
 * hide the misconfiguration. A Sentinel has no counts, only the address of the primary.
 */
final class Role {

    private static final String REPLICA = "slave";
    private static final String SENTINEL = "sentinel";

    /** How many of a Sentinel's primaries the error names. */
    private static final int MOST_NAMES = 3;

    /** How long no server is asked after one did not reply. */
    private static final long PAUSE = TimeUnit.MINUTES.toNanos(1);

    /** Shorter than an attempt to connect, so that the next one omits the command. */
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(Lane.LONGEST_ATTEMPT_SECONDS - 2);

    private final EvictionPolicy eviction;
    private final LongSupplier nanoTime;

    /** When a server closed a connection or dropped the command, as some proxies do; null if none did. */
    private volatile @Nullable Long unansweredAt;

    Role(EvictionPolicy eviction, LongSupplier nanoTime) {
        this.eviction = eviction;
        this.nanoTime = nanoTime;
    }

    /**
     * Waits for the server's role. A server that refuses the command is accepted, because users and proxies may not
     * have it: if it is a replica, the first charge fails. If a server does not reply, or closes the connection, the
     * connections of the next minute are accepted without a check. A server that replies is also asked for its eviction
     * policy.
     *
     * @return the connection; it is closed if the check fails
     * @throws io.github.spillgate.LimitStoreException if the server is a replica or a Sentinel
     */
    StatefulRedisConnection<byte[], byte[]> requirePrimary(StatefulRedisConnection<byte[], byte[]> connection) {
        Long unanswered = unansweredAt;
        if (unanswered != null && nanoTime.getAsLong() - unanswered < PAUSE) {
            return connection;
        }
        CompletableFuture<List<Object>> reply = new CompletableFuture<>();
        // Lettuce fails the command, or with some options reconnects and asks again for as long as it is closed.
        connection.addListener(new RedisConnectionStateListener() {
            @Override
            public void onRedisDisconnected(RedisChannelHandler<?, ?> disconnected) {
                reply.completeExceptionally(new RedisException("the server closed the connection on ROLE"));
            }
        });
        connection.async().role().whenComplete((role, error) -> {
            if (error == null) {
                reply.complete(role);
            } else {
                reply.completeExceptionally(error);
            }
        });
        try {
            requirePrimary(Handshake.await(reply, "ROLE", longestWait(connection.getTimeout())));
        } catch (RedisCommandExecutionException e) {
            return connection;
        } catch (RuntimeException e) {
            if (e instanceof RedisException && !(e instanceof RedisCommandInterruptedException)) {
                unansweredAt = nanoTime.getAsLong();
            }
            OpenConnection.unobserved(connection.closeAsync());
            throw e;
        }
        eviction.check(connection, "Redis");
        return connection;
    }

    /** For Lettuce, zero is no limit. */
    private static Duration longestWait(Duration timeout) {
        return timeout.isZero() || timeout.compareTo(LONGEST_WAIT) > 0 ? LONGEST_WAIT : timeout;
    }

    private static void requirePrimary(List<Object> reply) {
        String role = text(reply.get(0));
        if (role.equals(REPLICA)) {
            throw Errors.replica(text(reply.get(1)) + ":" + reply.get(2));
        }
        if (role.equals(SENTINEL)) {
            throw Errors.sentinel(((List<?>) reply.get(1))
                    .stream().limit(MOST_NAMES).map(Role::text).toList());
        }
    }

    private static String text(Object part) {
        return part instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(part);
    }
}
