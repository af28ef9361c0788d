package io.github.spillgate.store;

import io.github.spillgate.ForeignValueException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Source;
import io.github.spillgate.count.Count;
import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** Decides on claims, and counts the instances of a limiter. */
final class Decisions {

    private Decisions() {}

    static Mono<StoreDecision> decide(Engine engine, StoreRequest request) {
        List<Claim> claims = request.claims();
        if (claims.isEmpty()) {
            return Mono.error(new LimitStoreException("no claim was given: expected at least one", null));
        }
        List<String> keys = claims.stream().map(Claim::identity).toList();
        return engine.run(new Task.Work<StoreDecision>(
                keys,
                request.deadline(),
                page -> request.mode() == StoreRequest.Mode.LEASE
                        ? lease(engine, page, claims.get(0), request.parts())
                        : decide(engine, page, claims, request.mode() == StoreRequest.Mode.TAKE),
                decision -> release(engine, decision)));
    }

    private static StoreDecision decide(Engine engine, Page page, List<Claim> claims, boolean isTake) {
        List<Count> counts = new ArrayList<>(claims.size());
        boolean[] fits = new boolean[claims.size()];
        boolean allowed = true;
        for (int i = 0; i < fits.length; i++) {
            Count count = count(engine, page, claims.get(i));
            counts.add(count);
            fits[i] = count.fits(claims.get(i).permits());
            allowed &= fits[i];
        }
        List<StoreUsage> usages = new ArrayList<>(fits.length);
        for (int i = 0; i < fits.length; i++) {
            Claim claim = claims.get(i);
            if (isTake) {
                counts.get(i).decide(claim, allowed);
            }
            usages.add(counts.get(i).usage(claim, page.micros(), !fits[i], !allowed));
        }
        return isTake
                ? StoreDecision.ofTake(Source.OTHER, page.millis(), page.micros(), usages)
                : StoreDecision.ofPeek(Source.OTHER, page.millis(), usages);
    }

    private static @Nullable StoreDecision lease(Engine engine, Page page, Claim claim, int parts) {
        if (!(claim.limit() instanceof Limit.Log || claim.limit() instanceof Limit.Bucket)) {
            return null;
        }
        Count count = count(engine, page, claim);
        Claim leased = claim.withPermits(count.lease(claim.permits(), parts));
        StoreUsage usage = count.usage(leased, page.micros(), false, false);
        return StoreDecision.ofLease(Source.OTHER, page.millis(), page.micros(), usage);
    }

    private static Count count(Engine engine, Page page, Claim claim) {
        Count count = page.count(claim);
        if (count == null) {
            throw new Task.NotPossible(new ForeignValueException(
                    "the value under the key \"" + claim.identity() + "\" of store " + engine.store()
                            + " was not written by Spillgate, and is left unchanged: expected a count or no value;"
                            + " delete it",
                    null));
        }
        return count;
    }

    /** Releases the permits of a decision that no caller gets. They expire if this fails. */
    private static void release(Engine engine, StoreDecision decision) {
        List<Claim> holds = decision.claims().stream()
                .filter(claim -> claim.holdId() != null && claim.permits() > 0)
                .toList();
        if (decision.isCharged() && !holds.isEmpty()) {
            Corrections.hold(engine, holds, HoldAction.RELEASE).subscribe(done -> {}, error -> {});
        }
    }

    // Instances. The value is that of register.lua: its kind, and for each instance the id and its last millisecond.

    private static final byte[] KIND = {'s', 'g', 'I'};
    private static final int ID = 16;
    private static final int INSTANCE = ID + 6;
    private static final int MOST_INSTANCES = 1_000;

    /** In milliseconds. A registration that lasts longer is from before the clock was set back. */
    private static final long LONGEST = 60_000;

    static Mono<Integer> register(Engine engine, String limiter, UUID instance, Duration lifetime) {
        // No count has this key: those have more colons.
        String key = "instances:" + limiter;
        return engine.run(new Task.Work<Integer>(
                List.of(key),
                LimitStore.NO_DEADLINE,
                page -> register(page, key, instance, lifetime.toMillis()),
                number -> {}));
    }

    private static @Nullable Integer register(Page page, String key, UUID instance, long life) {
        byte[] before = page.value(key);
        if (before.length > 0 && !Arrays.equals(KIND, Arrays.copyOf(before, KIND.length))) {
            return null;
        }
        long now = page.millis();
        long latest = now + life;
        byte[] id = new byte[ID];
        LittleEndian.put(id, 0, instance.getMostSignificantBits(), Long.BYTES);
        LittleEndian.put(id, Long.BYTES, instance.getLeastSignificantBits(), Long.BYTES);
        byte[] value = Arrays.copyOf(KIND, KIND.length + MOST_INSTANCES * INSTANCE);
        int number = 0;
        for (int at = KIND.length; at + INSTANCE <= before.length; at += INSTANCE) {
            long last = LittleEndian.get(before, at + ID, 6);
            boolean isOther = !Arrays.equals(before, at, at + ID, id, 0, ID);
            if (isOther && last > now && last <= now + LONGEST && number < MOST_INSTANCES) {
                System.arraycopy(before, at, value, KIND.length + number * INSTANCE, INSTANCE);
                latest = Math.max(latest, last);
                number++;
            }
        }
        if (life > 0 && number < MOST_INSTANCES) {
            int at = KIND.length + number * INSTANCE;
            System.arraycopy(id, 0, value, at, ID);
            LittleEndian.put(value, at + ID, now + life, 6);
            number++;
        }
        if (number > 0) {
            page.put(key, Arrays.copyOf(value, KIND.length + number * INSTANCE), latest);
        } else if (before.length > 0) {
            page.delete(key);
        }
        return number == 0 ? null : number;
    }
}
