package io.github.spillgate.redis;

import io.github.spillgate.ForeignValueException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.lettuce.core.RedisCommandExecutionException;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Gives what Lettuce reports the type that says whether another try can help, once, where it comes in. */
final class Errors {

    private static final Pattern FOREIGN = Pattern.compile("FOREIGN (\\d+)");

    /** The code of what went wrong; within a script, Redis 6 says it somewhere in the middle. */
    private static final Pattern CODE = Pattern.compile("(?:^|: -)([A-Z]+) ");

    private static final Set<String> PASSING = Set.of(
            "NOSCRIPT",
            "OOM",
            "BUSY",
            "LOADING",
            "READONLY",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "TRYAGAIN",
            "NOREPLICAS",
            "MISCONF");

    private Errors() {}

    /** Returns the exception of ours that says this, about a command that was given these keys. */
    static LimitStoreException translate(Throwable e, byte[][] keys) {
        if (e instanceof LimitStoreException ours) {
            return ours;
        }
        String message = String.valueOf(e.getMessage());
        if (!(e instanceof RedisCommandExecutionException)) {
            return new LimitStoreUnavailableException("Redis cannot be asked: " + message, e);
        }
        Matcher foreign = FOREIGN.matcher(message);
        if (foreign.find()) {
            String key = new String(keys[Integer.parseInt(foreign.group(1)) - 1], StandardCharsets.US_ASCII);
            return new ForeignValueException(
                    "the value under the Redis key \"" + key
                            + "\" was not written by this library and has been left as it is: expected a count, or nothing; take"
                            + " it away (for example DEL \"" + key + "\"), or give the store a namespace of its own",
                    e);
        }
        boolean passing = CODE.matcher(message).results().anyMatch(code -> PASSING.contains(code.group(1)));
        return passing
                ? new LimitStoreUnavailableException("Redis cannot decide now: " + message, e)
                : new LimitStoreException("Redis refused the script: " + message, e);
    }
}
