package io.github.spillgate.examples.benchmark.simulate;

/** The counts of decisions on one client or on many. */
final class SimulationCounts {

    /** All requests. */
    long asked;

    /** The requests that the log denied. */
    long denied;

    /** The requests on which the log and brute force differ. */
    long wrongOfLog;

    /** The counter with windows from the first hit. */
    final OfCounter fromFirstHit = new OfCounter();

    /** The counter with windows aligned to the clock. */
    final OfCounter aligned = new OfCounter();

    void add(SimulationCounts other) {
        asked += other.asked;
        denied += other.denied;
        wrongOfLog += other.wrongOfLog;
        fromFirstHit.add(other.fromFirstHit);
        aligned.add(other.aligned);
    }

    /** The counts of one counter, compared with the log. */
    static final class OfCounter {

        long allowed;

        /** Allowed requests that the log denied. */
        long wronglyAllowed;

        /** Denied requests that the log allowed. */
        long wronglyDenied;

        /** The most requests allowed in any window. */
        long mostInAWindow;

        void add(OfCounter other) {
            allowed += other.allowed;
            wronglyAllowed += other.wronglyAllowed;
            wronglyDenied += other.wronglyDenied;
            mostInAWindow = Math.max(mostInAWindow, other.mostInAWindow);
        }
    }
}
