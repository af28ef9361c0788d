package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RedirectTest {

    @Test
    void aRedirectIsMovedOrAsk() {
        assertThat(in("MOVED 16383 10.0.0.7:65535")).isEqualTo(new Redirect(true, 16_383, "10.0.0.7", 65_535));
        assertThat(in("ASK 0 redis.example:6379")).isEqualTo(new Redirect(false, 0, "redis.example", 6_379));
    }

    @Test
    void theHostMayBeIpv6OrMissing() {
        assertThat(in("MOVED 7 2001:db8::1:6379")).isEqualTo(new Redirect(true, 7, "2001:db8::1", 6_379));
        assertThat(in("ASK 7 :6379")).isEqualTo(new Redirect(false, 7, "", 6_379));
        assertThat(in("ASK 7 ?:6379")).isEqualTo(new Redirect(false, 7, "?", 6_379));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "MOVED 16384 10.0.0.7:6379",
                "MOVED 7 10.0.0.7:65536",
                "MOVED 7 10.0.0.7",
                "MOVED -1 10.0.0.7:6379",
                "MOVED 7 10.0.0.7:6379 and more",
                "ERR MOVED 7 10.0.0.7:6379",
                "TRYAGAIN Multiple keys request during rehashing of slot",
                ""
            })
    void otherErrorsAreNoRedirect(String text) {
        assertThat(in(text)).isNull();
    }

    @Test
    void onlyANodeCanSayIt() {
        assertThat(Redirect.parse(new RedisException("MOVED 7 10.0.0.7:6379"))).isNull();
        assertThat(Redirect.parse(new RedisCommandExecutionException((String) null)))
                .isNull();
        assertThat(Redirect.isTryAgain(new RedisException("TRYAGAIN Multiple keys")))
                .isFalse();
        assertThat(Redirect.isTryAgain(new RedisCommandExecutionException("TRYAGAIN Multiple keys")))
                .isTrue();
        assertThat(Redirect.isClusterDown(new RedisException("CLUSTERDOWN Hash slot not served")))
                .isFalse();
        assertThat(Redirect.isClusterDown(new RedisCommandExecutionException("CLUSTERDOWN Hash slot not served")))
                .isTrue();
    }

    private static Redirect in(String text) {
        return Redirect.parse(new RedisCommandExecutionException(text));
    }
}
