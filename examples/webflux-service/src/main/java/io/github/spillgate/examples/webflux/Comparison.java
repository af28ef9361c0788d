package io.github.spillgate.examples.webflux;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.DecisionListener;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.concurrent.atomic.LongAdder;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;

/**
 * Compares the limiter of this instance with two others, which decide on the same requests: one that fails open, as
 * many limiters on Redis do, and one that counts in this process only.
 */
@Component
final class Comparison implements DecisionListener, DisposableBean {

    /** The rule for the requests of the page is called playground, and so is its limit, followed by the window. */
    private static final String LIMIT = "playground-";

    private final Traffic traffic;
    private final RateLimiter failsOpen;
    private final RateLimiter eachProcess;
    private final LongAdder grantedLocally = new LongAdder();

    Comparison(Traffic traffic, LimitStore store, @Value("${spillgate.deadline:100ms}") Duration deadline) {
        this.traffic = traffic;
        failsOpen = RateLimiter.builder("fails-open")
                .store(store)
                .fallback(Fallback.allow())
                .deadline(deadline)
                .build();
        eachProcess = RateLimiter.builder("each-process")
                .store(LocalStore.bounded(100))
                .build();
    }

    @Override
    public void decided(String name, Decision decision, Duration took) {
        for (Usage usage : decision.limits()) {
            if (decision.isCharged() && decision.source() == Source.LOCAL) {
                grantedLocally.add(usage.cost());
            }
            if (usage.limit().name().startsWith(LIMIT)) {
                traffic.decided(usage.limit(), decision.isAllowed(), decision.at());
                Charge same = Charge.of(usage.key(), usage.limit());
                ask(failsOpen, same, traffic.allowedIfFailsOpen);
                ask(eachProcess, same, traffic.allowedByEachProcess);
            }
        }
    }

    private static void ask(RateLimiter limiter, Charge charge, Tally allowed) {
        limiter.tryAcquire(charge)
                .filter(Decision::isAllowed)
                .subscribe(decision -> allowed.add(decision.at()), error -> {});
    }

    /** Returns the number of permits that this instance has granted without the store. */
    long grantedLocally() {
        return grantedLocally.sum();
    }

    @Override
    public void destroy() {
        failsOpen.close();
        eachProcess.close();
    }
}
