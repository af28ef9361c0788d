package io.github.spillgate.store;

import java.util.function.LongSupplier;

/** Tells a store the time on its clock, which a test sets. */
public final class ClockForTests {

    private ClockForTests() {}

    public static void set(CompareAndWriteStore store, LongSupplier micros) {
        store.useClock(micros);
    }
}
