package io.github.spillgate.fleet;

import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** A value was not published, or not withdrawn, because another one is published than the caller has seen. */
public final class PublicationConflictException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final transient @Nullable Publication present;

    /**
     * Creates an exception.
     *
     * @param name the name of the limiter, and of the rule
     * @param version the version that the caller has seen; 0 for none
     * @param present what is published; null for nothing
     */
    public PublicationConflictException(String name, long version, @Nullable Publication present) {
        super((present == null
                        ? "nothing that this instance understands is published for " + name
                        : name + " has " + present)
                + ": expected version " + version
                + ", which the caller has seen; read what is published, and try again with its version, for"
                + " example limiter.published().map(now -> now.limits(limits))");
        this.present = present;
    }

    /**
     * Returns what is published.
     *
     * @return the present value; empty if nothing is published
     */
    public Optional<Publication> present() {
        return Optional.ofNullable(present);
    }
}
