package io.github.spillgate.http;

/** The rules that match a request cannot be one verdict, because their limits are too many or would share a count. */
final class ImpossibleVerdictException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    ImpossibleVerdictException(IllegalArgumentException why) {
        super(why.getMessage(), why);
    }
}
