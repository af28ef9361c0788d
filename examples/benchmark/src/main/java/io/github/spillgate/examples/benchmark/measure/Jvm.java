package io.github.spillgate.examples.benchmark.measure;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;

/** What all threads of this process together have taken. */
final class Jvm {

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Jvm() {}

    /**
     * The bytes of all threads that live. Who has ended in between is not in it; pools of threads do not end while they
     * work.
     */
    static long allocated() {
        return Arrays.stream(THREADS.getThreadAllocatedBytes(THREADS.getAllThreadIds()))
                .filter(bytes -> bytes > 0)
                .sum();
    }

    /** The time of processors, in nanoseconds; the compiler and the collector of garbage are in it. */
    static long cpuNanos() {
        return SYSTEM.getProcessCpuTime();
    }
}
