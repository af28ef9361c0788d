package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/**
 * Runs the tests that the documentation shows. Separate from {@link Snippets}, because not every module runs tests of
 * tests.
 */
public final class ShownTests {

    private ShownTests() {}

    /** Runs the tests of a class that has been compiled into this directory, all of which pass. */
    public static void assertPass(String type, Path directory) throws Exception {
        call(type, directory, tests -> {
            SummaryGeneratingListener listener = new SummaryGeneratingListener();
            LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                    .selectors(selectClass(tests))
                    .build();
            Launcher launcher = LauncherFactory.create();
            launcher.execute(request, new TestExecutionListener[] {listener});
            TestExecutionSummary summary = listener.getSummary();
            assertThat(summary.getFailures())
                    .extracting(TestExecutionSummary.Failure::getException)
                    .isEmpty();
            assertThat(summary.getTestsSucceededCount()).isPositive();
        });
    }

    /** Hands out a class that has been compiled into this directory. */
    public static void call(String type, Path directory, Use use) throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {url(directory)}, before)) {
            thread.setContextClassLoader(loader);
            use.of(loader.loadClass(type));
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    private static URL url(Path directory) throws IOException {
        return directory.toUri().toURL();
    }

    public interface Use {
        void of(Class<?> type) throws Exception;
    }
}
