package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Decisions that a limiter makes without asking its store. They charge nothing. */
public final class LimiterDecisions {

    private LimiterDecisions() {}

    /** Returns a denial if a cost is above its limit, so that it can never fit; otherwise null. */
    public static @Nullable StoreDecision ifNeverFits(InstantSource clock, List<Claim> claims) {
        List<Limit> tooSmall = List.of();
        for (int i = 0; i < claims.size(); i++) {
            Claim claim = claims.get(i);
            if (claim.permits() > claim.limit().capacity()) {
                tooSmall = tooSmall.isEmpty() ? new ArrayList<>(claims.size()) : tooSmall;
                tooSmall.add(claim.limit());
            }
        }
        return tooSmall.isEmpty() ? null : neverFits(clock.millis(), tooSmall);
    }

    private static StoreDecision neverFits(long at, List<Limit> tooSmall) {
        return StoreDecision.denied(new Reply(Source.LIMITER, at), StoreDecision.NEVER, List.of(), tooSmall);
    }

    /** Returns a decision that allows because no limit applies. */
    public static StoreDecision unlimited(long at) {
        return StoreDecision.ofPeek(new Reply(Source.LIMITER, at), List.of());
    }

    /** Returns a denial by a setting, because no limits were found. */
    public static StoreDecision refused(long at) {
        return neverFits(at, List.of());
    }

    /**
     * Returns a denial of a caller that would have to wait too long, or that finds the queue full.
     *
     * @param at the time, in milliseconds of the clock of {@code before}, or of the limiter's clock if there is none
     * @param fitsAt the time before which the caller cannot be served
     * @param claims the claims of the caller
     * @param before the last reply of the store about the same counts, if there is one
     */
    public static StoreDecision mustWait(long at, long fitsAt, List<Claim> claims, @Nullable Decision before) {
        Reply reply = new Reply(Source.LIMITER, at);
        List<StoreUsage> usages = new ArrayList<>(claims.size());
        List<Limit> violated = new ArrayList<>(claims.size());
        for (int i = 0; before != null && before.limits().size() == claims.size() && i < claims.size(); i++) {
            Claim claim = claims.get(i);
            Decision.Usage then = before.limits().get(i);
            boolean isViolated = claim.limit().takesPermits()
                    ? then.used() + claim.permits() > claim.limit().capacity()
                    : then.isViolated();
            usages.add(StoreUsage.of(
                    reply,
                    claim,
                    then.used(),
                    isViolated,
                    fitsAt,
                    then.wholeAt().toEpochMilli()));
            if (isViolated) {
                violated.add(claim.limit());
            }
        }
        return StoreDecision.denied(reply, fitsAt, usages, violated);
    }
}
