package io.github.spillgate.store;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.count.Count;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** Decides on claims. */
final class Decisions {

    private Decisions() {}

    static Mono<StoreDecision> decide(Engine engine, StoreRequest request) {
        List<Claim> claims = request.claims();
        if (claims.isEmpty()) {
            return Mono.error(new LimitStoreException(Kind.REJECTED, "no claim was given: expected at least one"));
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
        Reply reply = page.reply();
        List<StoreUsage> usages = new ArrayList<>(fits.length);
        for (int i = 0; i < fits.length; i++) {
            Claim claim = claims.get(i);
            if (isTake) {
                counts.get(i).decide(claim, allowed, Count.isStruck(claim, claims, fits));
            }
            usages.add(counts.get(i).usage(reply, claim, !fits[i], !allowed));
        }
        return isTake ? StoreDecision.ofTake(reply, usages) : StoreDecision.ofPeek(reply, usages);
    }

    private static @Nullable StoreDecision lease(Engine engine, Page page, Claim claim, int parts) {
        if (claim.limit().leaseTime().isZero()) {
            return null;
        }
        Count count = count(engine, page, claim);
        Claim leased = claim.withPermits(count.lease(claim.permits(), parts));
        Reply reply = page.reply();
        return StoreDecision.ofLease(reply, count.usage(reply, leased, false, false));
    }

    private static Count count(Engine engine, Page page, Claim claim) {
        Count count = page.count(claim);
        if (count == null) {
            throw new Task.NotPossible(new LimitStoreException(
                    Kind.FOREIGN_VALUE,
                    "the value under the key \"" + claim.identity() + "\" of store " + engine.store()
                            + " was not written by Spillgate, and is left unchanged: expected a count or no value;"
                            + " delete it"));
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
}
