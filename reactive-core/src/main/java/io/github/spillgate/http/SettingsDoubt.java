package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenUndecided;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.context.ContextView;

/**
 * Logs once what may be meant otherwise, and once each kind of failure: what failed, and what happens to the requests.
 */
final class SettingsDoubt implements RuleListener {

    private static final Logger LOG = Loggers.getLogger(SettingsDoubt.class);
    private static final String X_FORWARDED_FOR = "X-Forwarded-For";
    private static final String OWN_LIMITS = "; its own limits apply; see when-lookup-fails";
    private static final String OWN_COST = "; its own cost applies; see when-lookup-fails";
    private static final String DENIED = "; such requests are denied with 503";
    private static final int LONGEST = 200;

    private final boolean doubtsPeer;
    private final String remedy;
    private final AtomicBoolean peerTold = new AtomicBoolean();

    /** A few texts of this class, never more than the kinds there are. */
    private final Set<String> kindsTold = ConcurrentHashMap.newKeySet();

    SettingsDoubt(ClientAddress client, String remedy) {
        this.doubtsPeer = client.isPeer();
        this.remedy = remedy;
    }

    /** Inspects the request before the decision, while it is on its own thread and does not change. */
    @Override
    public @Nullable Watch watch(List<Match> matches, ContextView context) {
        if (doubtsPeer
                && !peerTold.get()
                && !matches.get(0).request().headers(X_FORWARDED_FOR).isEmpty()
                && peerTold.compareAndSet(false, true)) {
            LOG.warn(
                    "Request with {}, but no proxy is trusted: all clients behind a proxy share one address and its "
                            + "limits;"
                            + " expected {} if there is a proxy",
                    X_FORWARDED_FOR,
                    remedy);
        }
        return null;
    }

    @Override
    public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
        // What is decided is no doubt.
    }

    @Override
    public void lookupFailed(Match match, RuleLookupException why) {
        Rule rule = match.rule();
        String then = rule.whenLookupFails() == WhenLookupFails.UNDECIDED
                ? undecided(rule, "when-lookup-fails: undecided, ")
                : why.setting().equals(RuleLookupException.LIMITS) ? OWN_LIMITS : OWN_COST;
        if (kindsTold.add(why.setting() + then)) {
            Throwable cause = why.getCause();
            LOG.warn(
                    "rule {}: {}{}{}",
                    rule.name(),
                    why.getMessage(),
                    cause == null ? "" : ": " + Quoted.text(cause.toString(), LONGEST),
                    then);
        }
    }

    /** What went wrong may quote what a client has sent. */
    @Override
    public void undecided(Match match, Throwable why) {
        if (why instanceof RuleLookupException) {
            // It has been logged as that.
            return;
        }
        Rule rule = match.rule();
        String then = why instanceof ImpossibleVerdictException ? DENIED : undecided(rule, "");
        if (kindsTold.add(then)) {
            LOG.warn("rule {} could not be decided: {}{}", rule.name(), Quoted.text(why.toString(), LONGEST), then);
        }
    }

    private static String undecided(Rule rule, String setting) {
        if (rule.isShadow()) {
            return "; it is a shadow rule, so no request is affected";
        }
        return rule.whenUndecided() == WhenUndecided.ALLOW
                ? "; it lets such requests through (" + setting + "when-undecided: allow)"
                : DENIED + " (" + setting + "when-undecided: deny)";
    }
}
