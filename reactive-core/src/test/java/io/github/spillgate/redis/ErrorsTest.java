package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandTimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ErrorsTest {

    @ParameterizedTest
    @ValueSource(
            strings = {
                "OOM command not allowed when used memory > 'maxmemory'.",
                "READONLY You can't write against a read only replica.",
                "LOADING Redis is loading the dataset in memory",
                "BUSY Redis is busy running a script.",
                "MASTERDOWN Link with MASTER is down",
                "NOREPLICAS Not enough good replicas to write.",
                "MISCONF Redis is configured to save RDB snapshots",
                "NOSCRIPT No matching script.",
                "ERR Error running script (call to f_0): @user_script:177: @user_script: 177: -OOM command not allowed",
                "ERR Error running script (call to f_0): @user_script:177: @user_script: 177: -READONLY You can't write"
            })
    void whatPassesMayBeTriedAgain(String message) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .isExactlyInstanceOf(LimitStoreUnavailableException.class)
                .hasMessage("Redis cannot decide now: " + message);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"NOPERM this user has no permissions", "ERR unknown command", "NOAUTH Authentication required."})
    void whatDoesNotPassMayNot(String message) {
        assertThat(Errors.translate(new RedisCommandExecutionException(message), new byte[0][]))
                .isExactlyInstanceOf(LimitStoreException.class)
                .hasMessage("Redis refused the script: " + message);
    }

    @Test
    void whatRedisHasNotSaidIsAnOutage() {
        assertThat(Errors.translate(new RedisCommandTimeoutException("timed out"), new byte[0][]))
                .isExactlyInstanceOf(LimitStoreUnavailableException.class)
                .hasMessage("Redis cannot be asked: timed out");
    }
}
