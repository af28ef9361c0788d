package io.github.spillgate.webflux.autoconfigure;

import org.springframework.boot.cloud.CloudPlatform;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;
import reactor.util.Logger;
import reactor.util.Loggers;

/** What Spring Boot makes of the headers of proxies before the limiter sees a request. */
final class ForwardHeadersStrategy {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);

    /** Boot's server, and not Reactor Netty itself, which is there for its client, too. */
    private static final String REACTOR_NETTY = "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory";

    private static final int LONGEST = 200;

    private ForwardHeadersStrategy() {}

    /**
     * Says in the log what may be meant otherwise. Of Reactor Netty's connections we see the other end, whatever has
     * been made of the request; of those of other servers we do not.
     */
    static void doubt(Environment environment) {
        String strategy = strategy(environment);
        if (strategy.equalsIgnoreCase("framework")) {
            LOG.warn("server.forward-headers-strategy=framework removes the headers of proxies before the limiter sees"
                    + " them: expected native or none, and spillgate.client-address.header with "
                    + "spillgate.client-address.trusted-proxies");
        } else if (!strategy.equalsIgnoreCase("none") && !ClassUtils.isPresent(REACTOR_NETTY, null)) {
            LOG.warn(
                    "server.forward-headers-strategy={} takes the client's address from a header that any client can "
                            + "write:"
                            + " expected none, and spillgate.client-address.header with "
                            + "spillgate.client-address.trusted-proxies",
                    strategy.substring(0, Math.min(LONGEST, strategy.length())).replaceAll("[^ -~]", "?"));
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
}
