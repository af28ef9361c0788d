package io.github.spillgate.examples.benchmark.measure;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;

/** The resources used by all threads of this process. */
final class Jvm {

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Jvm() {}

    /**
     * Returns the bytes allocated by all live threads. Threads that have ended are missing; those of busy pools do not
     * end.
     */
    static long allocated() {
        return Arrays.stream(THREADS.getThreadAllocatedBytes(THREADS.getAllThreadIds()))
                .filter(bytes -> bytes > 0)
                .sum();
    }

    /** Returns the processor time in nanoseconds, including the compiler and the garbage collector. */
    static long cpuNanos() {
        return SYSTEM.getProcessCpuTime();
    }
}
