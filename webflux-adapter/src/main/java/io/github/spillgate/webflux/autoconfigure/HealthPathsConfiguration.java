package io.github.spillgate.webflux.autoconfigure;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.boot.actuate.autoconfigure.web.server.ManagementPortType;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.web.PathMappedEndpoints;
import org.springframework.boot.actuate.endpoint.web.WebServerNamespace;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/** Finds the paths of the Actuator's health endpoint on the server of the application. */
@Configuration(proxyBeanMethods = false)
@ConditionalOnClass({PathMappedEndpoints.class, ManagementPortType.class})
class HealthPathsConfiguration {

    private static final EndpointId HEALTH = EndpointId.of("health");

    /** Runs after all beans exist: the endpoints are beans, and one of them, ours, needs the rules. */
    @Bean
    SmartInitializingSingleton spillgateHealthPaths(
            HealthRequests requests, ObjectProvider<PathMappedEndpoints> endpoints, Environment environment) {
        return () -> endpoints.ifAvailable(all -> requests.map(paths(all, ManagementPortType.get(environment))));
    }

    private static List<String> paths(PathMappedEndpoints endpoints, ManagementPortType port) {
        List<String> paths = new ArrayList<>();
        String path = cleaned(endpoints.getPath(HEALTH));
        if (path != null && port == ManagementPortType.SAME) {
            paths.add(path);
            paths.add(path + "/**");
        }
        if (path != null && port != ManagementPortType.DISABLED) {
            // Such as /livez. The server of the application has them even if the Actuator has its own server.
            paths.addAll(endpoints.getAdditionalPaths(WebServerNamespace.SERVER, HEALTH));
            // The Actuator does not respond to the root path, but the application may.
            paths.remove("/");
        }
        return paths;
    }

    /** Normalizes a path like the Actuator: a configured path may begin or end with an additional slash. */
    private static @Nullable String cleaned(@Nullable String path) {
        if (path == null) {
            return null;
        }
        String cleaned = path.replaceAll("/{2,}", "/").replaceAll("/$", "");
        return cleaned.isEmpty() ? null : cleaned;
    }
}
