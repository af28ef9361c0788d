package io.github.spillgate.examples.benchmark.contender;

/** The callback of one decision. Exactly one of the methods is called, once. */
public interface Answer {

    /** The contender has decided. */
    void decided(boolean allowed);

    /** A fallback has decided, so the contender itself was not measured. */
    void fellBack();

    /** The decision has failed. */
    void failed(Throwable error);
}
