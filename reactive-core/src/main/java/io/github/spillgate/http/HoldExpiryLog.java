package io.github.spillgate.http;

import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.internal.Text;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Logs that a response has lost its permits before its end, at most once a minute for all rules. */
final class HoldExpiryLog {

    private static final Logger LOG = Loggers.getLogger(HoldExpiryLog.class);
    private static final long PAUSE = TimeUnit.MINUTES.toNanos(1);

    private static final AtomicLong NEXT_AT = new AtomicLong(System.nanoTime());

    private HoldExpiryLog() {}

    static void expired(Rule rule, HoldExpiredException why) {
        long now = System.nanoTime();
        long next = NEXT_AT.get();
        if (now - next >= 0 && NEXT_AT.compareAndSet(next, now + PAUSE)) {
            LOG.warn(
                    "rule {}: {}; the response goes on, so more requests than the limit may be running",
                    rule.name(),
                    Text.quote(String.valueOf(why.getMessage())));
        }
    }
}
