package io.github.spillgate.testkit;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.jspecify.annotations.Nullable;

/**
 * The TLS settings of a test server, and the certificates of both ends, signed by an authority for tests only.
 *
 * <p>They come from the JDK's own {@code keytool}, once per JVM, and are gone with it; what a server or a client reads
 * is written as PEM.
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

    /** A server that says that it is {@code redis.example}, wherever it is. */
    public static TlsForTests ofServerElsewhere() {
        return new TlsForTests(ELSEWHERE, false);
    }

    /** A server that wants a certificate of its clients too. */
    public static TlsForTests ofBoth() {
        return new TlsForTests(SERVER, true);
    }

    /** The certificate of the authority. */
    public File authority() {
        return certificate(AUTHORITY);
    }

    /** The certificate of a client. */
    public File clientCertificate() {
        return certificate(CLIENT);
    }

    /** The key of that client, PKCS#8 without a password. */
    public File clientKey() {
        return key(CLIENT);
    }

    /** How a server listens that speaks TLS alone. */
    RedisProcess.Listening listening() {
        return new RedisProcess.Listening() {
            @Override
            public String scheme() {
                return "rediss";
            }

            @Override
            public List<String> options(int port) {
                return List.of(
                        "--port",
                        "0",
                        "--tls-port",
                        Integer.toString(port),
                        "--tls-cert-file",
                        certificate(server).toString(),
                        "--tls-key-file",
                        key(server).toString(),
                        "--tls-ca-cert-file",
                        authority().toString(),
                        "--tls-auth-clients",
                        asksClients ? "yes" : "no");
            }

            @Override
            public Socket socket() throws IOException {
                try {
                    return context().getSocketFactory().createSocket();
                } catch (GeneralSecurityException e) {
                    throw new IOException(e);
                }
            }
        };
    }

    /** The TLS context of the client. It does not verify the host name of the test server. */
    private SSLContext context() throws GeneralSecurityException, IOException {
        KeyStore all = store(directory);
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        own.setKeyEntry(
                CLIENT,
                all.getKey(CLIENT, PASSWORD.toCharArray()),
                PASSWORD.toCharArray(),
                all.getCertificateChain(CLIENT));
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, PASSWORD.toCharArray());
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry(AUTHORITY, all.getCertificate(AUTHORITY));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
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
            try {
                known = RedisProcess.Leftovers.newDirectory("tls");
                make(known, AUTHORITY, "bc:critical=ca:true", false);
                make(known, SERVER, "san=dns:localhost,ip:127.0.0.1", true);
                make(known, ELSEWHERE, "san=dns:redis.example", true);
                make(known, CLIENT, "eku=clientAuth", true);
                KeyStore store = store(known);
                for (String name : List.of(AUTHORITY, SERVER, ELSEWHERE, CLIENT)) {
                    write(
                            known.resolve(name + ".crt"),
                            "CERTIFICATE",
                            store.getCertificate(name).getEncoded());
                    write(
                            known.resolve(name + ".key"),
                            "PRIVATE KEY",
                            store.getKey(name, PASSWORD.toCharArray()).getEncoded());
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

    /** Makes a key and its certificate, which it signs itself or the authority does. */
    private static void make(Path directory, String name, String extension, boolean byAuthority) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                // It lives for half a second.
                "-J-XX:TieredStopAtLevel=1",
                "-J-XX:+UseSerialGC",
                "-genkeypair",
                "-keystore",
                directory.resolve("all.p12").toString(),
                "-storetype",
                "PKCS12",
                "-storepass",
                PASSWORD,
                "-alias",
                name,
                "-dname",
                "CN=" + name + " of Spillgate's tests",
                "-keyalg",
                "EC",
                "-groupname",
                "secp256r1",
                "-startdate",
                "-1d",
                "-validity",
                "30",
                "-ext",
                extension));
        if (byAuthority) {
            command.addAll(List.of("-signer", AUTHORITY));
        }
        Process keytool = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        RedisProcess.awaitEnd(keytool);
        if (keytool.exitValue() != 0) {
            throw new IOException("keytool made no certificate for " + name + "; it said: " + said);
        }
    }

    private static KeyStore store(Path directory) throws GeneralSecurityException, IOException {
        return KeyStore.getInstance(directory.resolve("all.p12").toFile(), PASSWORD.toCharArray());
    }

    private static void write(Path file, String what, byte[] encoded) throws IOException {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(encoded);
        Files.writeString(file, "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n");
    }
}
