package io.github.spillgate.examples.benchmark.measure;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;

/** What all threads together have allocated. */
final class Heap {

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private Heap() {}

    /** The bytes of all threads that live. Who has ended in between is not in it; pools of threads do not end while they work. */
    static long allocated() {
        return Arrays.stream(THREADS.getThreadAllocatedBytes(THREADS.getAllThreadIds()))
                .filter(bytes -> bytes > 0)
                .sum();
    }
}
