package io.github.spillgate.webflux;

import java.util.List;
import reactor.blockhound.BlockHound;
import reactor.blockhound.integration.BlockHoundIntegration;

/**
 * Lets Tomcat take its locks on threads that must not block. An error of BlockHound within such a lock leaves it locked
 * for ever, and Tomcat then serves no request and ends none.
 */
public final class TomcatMayBlock implements BlockHoundIntegration {

    @Override
    public void applyTo(BlockHound.Builder builder) {
        builder.allowBlockingCallsInside("org.apache.coyote.AbstractProcessor", "action");
        for (String method : List.of("isReady", "write", "flush", "close")) {
            builder.allowBlockingCallsInside("org.apache.catalina.connector.CoyoteOutputStream", method);
        }
        for (String method : List.of("complete", "dispatch")) {
            builder.allowBlockingCallsInside("org.apache.catalina.core.AsyncContextImpl", method);
        }
    }
}
