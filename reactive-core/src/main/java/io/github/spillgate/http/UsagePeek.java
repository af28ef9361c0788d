package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.Scalars;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.StoreDecision;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * A peek at the usage of all rules by the client of a request. It need not be atomic, because nothing is charged: if
 * there are more counts than one peek of the limiter takes, they are read in several.
 */
final class UsagePeek {

    private UsagePeek() {}

    static Mono<Decision> of(RateLimiter limiter, List<Rule> rules, Request request) {
        long start = Time.nanos();
        List<Mono<ResolvedRule>> resolved = new ArrayList<>(rules.size());
        for (Rule rule : rules) {
            if (!rule.isShadow()) {
                RuleMatch match = new RuleMatch(rule, request, request.pathVariables());
                resolved.add(ChargeResolver.resolveForPeek(match, start));
            }
        }
        return request.onRequestThread(
                ChargeResolver.whenResolved(Scalars.collect(resolved), found -> peek(limiter, found)));
    }

    private static Mono<Decision> peek(RateLimiter limiter, List<ResolvedRule> rules) {
        List<Charge> charges = new ArrayList<>(rules.size());
        for (ResolvedRule resolved : rules) {
            if (resolved.error() != null) {
                return Mono.error(resolved.error());
            }
            if (resolved.charge() != null) {
                charges.add(resolved.charge());
            }
        }
        return charges.isEmpty()
                ? Mono.empty()
                : Flux.fromIterable(batches(charges))
                        .concatMap(limiter::peek)
                        .collectList()
                        .map(UsagePeek::join);
    }

    private static List<List<Charge>> batches(List<Charge> charges) {
        List<List<Charge>> batches = new ArrayList<>(1);
        int counts = Bounds.MOST_CLAIMS;
        for (Charge charge : charges) {
            counts += charge.limits().size();
            if (counts > Bounds.MOST_CLAIMS) {
                batches.add(new ArrayList<>());
                counts = charge.limits().size();
            }
            batches.get(batches.size() - 1).add(charge);
        }
        return batches;
    }

    private static Decision join(List<Decision> decisions) {
        Decision last = decisions.get(decisions.size() - 1);
        return decisions.size() == 1
                ? last
                : StoreDecision.ofPeek(
                        ((StoreDecision) last).reply(),
                        decisions.stream()
                                .flatMap(one -> ((StoreDecision) one).usages().stream())
                                .toList());
    }
}
