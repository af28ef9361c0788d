package io.github.spillgate.redis;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Checks that a server is a primary. A replica rejects charges but would go on denying from stale data, which would
 * hide the misconfiguration. A Sentinel has no counts, only the address of the primary.
 */
final class Role {

    private static final String REPLICA = "slave";
    private static final String SENTINEL = "sentinel";

    /** How many of a Sentinel's primaries the error names. */
    private static final int MOST_NAMES = 3;

    private Role() {}

    /**
     * Waits for the server's role. A server that refuses the command is accepted, because users and proxies may not
     * have it: if it is a replica, the first charge fails.
     *
     * @return the connection; it is closed if the check fails
     * @throws io.github.spillgate.LimitStoreUnreachableException if the server is a replica or a Sentinel
     */
    static StatefulRedisConnection<byte[], byte[]> requirePrimary(StatefulRedisConnection<byte[], byte[]> connection) {
        try {
            List<Object> reply = LettuceFutures.awaitOrCancel(
                    connection.async().role(), connection.getTimeout().toNanos(), TimeUnit.NANOSECONDS);
            String role = text(reply.get(0));
            if (role.equals(REPLICA)) {
                throw Errors.replica(text(reply.get(1)) + ":" + reply.get(2));
            }
            if (role.equals(SENTINEL)) {
                throw Errors.sentinel(((List<?>) reply.get(1))
                        .stream().limit(MOST_NAMES).map(Role::text).toList());
            }
        } catch (RedisCommandExecutionException e) {
            return connection;
        } catch (RuntimeException e) {
            OpenConnection.unobserved(connection.closeAsync());
            throw e;
        }
        return connection;
    }

    private static String text(Object part) {
        return part instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(part);
    }
}
