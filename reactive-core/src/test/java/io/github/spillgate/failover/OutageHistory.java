package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.failover.AdmissionOracle.Member;
import io.github.spillgate.failover.AdmissionOracle.Request;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.testkit.VirtualTime;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Random;
import reactor.core.Disposable;

/**
 * A random history of several instances on a store that loses its data, in virtual time. Connections stall, lose
 * replies, are late or fail; instances die, and new ones start; decisions are refunded. An {@link AdmissionOracle}
 * checks each grant. All that is random follows from one seed.
 */
final class OutageHistory {

    private final VirtualTime time;
    private final Random random;
    private final Plan plan;
    private final LossyStore remote;
    private final AdmissionOracle oracle;
    private final List<Instance> instances = new ArrayList<>();
    private final IdentityHashMap<Request, Disposable> waiting = new IdentityHashMap<>();

    /**
     * What happens in a history.
     *
     * @param limit the limit of all requests
     * @param instances the number of instances
     * @param faulty whether connections fail
     * @param dying whether instances die
     * @param losing whether the store loses its data
     */
    record Plan(Limit limit, int instances, boolean faulty, boolean dying, boolean losing) {}

    OutageHistory(VirtualTime time, Plan plan, Random random) {
        this.time = time;
        this.plan = plan;
        this.random = random;
        this.remote = new LossyStore(time);
        this.oracle = new AdmissionOracle(plan.limit, time::millis);
        for (int i = 0; i < plan.instances; i++) {
            instances.add(new Instance(oracle.newMember()));
            time.passMillis(random.nextInt(3));
        }
    }

    /** Lets time pass for some windows, and then until everything is reconciled. */
    void run(long millis) {
        instances.forEach(Instance::pauseBeforeChanges);
        if (random.nextBoolean()) {
            // All instances know of each other.
            time.passMillis(Fleet.INTERVAL.toMillis());
        }
        long end = time.millis() + millis;
        while (time.millis() < end) {
            step();
            time.passMillis(pause());
            oracle.check();
        }
        end();
    }

    private int pause() {
        return switch (random.nextInt(20)) {
            case 0 -> random.nextInt((int) Math.min(1_500, plan.limit.window().toMillis()));
            case 1, 2, 3, 4, 5 -> 0;
            default -> random.nextInt(40);
        };
    }

    private void step() {
        Instance instance = instances.get(random.nextInt(instances.size()));
        switch (random.nextInt(24)) {
            case 0, 1 -> {
                if (plan.faulty) {
                    instance.link.change(random);
                }
            }
            case 2, 3 -> instance.link.up();
            case 4, 5 -> instance.refundOne();
            case 6 -> instance.cancelOne();
            case 7 -> {
                if (plan.losing) {
                    loseData();
                }
            }
            case 8 -> {
                if (plan.dying && random.nextInt(3) == 0) {
                    instance.die();
                    Instance another = new Instance(oracle.newMember());
                    another.pauseBeforeChanges();
                    instances.set(instances.indexOf(instance), another);
                }
            }
            case 9 -> {
                if (plan.faulty && random.nextInt(3) == 0) {
                    instances.forEach(one -> one.link.mode(Mode.DOWN));
                }
            }
            case 10 -> instances.forEach(one -> one.link.up());
            case 11 -> instance.acquire(anyKey(), (int) plan.limit.permits() / 2 + 1);
            default -> instance.acquireSome();
        }
    }

    private String anyKey() {
        return random.nextInt(4) == 0 ? "other" : "key";
    }

    private void loseData() {
        if (random.nextInt(3) > 0) {
            remote.loseAll();
            oracle.storeLoses(key -> true);
        } else {
            String name = anyKey();
            remote.lose(name);
            oracle.storeLoses(key -> key.name.equals(name));
        }
    }

    private void end() {
        SimulatedInstance.reconcile(time, instances, 10, oracle::check);
        instances.forEach(Instance::acquireSome);
        time.passMillis(SimulatedInstance.DEADLINE.toMillis() + 1);
        oracle.check();
        SimulatedInstance.close(time, instances);
    }

    /** One process. */
    final class Instance extends SimulatedInstance {

        private final Member member;

        private Instance(Member member) {
            super(remote, member, new LocalFallback(100, time), plan.limit);
            this.member = member;
        }

        private void pauseBeforeChanges() {
            if (random.nextBoolean()) {
                link.pauseBeforeChanges(random, 50);
            }
        }

        private void acquireSome() {
            int together = 1 + random.nextInt(12);
            for (int i = 0; i < together; i++) {
                acquire(anyKey(), 1 + random.nextInt((int) Math.min(3, plan.limit.permits())));
            }
        }

        private void acquire(String key, int permits) {
            Request request = member.newRequest(key, permits);
            waiting.put(
                    request,
                    limiter.tryAcquire(Charge.of(key).permits(permits))
                            .contextWrite(context -> context.put(Request.class, request))
                            .subscribe(request::decided));
        }

        private void refundOne() {
            List<Request> granted = member.requests(Request::counts);
            if (!granted.isEmpty()) {
                refund(granted.get(random.nextInt(granted.size())));
            }
        }

        private void refund(Request request) {
            request.refund();
            limiter.refund(request.decision()).subscribe(done -> {}, error -> {});
        }

        private void cancelOne() {
            List<Request> undecided = member.requests(Request::isUndecided);
            if (!undecided.isEmpty()) {
                Request request = undecided.get(random.nextInt(undecided.size()));
                request.cancel();
                waiting.get(request).dispose();
            }
        }

        private void die() {
            member.dies();
            link.cut();
            store.closeLater().subscribe();
        }
    }
}
