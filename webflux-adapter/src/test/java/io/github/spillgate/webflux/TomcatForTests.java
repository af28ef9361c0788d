package io.github.spillgate.webflux;

import jakarta.servlet.Servlet;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http2.Http2Protocol;

/** A Tomcat with one servlet on a random port, with HTTP/1.1 and, without encryption, HTTP/2. */
final class TomcatForTests implements AutoCloseable {

    private final Tomcat tomcat;

    private TomcatForTests(Tomcat tomcat) {
        this.tomcat = tomcat;
    }

    static TomcatForTests start(Servlet servlet) {
        Tomcat tomcat = new Tomcat();
        Connector connector = new Connector();
        connector.setPort(0);
        connector.setProperty("address", "127.0.0.1");
        connector.addUpgradeProtocol(new Http2Protocol());
        try {
            tomcat.setBaseDir(Files.createTempDirectory("tomcat").toString());
            tomcat.setConnector(connector);
            Context context = tomcat.addContext("", null);
            Tomcat.addServlet(context, "service", servlet).setAsyncSupported(true);
            context.addServletMappingDecoded("/", "service");
            tomcat.start();
        } catch (LifecycleException e) {
            throw new IllegalStateException(e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return new TomcatForTests(tomcat);
    }

    int port() {
        return tomcat.getConnector().getLocalPort();
    }

    @Override
    public void close() {
        try {
            tomcat.stop();
            tomcat.destroy();
        } catch (LifecycleException e) {
            throw new IllegalStateException(e);
        }
    }
}
