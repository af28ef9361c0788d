package io.github.spillgate.examples.benchmark.contender;

/** Is told the answer to one decision; exactly one of its methods is called, once. */
public interface Answer {

    /** The contender has decided. */
    void decided(boolean allowed);

    /** Something else has decided in its place, so that it is not the contender who was measured. */
    void fellBack();

    /** Nobody has decided. */
    void failed(Throwable error);
}
