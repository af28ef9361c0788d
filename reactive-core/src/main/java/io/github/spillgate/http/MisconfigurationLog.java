package io.github.spillgate.http;

import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import java.util.concurrent.atomic.AtomicBoolean;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * Logs possible misconfigurations: a forwarding header although no proxy is trusted, once; and failures, with what
 * happens to the requests, at most once a minute for each rule and cause.
 */
final class MisconfigurationLog {

    private static final Logger LOG = Loggers.getLogger(MisconfigurationLog.class);
    private static final String X_FORWARDED_FOR = "X-Forwarded-For";
    private static final String OWN_LIMITS = "; its own limits apply; see when-lookup-fails";
    private static final String OWN_COST = "; its own cost applies; see when-lookup-fails";
    private static final String DENIED = "; such requests are denied with 503";
    private static final int LONGEST = 200;

    private final boolean trustsNoProxy;
    private final String remedy;
    private final AtomicBoolean isProxyLogged = new AtomicBoolean();
    private final LoggedCauses loggedCauses = new LoggedCauses(Time::nanos);

    MisconfigurationLog(ClientAddress client, String remedy) {
        this.trustsNoProxy = client.isPeer();
        this.remedy = remedy;
    }

    /** Checks whether a proxy may have forwarded the request although none is trusted. */
    void inspect(Request request) {
        if (trustsNoProxy
                && !isProxyLogged.get()
                && !request.headers(X_FORWARDED_FOR).isEmpty()
                && isProxyLogged.compareAndSet(false, true)) {
            LOG.warn(
                    "Request with {}, but no proxy is trusted: all clients behind a proxy share one address and its"
                            + " limits; expected {} if there is a proxy",
                    X_FORWARDED_FOR,
                    remedy);
        }
    }

    void lookupFailed(Rule rule, RuleLookupException why) {
        String consequence = rule.whenLookupFails() == WhenLookupFails.UNDECIDED
                ? consequence(rule, "when-lookup-fails: undecided, ")
                : why.setting().equals(RuleLookupException.LIMITS) ? OWN_LIMITS : OWN_COST;
        Throwable cause = why.getCause();
        if (loggedCauses.add(rule.name() + " " + why.setting() + consequence, cause)) {
            LOG.warn(
                    "rule {}: {}{}{}",
                    rule.name(),
                    why.getMessage(),
                    cause == null ? "" : ": " + Text.quote(cause.toString(), LONGEST),
                    consequence);
        }
    }

    /** The error is quoted, because its message may contain what a client has sent. */
    void undecided(Rule rule, Throwable why) {
        if (why instanceof RuleLookupException) {
            // Already logged as a failed lookup.
            return;
        }
        boolean isOfAllRules = why instanceof RequestDecision.ImpossibleVerdictException;
        String consequence = isOfAllRules ? DENIED : consequence(rule, "");
        if (loggedCauses.add((isOfAllRules ? "" : rule.name()) + consequence, why)) {
            LOG.warn(
                    "rule {} could not be decided: {}{}",
                    rule.name(),
                    Text.quote(why.toString(), LONGEST),
                    consequence);
        }
    }

    private static String consequence(Rule rule, String setting) {
        if (rule.isShadow()) {
            return "; it is a shadow rule, so no request is affected";
        }
        return rule.whenUndecided() == WhenUndecided.ALLOW
                ? "; it lets such requests through (" + setting + "when-undecided: allow)"
                : DENIED + " (" + setting + "when-undecided: deny)";
    }
}
