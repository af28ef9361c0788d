package io.github.spillgate.redis;

import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.redis.lane.CommandSender;
import io.github.spillgate.redis.lane.Errors;
import io.github.spillgate.redis.lane.Redirect;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.reactivestreams.Publisher;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;

/**
 * Groups counts by hash slot, and sends commands to the servers that own the slots. Without a cluster there is one slot
 * and one server.
 */
final class SlotRouter {

    /** No decision has more claims. */
    private static final int MOST_CONCURRENT = 64;

    private final Topology topology;

    /** Emits the replies. */
    private final Scheduler deliverOn;

    SlotRouter(Topology topology, Scheduler deliverOn) {
        this.topology = topology;
        this.deliverOn = deliverOn;
    }

    /** Groups by slot, in ascending order of the slots. */
    <E> SortedMap<Integer, List<E>> bySlot(List<E> all, Function<E, Claim> claim) {
        SortedMap<Integer, List<E>> bySlot = new TreeMap<>();
        for (E each : all) {
            bySlot.computeIfAbsent(topology.slotOf(claim.apply(each)), slot -> new ArrayList<>())
                    .add(each);
        }
        return bySlot;
    }

    /** Sends a command to the owner of a slot. */
    <T> Mono<T> send(int slot, byte[][] keys, BiFunction<Server, CommandSender, Mono<T>> command) {
        Server known = topology.known(slot);
        Mono<Server> server = known == null ? topology.find(slot) : Mono.just(known);
        return server.flatMap(owner -> owner.send(command))
                .publishOn(deliverOn)
                .onErrorMap(e -> Errors.translate(e, keys));
    }

    /** Runs a script on the owner of a slot. */
    Mono<byte[]> run(int slot, Script.Purpose script, byte[][] keys, byte[] request) {
        return run(slot, script, keys, clock -> request);
    }

    /** Runs a script with a request that is made when it is sent, for example because it depends on the time. */
    Mono<byte[]> run(int slot, Script.Purpose script, byte[][] keys, Function<StoreClock, byte[]> request) {
        return send(slot, keys, (server, sender) -> server.script(script).run(sender, keys, request));
    }

    /** Sends one request for each slot at the same time. A failing slot does not stop the others. */
    <E, T> Flux<T> inEachSlot(
            List<E> all, Function<E, Claim> claim, BiFunction<Integer, List<E>, Publisher<T>> request) {
        return Flux.defer(() -> concurrently(
                        bySlot(all, claim).entrySet(), slot -> request.apply(slot.getKey(), slot.getValue())))
                .onErrorMap(Exceptions::isMultiple, Errors::oneOf);
    }

    /** Sends one request for each slot of these claims at the same time. */
    <T> Mono<Void> inEachSlot(List<Claim> claims, BiFunction<Integer, List<Claim>, Publisher<T>> request) {
        return inEachSlot(claims, Function.identity(), request).then();
    }

    /** Makes corrections with one request for each slot, like {@link #correctInGroups}. */
    <C extends Correction> Mono<List<Corrected>> correctInEachSlot(
            List<C> all, BiFunction<Integer, List<C>, Mono<List<Corrected>>> request) {
        return correctInGroups(all, one -> topology.slotOf(one.claim()), request);
    }

    /**
     * Makes corrections in groups with the same key, at the same time. A group that fails does not prevent the others.
     * Returns all results, in the order of the corrections.
     */
    static <C extends Correction, K> Mono<List<Corrected>> correctInGroups(
            List<? extends C> all, Function<C, K> key, BiFunction<K, List<C>, Mono<List<Corrected>>> request) {
        return Mono.defer(() -> {
            Map<K, List<Integer>> groups = new LinkedHashMap<>();
            for (int i = 0; i < all.size(); i++) {
                groups.computeIfAbsent(key.apply(all.get(i)), any -> new ArrayList<>())
                        .add(i);
            }
            Corrected[] results = new Corrected[all.size()];
            List<Mono<List<Corrected>>> requests = new ArrayList<>();
            groups.forEach((each, group) -> requests.add(request.apply(
                            each, group.stream().<C>map(all::get).toList())
                    .doOnNext(some -> {
                        for (int i = 0; i < group.size(); i++) {
                            results[group.get(i)] = some.get(i);
                        }
                    })));
            return Mono.whenDelayError(requests)
                    .onErrorMap(Exceptions::isMultiple, Errors::oneOf)
                    .then(Mono.fromSupplier(() -> List.of(results)));
        });
    }

    /**
     * Runs one command for all counts. While their slot is being migrated, Redis refuses that without doing anything;
     * then each count gets a command of its own.
     */
    <E, T> Flux<T> togetherOrEach(Collection<E> all, Mono<T> together, Function<E, Publisher<T>> each) {
        return together.flux().onErrorResume(Redirect::isCausedByTryAgain, e -> concurrently(all, each));
    }

    /**
     * Emits all replies. With several requests, the thread that subscribes also emits the replies that arrive while it
     * is subscribing; publishOn moves them to the right scheduler.
     */
    private <E, T> Flux<T> concurrently(Collection<E> all, Function<E, Publisher<T>> request) {
        return all.size() == 1
                ? Flux.from(request.apply(all.iterator().next()))
                : Flux.fromIterable(all)
                        .flatMapDelayError(request, MOST_CONCURRENT, 1)
                        .publishOn(deliverOn);
    }

    /** Returns the name of the node that owns all counts, the names of several nodes, or an empty text if unknown. */
    String namesOfOwners(List<Claim> claims) {
        String first = claims.isEmpty() ? "" : nameOfOwner(claims.get(0));
        boolean isOne = true;
        for (int i = 1; i < claims.size(); i++) {
            isOne &= nameOfOwner(claims.get(i)).equals(first);
        }
        if (isOne) {
            return first;
        }
        Set<String> names = new TreeSet<>();
        claims.forEach(claim -> names.add(nameOfOwner(claim)));
        return names.contains("") ? "" : String.join(" and ", names);
    }

    private String nameOfOwner(Claim claim) {
        return topology.nameOf(topology.slotOf(claim));
    }
}
