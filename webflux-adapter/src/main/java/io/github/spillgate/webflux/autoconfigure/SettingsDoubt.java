package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Match;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.ForwardingHeader;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import org.springframework.boot.cloud.CloudPlatform;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Says once what may be meant otherwise, and what fails. */
final class SettingsDoubt implements RuleListener {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);
    private static final String X_FORWARDED_FOR = "X-Forwarded-For";

    /** Boot's server, and not Reactor Netty itself, which is there for its client, too. */
    private static final String REACTOR_NETTY = "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory";

    private static final int LONGEST = 200;

    private final boolean doubtsPeer;
    private final AtomicBoolean peerTold = new AtomicBoolean();
    private final AtomicBoolean failureTold = new AtomicBoolean();

    SettingsDoubt(SpillgateProperties settings, Environment environment) {
        doubtsPeer = settings.clientAddress().header() == ForwardingHeader.NONE;
        doubtStrategy(strategy(environment));
    }

    /** Of Reactor Netty's connections we see the other end, whatever has been made of the request; of those of other servers we do not. */
    private static void doubtStrategy(String strategy) {
        if (strategy.equalsIgnoreCase("framework")) {
            LOG.warn(
                    "server.forward-headers-strategy=framework takes the headers of proxies away before the limiter sees"
                            + " them: expected native or none, and spillgate.client-address.header with the proxies that are trusted");
        } else if (!strategy.equalsIgnoreCase("none") && !ClassUtils.isPresent(REACTOR_NETTY, null)) {
            LOG.warn(
                    "server.forward-headers-strategy={} takes the address of a client from a header that anybody can write:"
                            + " expected none, and spillgate.client-address.header with the proxies that are trusted",
                    fitForALog(strategy));
        }
    }

    /** Which Spring Boot follows: on a cloud platform it chooses one by itself, unless it has been told. */
    private static String strategy(Environment environment) {
        String set = environment.getProperty("server.forward-headers-strategy");
        if (set != null) {
            return set;
        }
        CloudPlatform platform = CloudPlatform.getActive(environment);
        return platform != null && platform.isUsingForwardHeaders()
                ? "native (which is not set, but taken on " + platform + ")"
                : "none";
    }

    @Override
    public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
        if (doubtsPeer
                && !peerTold.get()
                && !match.request().headers(X_FORWARDED_FOR).isEmpty()
                && peerTold.compareAndSet(false, true)) {
            LOG.warn(
                    "a request with {} came in, and no proxy is trusted, so all who come through one share its limits: expected"
                            + " spillgate.client-address.header and trusted-proxies if there is a proxy",
                    X_FORWARDED_FOR);
        }
    }

    @Override
    public void undecided(Match match, Throwable why) {
        if (failureTold.compareAndSet(false, true)) {
            LOG.warn(
                    "rule {} could not be decided, and others may not be either: {}",
                    match.rule().name(),
                    fitForALog(why.toString()));
        }
    }

    /** What went wrong may quote what a client has sent. */
    private static String fitForALog(String text) {
        return text.substring(0, Math.min(LONGEST, text.length())).replaceAll("[^ -~]", "?");
    }
}
