package io.github.spillgate.examples.benchmark.simulate;

/** What has come of the decisions on one client, or on many. */
final class Tally {

    /** All that were asked for. */
    long asked;

    /** Those that the log denied. */
    long denied;

    /** Those that the log decided in another way than the count by brute force. */
    long wrongOfLog;

    /** What a counter made of the same requests. */
    final OfCounter fromFirstHit = new OfCounter();

    /** What a counter with its windows on the clock made of them. */
    final OfCounter aligned = new OfCounter();

    void add(Tally other) {
        asked += other.asked;
        denied += other.denied;
        wrongOfLog += other.wrongOfLog;
        fromFirstHit.add(other.fromFirstHit);
        aligned.add(other.aligned);
    }

    /** One counter, beside the log. */
    static final class OfCounter {

        long allowed;

        /** Those that the log denied. */
        long wronglyAllowed;

        /** Those that the log allowed. */
        long wronglyDenied;

        /** The most that it let through in any window. */
        long mostInAWindow;

        /** Requests at which the client was told to be over its limit and was not, where all requests are counted. */
        long wronglyOver;

        /** Requests at which it was over its limit and was not told to be. */
        long wronglyUnder;

        /** The sum of how far the estimate was off, as a part of the true number. */
        double off;

        void add(OfCounter other) {
            allowed += other.allowed;
            wronglyAllowed += other.wronglyAllowed;
            wronglyDenied += other.wronglyDenied;
            mostInAWindow = Math.max(mostInAWindow, other.mostInAWindow);
            wronglyOver += other.wronglyOver;
            wronglyUnder += other.wronglyUnder;
            off += other.off;
        }
    }
}
