package io.github.spillgate.vertx;

import io.github.spillgate.http.response.Problem;
import io.vertx.core.VertxException;

/** The failure of a denied request if {@link DenialWriter#failing()} is used. */
public final class DeniedException extends VertxException {

    private static final long serialVersionUID = 1L;

    /** Lost if the exception is serialized. */
    private final transient Problem problem;

    DeniedException(Problem problem) {
        // Without a stack trace: it is thrown for each denial, and would point here only.
        super("the request was denied with " + problem.status(), true);
        this.problem = problem;
    }

    /**
     * Returns the reason for the denial.
     *
     * @return the problem, with its body as JSON
     */
    public Problem problem() {
        return problem;
    }
}
