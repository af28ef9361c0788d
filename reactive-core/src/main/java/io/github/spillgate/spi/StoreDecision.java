package io.github.spillgate.spi;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.internal.PermitUse;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** A decision of a {@link LimitStore}: a value, except that {@link #permitUse()} notes what becomes of its permits. */
public final class StoreDecision implements Decision {

    /** The value of {@code fitsAt} if no wait helps. */
    public static final long NEVER = Long.MAX_VALUE;

    private final Reply reply;
    private final Admission admission;
    private final List<StoreUsage> usages;
    private final int fallbacks;

    /** Created on demand: few decisions are refunded. */
    private @Nullable PermitUse<StoreDecision> use;

    private StoreDecision(Reply reply, Admission admission, List<StoreUsage> usages) {
        this.reply = reply;
        this.admission = admission;
        this.usages = usages;
        this.fallbacks = 0;
    }

    private StoreDecision(StoreDecision other, Admission admission, int fallbacks) {
        this.reply = other.reply;
        this.admission = admission;
        this.usages = other.usages;
        this.fallbacks = fallbacks;
        this.use = other.permitUse();
    }

    /**
     * {@return a decision that a store has made} It is allowed if no usage is violated, and was charged then if any
     * claim has permits.
     *
     * @param reply the reply
     * @param usages the usage of each claim after the decision
     */
    public static StoreDecision ofTake(Reply reply, List<StoreUsage> usages) {
        return of(reply, true, usages);
    }

    /**
     * {@return a decision that a store would make} It is allowed if no usage is violated. Nothing was charged.
     *
     * @param reply the reply
     * @param usages the usage of each claim
     */
    public static StoreDecision ofPeek(Reply reply, List<StoreUsage> usages) {
        return of(reply, false, usages);
    }

    /**
     * {@return the reply to a lease, which was charged if any permits were leased}
     *
     * @param reply the reply
     * @param usage the usage afterwards, with a claim for the permits that were leased
     */
    public static StoreDecision ofLease(Reply reply, StoreUsage usage) {
        return ofTake(reply, List.of(usage.leased()));
    }

    /**
     * {@return a denial that was made without counting, for example by a setting}
     *
     * @param reply the place and the time
     * @param fitsAt the time at which a retry may be useful; {@link #NEVER} if none is
     * @param usages the usage of each claim, as far as it is known
     * @param violated the limits that deny
     */
    public static StoreDecision denied(Reply reply, long fitsAt, List<StoreUsage> usages, List<Limit> violated) {
        Admission admission = new Admission(false, false, fitsAt, List.copyOf(violated), List.of());
        return new StoreDecision(reply, admission, List.copyOf(usages));
    }

    private static StoreDecision of(Reply reply, boolean takes, List<StoreUsage> usages) {
        List<Limit> violated = List.of();
        long fitsAt = reply.at();
        boolean asksForAny = false;
        for (int i = 0; i < usages.size(); i++) {
            StoreUsage usage = usages.get(i);
            asksForAny |= usage.cost() > 0;
            fitsAt = Math.max(fitsAt, usage.fitsAtMillis());
            if (usage.isViolated()) {
                violated = usages.size() == 1 ? List.of(usage.limit()) : with(violated, usage.limit());
            }
        }
        if (!violated.isEmpty()) {
            return denied(reply, fitsAt, usages, violated);
        }
        Admission admission = takes && asksForAny ? Admission.CHARGED : Admission.FREE;
        return new StoreDecision(reply, admission, List.copyOf(usages));
    }

    private static List<Limit> with(List<Limit> some, Limit another) {
        List<Limit> all = new ArrayList<>(some);
        all.add(another);
        return all;
    }

    /** {@return this decision as that of a store that has fallen back to this one} Both share {@link #permitUse()}. */
    public StoreDecision byFallback() {
        return new StoreDecision(this, admission, fallbacks + 1);
    }

    /**
     * {@return this decision with usages that it reports as near} Both share {@link #permitUse()}.
     *
     * @param near the usages
     */
    public StoreDecision withNear(List<? extends Usage> near) {
        return new StoreDecision(this, admission.with(List.copyOf(near)), fallbacks);
    }

    /**
     * {@return how many stores have fallen back for this decision} A store that falls back refunds it in the fallback
     * if this is more than 0, and otherwise in the primary store.
     */
    public int fallbacks() {
        return fallbacks;
    }

    /** {@return what becomes of the permits; the same object for each decision on them} */
    public synchronized PermitUse<StoreDecision> permitUse() {
        if (use == null) {
            use = new PermitUse<>();
        }
        return use;
    }

    /** {@return the place and the time} */
    public Reply reply() {
        return reply;
    }

    /** {@return the same usages as {@link #limits()}, with their claims} */
    public List<StoreUsage> usages() {
        return usages;
    }

    /** {@return the claims of all usages, in their order} */
    public List<Claim> claims() {
        return usages.size() == 1
                ? List.of(usages.get(0).claim())
                : usages.stream().map(StoreUsage::claim).toList();
    }

    @Override
    public boolean isAllowed() {
        return admission.isAllowed;
    }

    @Override
    public boolean isCharged() {
        return admission.isCharged;
    }

    @Override
    public Optional<Duration> retryAfter() {
        return isAllowed() || admission.fitsAt == NEVER
                ? Optional.empty()
                : Optional.of(Duration.ofMillis(admission.fitsAt - reply.at()));
    }

    @Override
    public long remaining() {
        long remaining = isAllowed() || !usages.isEmpty() ? Long.MAX_VALUE : 0;
        for (StoreUsage usage : usages) {
            if (usage.limit().takesPermits() || usage.isViolated()) {
                remaining = Math.min(remaining, usage.remaining());
            }
        }
        return remaining;
    }

    @Override
    public List<Usage> limits() {
        return List.copyOf(usages); // no copy: it is one
    }

    @Override
    public List<Limit> violated() {
        return admission.violated;
    }

    @Override
    public List<Usage> near() {
        return admission.near;
    }

    @Override
    public Instant at() {
        return Instant.ofEpochMilli(reply.at());
    }

    @Override
    public Source source() {
        return reply.source();
    }

    /** Returns the decision for log messages, without keys. */
    @Override
    public String toString() {
        return "Decision[" + (isAllowed() ? "allowed" : "denied") + ", source=" + source() + ", at=" + at()
                + retryAfter().map(wait -> ", retryAfter=" + wait).orElse("")
                + (violated().isEmpty() ? "" : ", violated=" + violated()) + ", limits=" + usages + "]";
    }

    /** What nearly all allowed decisions have in common, and what others have in addition. */
    private record Admission(
            boolean isAllowed, boolean isCharged, long fitsAt, List<Limit> violated, List<Usage> near) {

        private static final Admission CHARGED = new Admission(true, true, 0, List.of(), List.of());
        private static final Admission FREE = new Admission(true, false, 0, List.of(), List.of());

        Admission with(List<Usage> others) {
            return new Admission(isAllowed, isCharged, fitsAt, violated, others);
        }
    }
}
