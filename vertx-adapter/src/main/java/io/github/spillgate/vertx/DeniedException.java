package io.github.spillgate.vertx;

import io.github.spillgate.http.Problem;
import io.vertx.ext.web.handler.HttpException;

/** What a request fails with that was denied, where {@link DenialWriter#failing()} says so. */
public final class DeniedException extends HttpException {

    private static final long serialVersionUID = 1L;

    /** Not kept where an exception is written to a stream. */
    private final transient Problem problem;

    DeniedException(Problem problem) {
        super(problem.status());
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
