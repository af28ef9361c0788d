package io.github.spillgate.vertx;

import io.github.spillgate.http.Problem;
import io.vertx.core.VertxException;

/** What a request fails with that was denied, where {@link DenialWriter#failing()} says so. */
public final class DeniedException extends VertxException {

    private static final long serialVersionUID = 1L;

    /** Not kept where an exception is written to a stream. */
    private final transient Problem problem;

    DeniedException(Problem problem) {
        // Thrown for each denial, and nobody looks where.
        super("the request was denied with " + problem.status(), true);
        this.problem = problem;
    }

    /**
     * Returns why the request was denied.
     *
     * @return the problem, with its body as JSON
     */
    public Problem problem() {
        return problem;
    }
}
