package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** A log: a list with one element for every single permit that was taken, its slot. */
final class LogModel extends CountModel {

    private List<Long> hits = new ArrayList<>();

    @Override
    void pull(Limit limit, long now) {
        long slot = slot(limit, now + leaseTime(limit));
        if (hits.stream().anyMatch(hit -> hit > slot)) {
            hits.replaceAll(hit -> Math.min(hit, slot));
            forgetWhatHasLeft(limit, now);
        }
        List<Long> live = live(limit, now);
        if (!live.isEmpty()
                && hits.stream().distinct().count() - live.stream().distinct().count() > 64) {
            hits = live;
        }
    }

    @Override
    long used(Limit limit, long now) {
        return live(limit, now).size();
    }

    @Override
    boolean fits(Limit limit, long cost, long now) {
        return used(limit, now) + cost <= limit.permits();
    }

    @Override
    void take(Limit limit, long cost, long now) {
        forgetWhatHasLeft(limit, now);
        add(slot(limit, now), cost);
    }

    /** Hits are in order, also if leased permits are ahead of time. */
    private void add(long slot, long cost) {
        long latest = hits.isEmpty() ? slot : Math.max(slot, hits.get(hits.size() - 1));
        for (long i = 0; i < cost; i++) {
            hits.add(latest);
        }
    }

    @Override
    long lease(Limit limit, long most, int parts, long now) {
        long leased = 0;
        long free = limit.permits() - used(limit, now);
        while (leased < most && (leased + 1) * parts <= free) {
            leased++;
        }
        if (leased > 0) {
            forgetWhatHasLeft(limit, now);
            add(slot(limit, now + leaseTime(limit)), leased);
        }
        return leased;
    }

    @Override
    void recordDenied(Limit limit, long cost, long now) {
        long most = Math.max(used(limit, now), limit.permits());
        take(limit, cost, now);
        while (hits.size() > most) {
            hits.remove(0);
        }
    }

    @Override
    void refund(Limit limit, long takenAt, long permits, long now) {
        Long slot = slot(limit, takenAt);
        if (live(limit, now).contains(slot)) {
            forgetWhatHasLeft(limit, now);
            for (long i = 0; i < permits; i++) {
                hits.remove(slot);
            }
        }
    }

    @Override
    void refundOldest(Limit limit, long permits, long now) {
        if (used(limit, now) > 0) {
            forgetWhatHasLeft(limit, now);
            for (long i = 0; i < permits && !hits.isEmpty(); i++) {
                hits.remove(0);
            }
        }
    }

    @Override
    boolean reconcile(Limit limit, List<Grants> times, long now) {
        List<Long> reconciled = new ArrayList<>();
        for (Grants some : times) {
            for (long i = 0; i < some.permits(); i++) {
                reconciled.add(slot(limit, Math.min(some.toMillis(), now)));
            }
        }
        reconciled = live(reconciled, limit, now);
        if (reconciled.isEmpty()) {
            return false;
        }
        forgetWhatHasLeft(limit, now);
        hits.addAll(reconciled);
        hits.sort(null);
        return true;
    }

    @Override
    void reset() {
        hits.clear();
    }

    @Override
    boolean isWhole(Limit limit, long now) {
        return used(limit, now) == 0;
    }

    /** When the first permits have left, so that there is room for the missing ones; now if there is room. */
    long leaveAt(Limit limit, long missing, long now) {
        List<Long> live = live(limit, now);
        return missing <= 0 ? now : leavesAt(limit, live.get((int) Math.min(missing, live.size()) - 1));
    }

    @Override
    @Nullable
    Restored restore(Limit limit, List<Grants> ages, @Nullable Restored earlier, long now) {
        forgetWhatHasLeft(limit, now);
        List<Long> had = restoredBefore(earlier);
        List<Long> lostHits = new ArrayList<>();
        for (Grants some : ages) {
            lostHits.addAll(Collections.nCopies((int) some.permits(), slot(limit, now - some.toMillis())));
        }
        lostHits = live(lostHits, limit, now);
        lostHits.sort(Comparator.reverseOrder());
        List<Long> all = new ArrayList<>();
        for (int k = 0; k < Math.max(had.size(), lostHits.size()); k++) {
            all.add(Math.max(
                    k < had.size() ? had.get(k) : Long.MIN_VALUE,
                    k < lostHits.size() ? lostHits.get(k) : Long.MIN_VALUE));
        }
        if (all.equals(had)) {
            return null;
        }
        had.forEach(hits::remove);
        hits.addAll(all);
        hits.sort(null);
        long last = earlier == null ? lostHits.get(0) : Math.max(earlier.newest(), lostHits.get(0));
        return new Restored(now, all.size(), last, Collections.frequency(all, last));
    }

    /** The youngest hits that may have been restored before, the youngest first. */
    private List<Long> restoredBefore(@Nullable Restored earlier) {
        if (earlier == null) {
            return List.of();
        }
        List<Long> inLast = hits.stream().filter(hit -> hit == earlier.newest()).toList();
        return Stream.concat(
                        inLast.stream().limit(earlier.others()),
                        hits.stream().filter(hit -> hit < earlier.newest()).sorted(Comparator.reverseOrder()))
                .limit(earlier.permits())
                .toList();
    }

    private void forgetWhatHasLeft(Limit limit, long now) {
        hits = live(limit, now);
    }

    private List<Long> live(Limit limit, long now) {
        return live(hits, limit, now);
    }

    private static List<Long> live(List<Long> hits, Limit limit, long now) {
        List<Long> live = new ArrayList<>();
        for (Long slot : hits) {
            if (now < leavesAt(limit, slot)) {
                live.add(slot);
            }
        }
        return live;
    }

    private static long leavesAt(Limit limit, long slot) {
        long endOfSlot = (slot + 1) * limit.resolution().toMillis();
        return endOfSlot + limit.window().toMillis();
    }

    private static long leaseTime(Limit limit) {
        return Math.min(100, limit.window().toMillis() / 100);
    }

    private static long slot(Limit limit, long now) {
        return now / limit.resolution().toMillis();
    }
}
