package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RedisUrisTest {

    @ParameterizedTest
    @ValueSource(
            strings = {
                "redis://user:pa55word\n@localhost:6379",
                "pa55word@localhost:6379",
                ":pa55word@localhost:6379",
                "//user:pa55word@localhost:6379",
                "http://user:pa55word@localhost"
            })
    void theErrorForAMalformedUriHidesThePassword(String text) {
        assertThatThrownBy(() -> RedisStore.uri(text))
                .hasMessageContaining("…@localhost")
                .hasMessageNotContaining("pa55word");
    }

    /** Read as part of the name of a host, it would only fail at the first connection. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "redis://localhost:x",
                "redis://user:pa55@word@localhost:6379",
                "redis-sentinel://localhost:x?sentinelMasterId=main",
                "redis-sentinel://node-1:26379,node-2:26379x/0?sentinelMasterId=main"
            })
    void aPortThatIsNoNumberIsRejected(String text) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RedisStore.uri(text))
                .withMessageContaining("is not the URI of a Redis: expected one");
    }

    @ParameterizedTest
    @ValueSource(strings = {"redis://[::1]:6379", "redis://[fe80::1]", "redis-socket:///tmp/redis.sock", "redis://h"})
    void addressesAndSocketsAreAccepted(String text) {
        assertThat(RedisStore.uri(text)).isNotNull();
    }
}
