package io.github.spillgate.examples.benchmark.contender;

import java.util.List;

/** A limiter, configured and connected. */
public interface Contender extends AutoCloseable {

    /** Takes one permit for the key. The callback may run synchronously, or later on any thread. */
    void decide(String key, Answer answer);

    /**
     * Prepares a turn: does what the documentation of this contender requires once for each key. Redis is empty, or
     * unchanged since the end of the previous turn.
     */
    default void prepare(List<String> keys) {}

    /**
     * Returns the commands that this contender sent, with their cost, of those that Redis has counted. Redis also
     * counts commands that a script calls; the time of the script already includes theirs. So a contender that
     * sends only scripts sent just the scripts.
     */
    default CommandCalls.Sum sent(CommandCalls calls) {
        return calls.scripts();
    }

    @Override
    void close();
}
