package io.github.spillgate.spi;

import io.github.spillgate.Source;

/**
 * The moment at which a store has decided, by the clock of the server that counts. All usages of one reply share it.
 *
 * @param source the place where it decided
 * @param at the time, in milliseconds of that clock
 * @param stamp a number that orders replies of the same time, and distinguishes a decision from a reset then; 0 if
 *     there is none
 */
public record Reply(Source source, long at, long stamp) {

    /**
     * Creates a reply without a stamp.
     *
     * @param source the place where the store decided
     * @param at the time, in milliseconds
     */
    public Reply(Source source, long at) {
        this(source, at, 0);
    }
}
