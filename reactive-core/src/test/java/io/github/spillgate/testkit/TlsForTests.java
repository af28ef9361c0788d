package io.github.spillgate.testkit;

import io.netty.handler.ssl.JdkSslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;

/**
 * The TLS settings of a test server, and the certificates of both ends, signed by an authority for tests only.
 *
 * <p>They come from the {@code keytool} of the JDK, once per JVM, and are deleted with it. What a server or a client
 * reads is written as PEM.
 */
public final class TlsForTests {

    private static final String PASSWORD = "changeit";
    private static final String AUTHORITY = "authority";
    private static final String SERVER = "server";
    private static final String ELSEWHERE = "elsewhere";
    private static final String CLIENT = "client";

    private static @Nullable Path certificates;

    private final Path directory;
    private final String server;
    private final boolean asksClients;

    private TlsForTests(String server, boolean asksClients) {
        this.directory = directory();
        this.server = server;
        this.asksClients = asksClients;
    }

    /** A server with a certificate for {@code localhost} and {@code 127.0.0.1} that accepts clients without one. */
    public static TlsForTests ofServer() {
        return new TlsForTests(SERVER, false);
    }

    /** A server with a certificate for {@code redis.example}. */
    public static TlsForTests ofServerElsewhere() {
        return new TlsForTests(ELSEWHERE, false);
    }

    /** A server that requires a certificate of its clients too. */
    public static TlsForTests ofBoth() {
        return new TlsForTests(SERVER, true);
    }

    public File authority() {
        return certificate(AUTHORITY);
    }

    public File clientCertificate() {
        return certificate(CLIENT);
    }

    /** The key of that client, PKCS#8 without a password. */
    public File clientKey() {
        return key(CLIENT);
    }

    /** Returns how a server listens that accepts TLS only. Its test client does not verify the host name. */
    RedisProcess.Listening listening() {
        try {
            JdkSslContext context = (JdkSslContext) SslContextBuilder.forClient()
                    .sslProvider(SslProvider.JDK)
                    .trustManager(authority())
                    .keyManager(clientCertificate(), clientKey())
                    .build();
            return new RedisProcess.Listening(
                    "rediss", this::options, context.context().getSocketFactory());
        } catch (SSLException e) {
            throw new IllegalStateException(e);
        }
    }

    private List<String> options(int port) {
        List<String> options = new ArrayList<>(List.of("--port", "0", "--tls-port", Integer.toString(port)));
        options.addAll(List.of("--tls-cert-file", certificate(server).toString()));
        options.addAll(List.of("--tls-key-file", key(server).toString()));
        options.addAll(List.of("--tls-ca-cert-file", authority().toString()));
        options.addAll(List.of("--tls-auth-clients", asksClients ? "yes" : "no"));
        return options;
    }

    private File certificate(String name) {
        return directory.resolve(name + ".crt").toFile();
    }

    private File key(String name) {
        return directory.resolve(name + ".key").toFile();
    }

    private static synchronized Path directory() {
        Path known = certificates;
        if (known == null) {
            known = RedisProcess.Leftovers.newDirectory("tls");
            make(known, AUTHORITY, "bc:critical=ca:true", List.of());
            List<String> byAuthority = List.of("-signer", AUTHORITY);
            make(known, SERVER, "san=dns:localhost,ip:127.0.0.1", byAuthority);
            make(known, ELSEWHERE, "san=dns:redis.example", byAuthority);
            make(known, CLIENT, "eku=clientAuth", byAuthority);
            try {
                KeyStore store = KeyStore.getInstance(known.resolve("all.p12").toFile(), PASSWORD.toCharArray());
                for (String name : List.of(AUTHORITY, SERVER, ELSEWHERE, CLIENT)) {
                    byte[] certificate = store.getCertificate(name).getEncoded();
                    write(known.resolve(name + ".crt"), "CERTIFICATE", certificate);
                    byte[] key = store.getKey(name, PASSWORD.toCharArray()).getEncoded();
                    write(known.resolve(name + ".key"), "PRIVATE KEY", key);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e.getMessage(), e);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("no certificates for tests: " + e.getMessage(), e);
            }
            certificates = known;
        }
        return known;
    }

    /** Makes a key and its certificate, self-signed if the further arguments name no signer. */
    private static void make(Path directory, String name, String extension, List<String> more) {
        // The JVM of keytool lives for half a second.
        String options = "-J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -genkeypair -storetype PKCS12 -keyalg EC"
                + " -groupname secp256r1 -startdate -1d -validity 30 -storepass " + PASSWORD + " -alias " + name
                + " -dname CN=" + name + " -ext " + extension;
        String keytool =
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        List<String> command = new ArrayList<>(List.of(keytool));
        command.addAll(List.of(options.split(" ")));
        command.addAll(List.of("-keystore", directory.resolve("all.p12").toString()));
        command.addAll(more);
        RedisProcess.run("keytool for " + name, command);
    }

    private static void write(Path file, String what, byte[] encoded) throws IOException {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(encoded);
        Files.writeString(file, "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n");
    }
}
