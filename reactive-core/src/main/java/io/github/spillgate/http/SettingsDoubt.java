package io.github.spillgate.http;

import io.github.spillgate.Decision;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.context.ContextView;

/** Says once what may be meant otherwise, and once what fails. */
final class SettingsDoubt implements RuleListener {

    private static final Logger LOG = Loggers.getLogger(SettingsDoubt.class);
    private static final String X_FORWARDED_FOR = "X-Forwarded-For";
    private static final int LONGEST = 200;

    private final boolean doubtsPeer;
    private final String remedy;
    private final AtomicBoolean peerTold = new AtomicBoolean();
    private final AtomicBoolean failureTold = new AtomicBoolean();

    SettingsDoubt(ClientAddress client, String remedy) {
        this.doubtsPeer = client.isPeer();
        this.remedy = remedy;
    }

    /** Looks at the request before anything is decided: it is on its own thread then, and nobody changes it meanwhile. */
    @Override
    public @Nullable Watch watch(List<Match> matches, ContextView context) {
        if (doubtsPeer
                && !peerTold.get()
                && !matches.get(0).request().headers(X_FORWARDED_FOR).isEmpty()
                && peerTold.compareAndSet(false, true)) {
            LOG.warn(
                    "a request with {} came in, and no proxy is trusted, so all who come through one share its limits:"
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

    /** What went wrong may quote what a client has sent. */
    @Override
    public void undecided(Match match, Throwable why) {
        if (failureTold.compareAndSet(false, true)) {
            LOG.warn(
                    "rule {} could not be decided, and others may not be either: {}",
                    match.rule().name(),
                    Quoted.text(why.toString(), LONGEST));
        }
    }
}
