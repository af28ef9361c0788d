package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.HoldRenewal.RenewalOutcome;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The holders of a concurrency limit: a list of all, which every step reads from its beginning. */
final class HoldModel extends CountModel {

    private static final long TOMBSTONE_LIFE = 60_000;
    private static final int MOST_TOMBSTONES = 64;
    private static final int MOST_HELD = 10_000;

    /** A hold since a time; without permits, the tombstone of one that was released before it was taken. */
    private record Hold(@Nullable UUID id, long since, long life, long permits) {

        boolean isOver(long now) {
            return now - since >= life;
        }

        boolean isTombstone() {
            return permits == 0;
        }
    }

    private final List<Hold> holds = new ArrayList<>();
    private @Nullable UUID selected;

    @Override
    void select(@Nullable UUID id) {
        selected = id;
    }

    @Override
    void pull(Limit limit, long now) {
        holds.replaceAll(hold -> new Hold(hold.id, Math.min(hold.since, now), hold.life, hold.permits));
        holds.removeIf(hold -> hold.isOver(now));
    }

    private @Nullable Hold found() {
        return holds.stream()
                .filter(hold -> selected != null && selected.equals(hold.id))
                .findFirst()
                .orElse(null);
    }

    @Override
    long used(Limit limit, long now) {
        return holds.stream()
                .filter(hold -> !hold.isOver(now))
                .mapToLong(Hold::permits)
                .sum();
    }

    @Override
    boolean fits(Limit limit, long cost, long now) {
        Hold found = found();
        return found == null ? used(limit, now) + cost <= limit.permits() : !found.isTombstone();
    }

    @Override
    void take(Limit limit, long cost, long now) {
        if (found() == null) {
            holds.add(new Hold(selected, now, limit.holdTime().toMillis(), cost));
        }
    }

    RenewalOutcome renew(Limit limit, long cost, long now) {
        Hold found = found();
        if (found == null && used(limit, now) >= MOST_HELD) {
            return RenewalOutcome.FULL;
        } else if (found == null) {
            take(limit, cost, now);
            return RenewalOutcome.RESTORED;
        } else if (found.isTombstone()) {
            return RenewalOutcome.RELEASED;
        }
        long left = found.since + found.life - now;
        holds.set(
                holds.indexOf(found),
                new Hold(selected, now, Math.max(left, limit.holdTime().toMillis()), found.permits));
        return RenewalOutcome.RENEWED;
    }

    void release(long now) {
        Hold found = found();
        if (found == null) {
            holds.add(new Hold(selected, now, TOMBSTONE_LIFE, 0));
            List<Hold> tombstones = holds.stream().filter(Hold::isTombstone).toList();
            if (tombstones.size() > MOST_TOMBSTONES) {
                holds.remove(tombstones.get(0));
            }
        } else if (!found.isTombstone()) {
            holds.remove(found);
        }
    }

    @Override
    void recordDenied(Limit limit, long cost, long now) {
        throw new AssertionError("a concurrency limit counts no denials");
    }

    @Override
    void refund(Limit limit, long takenAt, long permits, long now) {
        release(now);
    }

    @Override
    void refundOldest(Limit limit, long permits, long now) {}

    @Override
    boolean reconcile(Limit limit, List<Grants> times, long now) {
        throw new AssertionError("holds are renewed, and not reconciled");
    }

    @Override
    void reset() {
        holds.clear();
    }

    @Override
    long fitsAt(Limit limit, long cost, long now) {
        return fits(limit, cost, now) ? now : now + limit.retryAfter().toMillis();
    }

    @Override
    boolean isWhole(Limit limit, long now) {
        return used(limit, now) == 0;
    }
}
