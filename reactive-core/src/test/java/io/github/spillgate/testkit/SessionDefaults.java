package io.github.spillgate.testkit;

import java.time.Duration;
import org.awaitility.Awaitility;
import org.junit.platform.launcher.LauncherSession;
import org.junit.platform.launcher.LauncherSessionListener;
import reactor.core.scheduler.Schedulers;

/** What holds for all tests of a JVM. */
public final class SessionDefaults implements LauncherSessionListener {

    @Override
    public void launcherSessionOpened(LauncherSession session) {
        // Awaitility polls at once and then every 10 ms: its own 100 ms add up to minutes.
        Awaitility.setDefaultPollDelay(Duration.ZERO);
        Awaitility.setDefaultPollInterval(Duration.ofMillis(10));
        // A condition that is never met fails the test anyway; a busy machine may take more than the default of 10 s.
        Awaitility.setDefaultTimeout(Duration.ofMinutes(1));
        createSchedulers();
    }

    /**
     * Creates Reactor's shared schedulers. If two threads do so at once, one of them takes a lock, and BlockHound
     * reports that if the thread is an event loop's, in whichever test comes first.
     */
    static void createSchedulers() {
        Schedulers.parallel();
        Schedulers.boundedElastic();
    }
}
