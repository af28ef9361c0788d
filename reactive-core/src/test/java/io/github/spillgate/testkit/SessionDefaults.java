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
        // If two threads create one of Reactor's shared schedulers at once, one disposes of its own, which takes a
        // lock. On an
        // event loop BlockHound reports that, in whichever test happens to come first.
        Schedulers.parallel();
        Schedulers.boundedElastic();
    }
}
