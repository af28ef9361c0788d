package io.github.spillgate.redis;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Finds out whether a server may decide. A replica takes no charge, and tells what was so a while ago; it would be
 * asked for all that, as long as nobody is admitted. A Sentinel has no counts at all, only the address of whoever has
 * them.
 */
final class Role {

    private static final String REPLICA = "slave";
    private static final String SENTINEL = "sentinel";

    /** So many names of primaries that a Sentinel watches are told. */
    private static final int MOST_NAMES = 3;

    private Role() {}

    /**
     * Asks the server, and waits for what it says. One that does not say is let pass, because the user may not ask, or
     * because it has no such command, as proxies have none: if it is a replica, the first charge will tell.
     *
     * @return the connection; it is closed, if there is no other use for it
     * @throws io.github.spillgate.LimitStoreUnreachableException if it is a replica, or a Sentinel
     */
    static StatefulRedisConnection<byte[], byte[]> primary(StatefulRedisConnection<byte[], byte[]> connection) {
        try {
            List<Object> role = LettuceFutures.awaitOrCancel(
                    connection.async().role(), connection.getTimeout().toNanos(), TimeUnit.NANOSECONDS);
            String is = text(role.get(0));
            if (is.equals(REPLICA)) {
                throw Errors.replica(text(role.get(1)) + ":" + role.get(2));
            }
            if (is.equals(SENTINEL)) {
                throw Errors.sentinel(((List<?>) role.get(1))
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

    private static String text(Object said) {
        return said instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(said);
    }
}
