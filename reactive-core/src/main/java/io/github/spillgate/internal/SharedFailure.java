package io.github.spillgate.internal;

/** The cause of failures that several requests share, such as a lost connection. A breaker counts them as one. */
public interface SharedFailure {

    /**
     * Returns whether an observer asks for the first time, about any of the failures that share this cause.
     *
     * @param observer counts the failures
     * @return whether it has not asked before
     */
    boolean isFirstFor(Object observer);
}
