package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.internal.Text;
import org.springframework.boot.cloud.CloudPlatform;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;
import reactor.util.Logger;
import reactor.util.Loggers;

/** The handling of forwarding headers by Spring Boot, before the limiter sees a request. */
final class ForwardHeadersStrategy {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);

    /** Boot's server. Reactor Netty itself may be on the class path for its client only. */
    private static final String REACTOR_NETTY = "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory";

    private static final int LONGEST_VALUE = 200;

    private ForwardHeadersStrategy() {}

    /**
     * Logs a warning if the strategy interferes with the limiter. With Reactor Netty the limiter sees the peer of the
     * connection, even if a header has replaced the address of the request; with other servers it does not.
     */
    static void warnIfMisleading(Environment environment) {
        String set = environment.getProperty("server.forward-headers-strategy");
        if (set == null) {
            // The default depends on the cloud platform.
            CloudPlatform platform = CloudPlatform.getActive(environment);
            if (platform != null && platform.isUsingForwardHeaders()) {
                warnIfForgeable("native (which is not set, but taken on " + platform + ")");
            }
        } else if (set.equalsIgnoreCase("framework")) {
            LOG.warn("server.forward-headers-strategy=framework removes the headers of proxies before the limiter sees"
                    + " them: expected native or none, and spillgate.client-address.header with"
                    + " spillgate.client-address.trusted-proxies");
        } else if (!set.equalsIgnoreCase("none")) {
            warnIfForgeable(Text.quote(set, LONGEST_VALUE));
        }
    }

    private static void warnIfForgeable(String strategy) {
        if (!ClassUtils.isPresent(REACTOR_NETTY, null)) {
            LOG.warn(
                    "server.forward-headers-strategy={} takes the client's address from a header that any client can"
                            + " write: expected none, and spillgate.client-address.header with"
                            + " spillgate.client-address.trusted-proxies",
                    strategy);
        }
    }
}
