package io.github.spillgate.resilience;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import io.github.spillgate.Claim;
import java.time.Duration;
import java.util.List;

/** When counts were reset last: as long as somebody may be answered who asked before that. */
final class Resets {

    private static final int MOST = 100_000;
    private static final Duration LONGEST = Duration.ofMinutes(2);

    private final Cache<Object, Long> last = Caffeine.newBuilder()
            .maximumSize(MOST)
            .expireAfterWrite(LONGEST)
            .executor(Runnable::run)
            .build();

    /** They are being reset, or have just been. */
    void note(List<Claim> claims) {
        long now = Deadlines.now();
        for (Claim claim : claims) {
            last.put(claim.handle(), now);
        }
    }

    /** Whether one of them was reset at that time or later. */
    boolean isAnySince(List<Claim> claims, long nanos) {
        for (Claim claim : claims) {
            Long reset = last.getIfPresent(claim.handle());
            if (reset != null && reset - nanos >= 0) {
                return true;
            }
        }
        return false;
    }
}
