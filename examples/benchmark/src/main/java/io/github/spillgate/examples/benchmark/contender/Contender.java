package io.github.spillgate.examples.benchmark.contender;

import java.util.List;

/** One limiter, set up and connected. */
public interface Contender extends AutoCloseable {

    /** Takes one permit for the key. The answer may come at once, or later on any thread. */
    void decide(String key, Answer answer);

    /**
     * Makes ready for a turn: does what this contender's documentation asks for once for each key. Redis is empty then,
     * or holds what it held at the end of the turn before.
     */
    default void prepare(List<String> keys) {}

    /**
     * Tells how many commands reached Redis from outside, for this contender's decisions, of those that Redis has
     * counted, and what they cost. Redis counts what a script calls as well, beside the script, whose time has it in
     * already; so a contender that sends nothing but scripts sent just the scripts.
     */
    default CommandCalls.Sum sent(CommandCalls calls) {
        return calls.scripts();
    }

    @Override
    void close();
}
