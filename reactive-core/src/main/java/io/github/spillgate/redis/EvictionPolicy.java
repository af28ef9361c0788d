package io.github.spillgate.redis;

import io.lettuce.core.api.StatefulRedisConnection;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * Warns if Redis may evict counts: their limits would then start again. Nothing waits for the reply. If a server does
 * not reply, no server is asked again, because some users and proxies may not send the command.
 */
final class EvictionPolicy {

    private static final Logger LOG = Loggers.getLogger(EvictionPolicy.class);

    private static final String SECTION = "memory";

    /** The policies that evict any key, or any key that expires, as all counts do. */
    private static final Pattern EVICTING = Pattern.compile("maxmemory_policy:((?:allkeys|volatile)-[a-z-]+)");

    private static final String KNOWN = "maxmemory:";

    /** Without a limit, Redis evicts nothing. */
    private static final Pattern LIMITED = Pattern.compile(KNOWN + "[1-9]");

    /** The name of the store, for logs. */
    private final String store;

    /** The servers and policies that have been logged. */
    private final Set<String> reported = ConcurrentHashMap.newKeySet();

    private volatile boolean isUnanswered;

    EvictionPolicy(String store) {
        this.store = store;
    }

    void check(StatefulRedisConnection<byte[], byte[]> connection, String server) {
        if (isUnanswered) {
            return;
        }
        connection.async().info(SECTION).whenComplete((memory, error) -> {
            // If a proxy drops the command, this is the reply to the next one.
            if (error == null && memory.contains(KNOWN)) {
                report(memory, server);
            } else {
                isUnanswered = true;
            }
        });
    }

    private void report(String memory, String server) {
        Matcher policy = EVICTING.matcher(memory);
        if (LIMITED.matcher(memory).find() && policy.find() && reported.add(server + " " + policy.group(1))) {
            LOG.warn(
                    "{} may lose counts: {} evicts them if its memory is full, because maxmemory-policy is {}:"
                            + " expected noeviction, for example CONFIG SET maxmemory-policy noeviction, or a Redis"
                            + " for counts only with enough maxmemory",
                    store,
                    server,
                    policy.group(1));
        }
    }
}
