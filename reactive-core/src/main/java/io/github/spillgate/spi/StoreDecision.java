package io.github.spillgate.spi;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** A decision that a {@link LimitStore} has made, with what the store needs to refund it. */
public final class StoreDecision implements Decision {

    /** The value of {@code fitsAt} if no wait helps. */
    public static final long NEVER = Long.MAX_VALUE;

    private static final AtomicReferenceFieldUpdater<StoreDecision, PermitUse> USE =
            AtomicReferenceFieldUpdater.newUpdater(StoreDecision.class, PermitUse.class, "use");

    private static final long NO_STAMP = 0;

    private final Source source;
    private final long at;

    /** The time at which the permits are charged; later than the decision if they are leased. */
    private final long chargedAt;

    private final long stamp;
    private final Admission admission;
    private final List<StoreUsage> usages;

    /**
     * The decisions of several servers, each by its own clock; of {@link Source#LEASE}, the lease of each usage; empty
     * if one server decided everything.
     */
    private final List<StoreDecision> parts;

    /** What became of the permits. */
    private volatile PermitUse use = PermitUse.NEW;

    /**
     * The fallbacks that have decided; several if one of them has a fallback itself. Changed only before the store that
     * fell back emits this decision.
     */
    private List<LimitStore> fallbacks = List.of();

    private StoreDecision(
            Source source,
            long at,
            long chargedAt,
            long stamp,
            Admission admission,
            List<StoreUsage> usages,
            List<StoreDecision> parts) {
        this.source = source;
        this.at = at;
        this.chargedAt = chargedAt;
        this.stamp = stamp;
        this.admission = admission;
        this.usages = usages;
        this.parts = parts;
    }

    private StoreDecision(Source source, long at, long stamp, Admission admission, List<StoreUsage> usages) {
        this(source, at, at, stamp, admission, usages, List.of());
    }

    /**
     * Returns a decision that a store has made. It is allowed if no usage is violated.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param usages the usage of each claim after the decision
     * @return the decision
     */
    public static StoreDecision ofTake(Source source, long at, List<StoreUsage> usages) {
        return ofTake(source, at, NO_STAMP, usages);
    }

    /**
     * Returns a decision like {@link #ofTake(Source, long, List)}, with a stamp that distinguishes it from a reset at
     * the same time.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param stamp the stamp, which {@link #stamp()} returns to the store
     * @param usages the usage of each claim after the decision
     * @return the decision
     */
    public static StoreDecision ofTake(Source source, long at, long stamp, List<StoreUsage> usages) {
        return ofStore(source, at, stamp, asksForAny(usages), usages);
    }

    /**
     * Returns a decision that a store would make. It is allowed if no usage is violated; nothing was charged.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param usages the usage of each claim
     * @return the decision
     */
    public static StoreDecision ofPeek(Source source, long at, List<StoreUsage> usages) {
        return ofPeek(source, at, NO_STAMP, usages);
    }

    /**
     * Returns a decision like {@link #ofPeek(Source, long, List)}, with a stamp that distinguishes it from a reset at
     * the same time. A fallback records the reply to a correction in this form.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param stamp the stamp, which {@link #stamp()} returns to the store
     * @param usages the usage of each claim
     * @return the decision
     */
    public static StoreDecision ofPeek(Source source, long at, long stamp, List<StoreUsage> usages) {
        return ofStore(source, at, stamp, false, usages);
    }

    /**
     * Returns a decision that was made without counting, for example by a setting.
     *
     * @param source the place where it was made
     * @param allowed whether it allows
     * @param at the time of the decision, in milliseconds of a clock
     * @param fitsAt after a denial, the time at which a retry may be useful; {@link #NEVER} if none is
     * @param usages the usage of each claim, as far as it is known
     * @param violated the limits that deny
     * @return the decision; nothing was charged
     */
    public static StoreDecision uncharged(
            Source source, boolean allowed, long at, long fitsAt, List<StoreUsage> usages, List<Limit> violated) {
        Admission admission = allowed ? Admission.allowed(false) : Admission.denied(fitsAt, List.copyOf(violated));
        return new StoreDecision(source, at, NO_STAMP, admission, List.copyOf(usages));
    }

    /**
     * Returns the reply to a lease.
     *
     * @param source the place where it was made
     * @param at the time of the lease, in milliseconds of the store's clock
     * @param stamp the stamp, which {@link #stamp()} returns to the store
     * @param usage the usage afterwards, with a claim for the permits that were leased
     * @return the decision, which was charged if any permits were leased; a refund of it returns them all
     */
    public static StoreDecision ofLease(Source source, long at, long stamp, StoreUsage usage) {
        return ofLease(source, at, at + usage.limit().leaseTime().toMillis(), stamp, usage);
    }

    private static StoreDecision ofLease(Source source, long at, long chargedAt, long stamp, StoreUsage usage) {
        Admission admission = Admission.allowed(usage.cost() > 0);
        return new StoreDecision(source, at, chargedAt, stamp, admission, List.of(usage), List.of());
    }

    /**
     * Returns a decision that this instance made with leased permits. Its times are those of the usages, converted to
     * one clock, because the leases may be of several servers.
     *
     * @param at the time of the decision, in milliseconds of the clock of one of the servers
     * @param usages the usage of each claim, which {@linkplain StoreUsage#fitsAt fits} at the time of the decision by
     *     the clock of its own server
     * @param leases for each claim, the lease of its permits
     * @return the decision, which was charged
     */
    public static StoreDecision ofLeased(long at, List<StoreUsage> usages, List<StoreDecision> leases) {
        Admission admission = Admission.allowed(asksForAny(usages));
        List<StoreUsage> shown = usages.size() == 1
                ? List.copyOf(usages)
                : usages.stream()
                        .map(usage -> usage.later(at - usage.fitsAtMillis(), false))
                        .toList();
        return new StoreDecision(Source.LEASE, at, at, NO_STAMP, admission, shown, List.copyOf(leases));
    }

    /**
     * Combines the decisions of several servers, each made independently and by the server's own clock. The result is
     * allowed if all of them are. If one server denied, the store refunds what the others took, and the result shows it
     * as refunded. Limits that {@linkplain Limit#isCountingDenied() count denied} requests are not refunded.
     *
     * @param claims the claims that were decided
     * @param parts the decisions of the servers, at least one, no two with the same claim
     * @return the decision, with a usage for each claim that a part has, in the order of the claims; its times are
     *     those of the parts, converted to one clock
     */
    public static StoreDecision ofParts(List<Claim> claims, List<StoreDecision> parts) {
        boolean allowed = parts.stream().allMatch(StoreDecision::isAllowed);
        boolean charged = parts.stream().anyMatch(StoreDecision::isCharged);
        long at = parts.stream().mapToLong(part -> part.at).max().orElseThrow();
        Map<Object, StoreUsage> known = new HashMap<>();
        for (StoreDecision part : parts) {
            for (StoreUsage usage : part.usages) {
                StoreUsage shown = usage.later(at - part.at, !allowed && part.isCharged());
                known.put(usage.claim().handle(), shown);
            }
        }
        List<StoreUsage> usages = claims.stream()
                .map(claim -> known.get(claim.handle()))
                .filter(Objects::nonNull)
                .toList();
        return new StoreDecision(
                parts.get(0).source,
                at,
                at,
                NO_STAMP,
                allowed ? Admission.allowed(charged) : Admission.denied(fitsAt(at, usages), violatedIn(usages)),
                usages,
                allowed
                        ? List.copyOf(parts)
                        : parts.stream().map(StoreDecision::refunded).toList());
    }

    /** Returns this decision as it is after a refund. */
    private StoreDecision refunded() {
        List<StoreUsage> left =
                usages.stream().map(usage -> usage.later(0, isCharged())).toList();
        Admission refunded = isAllowed() ? Admission.allowed(false) : admission;
        return new StoreDecision(source, at, chargedAt, stamp, refunded, left, List.of());
    }

    private static StoreDecision ofStore(Source source, long at, long stamp, boolean takes, List<StoreUsage> usages) {
        List<Limit> violated = violatedIn(usages);
        Admission admission =
                violated.isEmpty() ? Admission.allowed(takes) : Admission.denied(fitsAt(at, usages), violated);
        return new StoreDecision(source, at, stamp, admission, List.copyOf(usages));
    }

    private static long fitsAt(long at, List<StoreUsage> usages) {
        long fitsAt = at;
        for (int i = 0; i < usages.size(); i++) {
            fitsAt = Math.max(fitsAt, usages.get(i).fitsAtMillis());
        }
        return fitsAt;
    }

    private static boolean asksForAny(List<StoreUsage> usages) {
        for (int i = 0; i < usages.size(); i++) {
            if (usages.get(i).claim().permits() > 0) {
                return true;
            }
        }
        return false;
    }

    private static List<Limit> violatedIn(List<StoreUsage> usages) {
        List<Limit> violated = List.of();
        for (int i = 0; i < usages.size(); i++) {
            StoreUsage usage = usages.get(i);
            if (usage.isViolated()) {
                violated = violated.isEmpty()
                        ? List.of(usage.limit())
                        : Stream.concat(violated.stream(), Stream.of(usage.limit()))
                                .toList();
            }
        }
        return violated;
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
                : Optional.of(Duration.ofMillis(admission.fitsAt - at));
    }

    @Override
    public long remaining() {
        long remaining = isAllowed() || !usages.isEmpty() ? Long.MAX_VALUE : 0;
        for (StoreUsage usage : usages) {
            remaining = Math.min(remaining, usage.remaining());
        }
        return remaining;
    }

    @Override
    @SuppressWarnings("unchecked") // the list is immutable
    public List<Usage> limits() {
        return (List<Usage>) (List<?>) usages;
    }

    /**
     * Returns the same usages as {@link #limits()}.
     *
     * @return the usages, with their claims
     */
    public List<StoreUsage> usages() {
        return usages;
    }

    @Override
    public List<Limit> violated() {
        return admission.violated;
    }

    @Override
    public Instant at() {
        return Instant.ofEpochMilli(at);
    }

    @Override
    public Source source() {
        return source;
    }

    /**
     * Returns the time at which the permits are charged, which a refund needs.
     *
     * @return the time of the decision; of a lease, the end of the lease time; in milliseconds of the store's clock
     */
    public long chargedAt() {
        return chargedAt;
    }

    /**
     * Returns the time at which the permits of a claim are charged. While permits of a log are leased, others are
     * charged together with them, which is later than the time of the decision.
     *
     * @param claim a claim of this decision, with any cost
     * @return {@link #chargedAt()} or, of a log, the beginning of the slot that expires last, if that is later
     */
    public long chargedAt(Claim claim) {
        for (StoreUsage usage : usages) {
            if (usage.claim().handle().equals(claim.handle())) {
                return Math.max(chargedAt, newestSlot(usage));
            }
        }
        return chargedAt;
    }

    /**
     * Returns whether a usage shows that permits are leased, which may be refunded within a lease time. They are
     * charged later than all that were taken by now, unless a slot is longer than the lease time. The level of a bucket
     * does not show it.
     *
     * @param usage a usage of this decision
     * @return true if permits of this log are leased, by any instance, also by one with another setting than this one.
     *     For some time after the store's clock was set back it is true without leases
     */
    public boolean showsLeases(StoreUsage usage) {
        return newestSlot(usage) > at;
    }

    /**
     * Returns whether leased permits may be refunded soon: permits are leased, or a lease has just ended, and the
     * refund is not executed yet. A slot does not show when permits were charged in it, so this may be true without
     * leases.
     *
     * @param usage a usage of this decision
     * @return true if the usage {@linkplain #showsLeases shows} leases, or if the limit is a leased log, and its newest
     *     slot had not ended one lease time ago
     */
    public boolean mayRefundLeases(StoreUsage usage) {
        Limit limit = usage.limit();
        if (!limit.isLeased()) {
            return showsLeases(usage);
        }
        long slack = limit.resolution().toMillis() + limit.leaseTime().toMillis();
        return newestSlot(usage) + slack > at;
    }

    /** Returns the beginning of the slot that expires last; of other counts than logs a time before all others. */
    private static long newestSlot(StoreUsage usage) {
        return usage.limit() instanceof Limit.Log log
                ? usage.wholeAtMillis()
                        - log.period().toMillis()
                        - log.resolution().toMillis()
                : Long.MIN_VALUE;
    }

    /**
     * Returns the stamp with which the store distinguishes this decision from a reset at the same time.
     *
     * @return the stamp; 0 if there is none
     */
    public long stamp() {
        return stamp;
    }

    /**
     * Returns the {@linkplain StoreUsage#life() life} of the count of a claim.
     *
     * @param claim a claim of this decision, with any cost
     * @return the life; 0 if it is not known
     */
    public int life(Claim claim) {
        for (StoreUsage usage : usages) {
            if (usage.claim().handle().equals(claim.handle())) {
                return usage.life();
            }
        }
        return 0;
    }

    /**
     * Returns the decisions of the individual servers, each by its own clock, with the usage that the server reported
     * and the permits to refund to it.
     *
     * @return the decisions that were combined, without permits that are already refunded; this decision alone if
     *     nothing was combined
     */
    public List<StoreDecision> parts() {
        return parts.isEmpty() ? List.of(this) : knownParts();
    }

    /** Returns the parts. Those of leases are created on demand, because few decisions are refunded. */
    private List<StoreDecision> knownParts() {
        if (source != Source.LEASE) {
            return parts;
        }
        List<StoreDecision> spent = new ArrayList<>(parts.size());
        for (int i = 0; i < parts.size(); i++) {
            spent.add(parts.get(i).part(usages.get(i).cost()));
        }
        return spent;
    }

    /**
     * Returns a part of a {@linkplain #ofLease lease}, so that it can be refunded.
     *
     * @param permits the number of permits
     * @return a decision on these permits only
     */
    public StoreDecision part(long permits) {
        StoreDecision part = ofLease(source, at, chargedAt, stamp, usages.get(0).part(permits, at));
        part.fallbacks = fallbacks;
        return part;
    }

    /**
     * Returns the claims of all usages.
     *
     * @return the claims, in the order of the usages
     */
    public List<Claim> claims() {
        // Most decisions are on one count, and need no stream.
        return usages.size() == 1
                ? List.of(usages.get(0).claim())
                : usages.stream().map(StoreUsage::claim).toList();
    }

    /**
     * Returns this decision with some of its usages, so that they can be refunded separately.
     *
     * @param wanted selects the usages
     * @return a decision with the selected usages
     */
    public StoreDecision only(Predicate<? super StoreUsage> wanted) {
        List<StoreUsage> some = usages.stream().filter(wanted).toList();
        List<StoreDecision> someParts = knownParts().stream()
                .map(part -> part.only(wanted))
                .filter(part -> !part.usages.isEmpty())
                .toList();
        StoreDecision selected = new StoreDecision(source, at, chargedAt, stamp, admission, some, someParts);
        selected.fallbacks = fallbacks;
        return selected;
    }

    /**
     * Notes that a fallback has made this decision. The {@link #source()} does not show it: the store that fell back
     * may have the same one. Call this before the decision is emitted. It changes this object and makes no copy,
     * because the fallback may still {@linkplain #moveTo move} its permits.
     *
     * @param fallback the store that decided instead of another one
     */
    public void noteFallback(LimitStore fallback) {
        if (!isByFallback(fallback)) {
            fallbacks = fallbacks.isEmpty()
                    ? List.of(fallback)
                    : Stream.concat(fallbacks.stream(), Stream.of(fallback)).toList();
        }
        for (StoreDecision part : parts) {
            part.noteFallback(fallback);
        }
    }

    /**
     * Returns whether a fallback has decided, instead of the store that it is for.
     *
     * @return true if {@link #noteFallback} has noted any
     */
    public boolean isByFallback() {
        return !fallbacks.isEmpty();
    }

    /**
     * Returns whether a fallback has decided, so that it refunds and settles this decision.
     *
     * @param fallback the fallback
     * @return true if {@link #noteFallback} has noted this one
     */
    public boolean isByFallback(LimitStore fallback) {
        return fallbacks.contains(fallback);
    }

    /**
     * Claims the right to refund some usages of this decision, so that this happens to each of them at most once.
     *
     * @param wanted selects the usages
     * @return a decision with those that have not been redeemed before, which is the one to refund: a decision of
     *     another store if they have {@linkplain #moveTo moved} to it; null if there are none, or nothing was charged
     */
    public @Nullable StoreDecision redeem(Predicate<? super StoreUsage> wanted) {
        return redeem(wanted, Map.of());
    }

    /**
     * Claims the right to settle some usages of this decision, like {@link #redeem(Predicate)}.
     *
     * @param wanted selects the usages
     * @param costs the costs that they have from now on, by the handles of their claims; 0 for others
     * @return a decision with those that have not been redeemed before, which is the one to settle
     */
    public @Nullable StoreDecision redeem(Predicate<? super StoreUsage> wanted, Map<Object, Long> costs) {
        Map<Object, Long> selected = new HashMap<>();
        for (StoreUsage usage : isCharged() ? usages : List.<StoreUsage>of()) {
            if (wanted.test(usage)) {
                Object handle = usage.claim().handle();
                selected.put(handle, costs.getOrDefault(handle, 0L));
            }
        }
        if (use.redeemed.keySet().containsAll(selected.keySet())) {
            return null;
        }
        PermitUse before = USE.getAndUpdate(this, known -> known.redeemed(selected));
        selected.keySet().removeAll(before.redeemed.keySet());
        StoreDecision redeemed = (before.holder == null ? this : before.holder).onlyOf(selected.keySet());
        if (before.holder != null) {
            // They have left the first fallback for the store around it, which may be a fallback itself.
            fallbacks.stream().skip(1).forEach(redeemed::noteFallback);
        }
        return redeemed.usages.isEmpty() ? null : redeemed;
    }

    /**
     * Notes that another store has charged the same request, and holds its permits from now on, instead of the store
     * that has made this decision. In one step: each usage is redeemed either before it, from this decision, or
     * afterwards, from the other one. Call this once at most.
     *
     * @param other the decision of the other store on the same claims
     * @return the claims of this decision, with as many of their permits as have moved: without those that were
     *     refunded before, or settled to a lower cost; without claims of which nothing has moved
     */
    public List<Claim> moveTo(StoreDecision other) {
        PermitUse before = USE.getAndUpdate(this, known -> new PermitUse(known.redeemed, other));
        List<Claim> moved = new ArrayList<>(usages.size());
        for (Claim claim : claims()) {
            long left = Math.min(claim.permits(), before.redeemed.getOrDefault(claim.handle(), claim.permits()));
            if (left > 0) {
                moved.add(left == claim.permits() ? claim : claim.withPermits(left));
            }
        }
        return moved;
    }

    private StoreDecision onlyOf(Set<Object> handles) {
        return only(usage -> handles.contains(usage.claim().handle()));
    }

    /** Returns the decision for log messages, without keys. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Decision[").append(isAllowed() ? "allowed" : "denied");
        text.append(", source=").append(source).append(", at=").append(at());
        retryAfter().ifPresent(wait -> text.append(", retryAfter=").append(wait));
        if (!violated().isEmpty()) {
            text.append(", violated=").append(violated());
        }
        return text.append(", limits=").append(usages).append(']').toString();
    }

    /**
     * Whether the request is allowed, and what denies it. Allowed decisions share two constants, so that only a denial
     * allocates one.
     *
     * @param isCharged whether it is allowed and has taken permits
     * @param fitsAt after a denial, the time at which a retry may be useful
     * @param violated the limits that deny
     */
    private record Admission(boolean isAllowed, boolean isCharged, long fitsAt, List<Limit> violated) {

        private static final Admission CHARGED = new Admission(true, true, 0, List.of());
        private static final Admission UNCHARGED = new Admission(true, false, 0, List.of());

        static Admission allowed(boolean isCharged) {
            return isCharged ? CHARGED : UNCHARGED;
        }

        static Admission denied(long fitsAt, List<Limit> violated) {
            return new Admission(false, false, fitsAt, violated);
        }
    }

    /**
     * What became of the permits of a decision.
     *
     * @param redeemed the usages that were refunded or settled, by the handles of their claims, with their costs since
     * @param holder the decision that holds the other permits instead of this one; null if none does
     */
    private record PermitUse(
            Map<Object, Long> redeemed, @Nullable StoreDecision holder) {

        private static final PermitUse NEW = new PermitUse(Map.of(), null);

        PermitUse redeemed(Map<Object, Long> costs) {
            Map<Object, Long> all = new HashMap<>(costs);
            all.putAll(redeemed);
            return new PermitUse(Map.copyOf(all), holder);
        }
    }
}
