package io.github.spillgate.redis;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import java.time.Duration;
import java.util.List;

/** Stores and clients for tests in which Redis always replies, however slow the machine is. */
public final class PatientRedisStore {

    private static final Duration LONG = Duration.ofMinutes(2);

    private PatientRedisStore() {}

    /** Returns a client with commands that never time out. */
    public static RedisClient client(RedisURI uri) {
        RedisClient client = RedisClient.create(uri);
        client.setOptions(ClientOptions.builder()
                .timeoutOptions(TimeoutOptions.builder().timeoutCommands(false).build())
                .build());
        return client;
    }

    /** Returns a store with lanes, which does not replace a connection on which Redis takes long to reply. */
    public static RedisStore create(RedisClient client, RedisURI uri) {
        return RedisStore.builder(client)
                .nodes(List.of(uri))
                .longestSilence(LONG)
                .build();
    }
}
