package io.github.spillgate.fleet;

import io.github.spillgate.Limit;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/**
 * Limits that replace the configured ones of a limiter or a rule, in all instances, until an end.
 *
 * <pre>{@code
 * limiter.publish(Publication.of(Limit.perMinute(30)).comment("partner is overloaded"));
 * limiter.published().map(now -> limiter.publish(now.limits(Limit.perMinute(60))));
 * }</pre>
 *
 * <p>Immutable.
 *
 * @param limits the limits, 1 to 16
 * @param isShadow whether the rule only reports what it would deny, and denies nothing. A limiter has no such mode
 * @param comment the reason, for people: at most 200 characters, none of them a control character
 * @param until when it ends, at most 366 days from now; 30 days from now by default
 * @param version the version; 0 if it is not published. To publish a changed copy, keep the version of the value that
 *     it replaces: if another one was published since, nothing is published
 * @param isShared whether other instances apply it; false if it is not published, and if the store is in the memory of
 *     this process
 */
public record Publication(
        List<Limit> limits, boolean isShadow, String comment, Instant until, long version, boolean isShared) {

    private static final String EXAMPLE = "Limit.perMinute(30)";
    private static final int LONGEST_COMMENT = 200;
    private static final Duration LIFETIME = Duration.ofDays(30);

    /**
     * Creates a value.
     *
     * @param limits the limits
     * @param isShadow whether the rule denies nothing
     * @param comment the reason
     * @param until when it ends
     * @param version the version; 0 if it is not published
     * @param isShared whether other instances apply it
     * @throws IllegalArgumentException if a part is out of range
     */
    public Publication {
        limits = Checks.allPresent(limits, "limits", EXAMPLE);
        if (limits.isEmpty() || limits.size() > Bounds.MOST_CLAIMS) {
            throw new IllegalArgumentException(limits.size() + " limits are published: expected 1 to "
                    + Bounds.MOST_CLAIMS + ", for example Limit.perMinute(30)");
        }
        Checks.present(comment, "comment", "\"partner is overloaded\"");
        if (comment.length() > LONGEST_COMMENT
                || comment.codePoints()
                        .anyMatch(c -> Character.isISOControl(c) || Character.getType(c) == Character.SURROGATE)) {
            throw new IllegalArgumentException("comment " + Text.quote(comment)
                    + " is too long, or has a control character, or half of a character: expected at most "
                    + LONGEST_COMMENT
                    + " characters on one line, for example \"partner is overloaded\"");
        }
        Checks.present(until, "until", "Instant.now().plus(Duration.ofDays(30))");
        if (version < 0) {
            throw new IllegalArgumentException(
                    "version " + version + " is negative: expected that of a published value, or 0 for none");
        }
    }

    /**
     * Returns limits to publish for 30 days, for a limiter or a rule that has no published ones.
     *
     * @param limits the limits, 1 to 16
     * @return the value
     */
    public static Publication of(Limit... limits) {
        return of(Arrays.asList(Checks.some(limits, "limits", EXAMPLE)));
    }

    /**
     * Returns limits to publish, like {@link #of(Limit...)}.
     *
     * @param limits the limits, 1 to 16
     * @return the value
     */
    public static Publication of(Collection<Limit> limits) {
        return new Publication(
                Checks.allPresent(limits, "limits", EXAMPLE),
                false,
                "",
                Instant.ofEpochMilli(Time.millis()).plus(LIFETIME),
                0,
                false);
    }

    /**
     * Returns a copy with other limits.
     *
     * @param limits the limits, 1 to 16
     * @return the copy, with the same version
     */
    public Publication limits(Limit... limits) {
        return limits(Arrays.asList(limits));
    }

    /**
     * Returns a copy with other limits.
     *
     * @param limits the limits, 1 to 16
     * @return the copy, with the same version
     */
    public Publication limits(Collection<Limit> limits) {
        return new Publication(
                Checks.allPresent(limits, "limits", EXAMPLE), isShadow, comment, until, version, isShared);
    }

    /**
     * Returns a copy that is a dry run, or is not.
     *
     * @param isShadow whether the rule only reports what it would deny
     * @return the copy, with the same version
     */
    public Publication shadow(boolean isShadow) {
        return new Publication(limits, isShadow, comment, until, version, isShared);
    }

    /**
     * Returns a copy with another comment.
     *
     * @param comment the reason, at most 200 characters
     * @return the copy, with the same version
     */
    public Publication comment(String comment) {
        return new Publication(limits, isShadow, comment, until, version, isShared);
    }

    /**
     * Returns a copy with another end.
     *
     * @param until when it ends
     * @return the copy, with the same version
     */
    public Publication until(Instant until) {
        return new Publication(limits, isShadow, comment, until, version, isShared);
    }

    /**
     * Returns a copy that replaces another version.
     *
     * @param version the version of the value that is published now; 0 if there is none
     * @return the copy
     */
    public Publication version(long version) {
        return new Publication(limits, isShadow, comment, until, version, isShared);
    }

    /**
     * Returns when it was published, by the clock of the store.
     *
     * @return the time; 1970 if it is not published
     */
    public Instant since() {
        // The version is this time in microseconds, or a little more if the clock was set back.
        return Instant.ofEpochMilli(version / 1_000);
    }

    /** Returns the value for log messages, with an escaped comment. */
    @Override
    public String toString() {
        return limits + (isShadow ? " (shadow)" : "") + (version > 0 && !isShared ? " in this process only" : "")
                + ", version " + version + ", until " + until
                + (comment.isEmpty() ? "" : ": " + Text.quote(comment, LONGEST_COMMENT));
    }
}
