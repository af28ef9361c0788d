package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.lettuce.core.LettuceVersion;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.Version;
import java.security.CodeSource;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Checks that Lettuce can run on the Netty that is on the class path. */
final class NettyVersion {
    // Design notes.
    //
    // Lettuce 7 needs Netty 4.2, but only when it connects. With Netty 4.1, on which Vert.x 4 depends, a service would
    // start, and the limiter would take the missing class for an outage and decide locally for ever. One module of 4.1
    // beside others of 4.2 has the same effect.
    //
    // So the check uses the classes that Lettuce needs of the three modules that must not be older. Versions are only
    // for the message: a jar that holds a whole service may not have them.

    private static final String REMEDY = "expected Netty 4.2 in all modules, for example by importing"
            + " io.netty:netty-bom:4.2.17.Final before other BOMs, or by Vert.x 5, because Vert.x 4 brings Netty 4.1";

    private NettyVersion() {}

    /**
     * Checks the version, at the cost of a small buffer.
     *
     * @throws LimitStoreException if Lettuce could not connect
     */
    static void check() {
        try {
            // If both versions are on the class path, old classes are mixed with those that only the newer jar has.
            String used = place(Channel.class);
            String needed = place(MultiThreadIoEventLoopGroup.class);
            if (!needed.equals(used)) {
                throw unsuitable("netty-transport is there twice, also" + needed, null);
            }
            Objects.requireNonNull(NioIoHandler.newFactory());
            ByteBuf buffer = Unpooled.directBuffer(Long.BYTES);
            buffer.writeLong(1).release();
        } catch (LinkageError e) {
            throw unsuitable(e.toString(), e);
        }
    }

    private static LimitStoreException unsuitable(String why, @Nullable LinkageError e) {
        Map<String, Version> listed = Version.identify(NettyVersion.class.getClassLoader());
        return new LimitStoreException(
                Kind.REJECTED,
                "Lettuce " + LettuceVersion.getVersion()
                        + " does not run on the Netty that is on the class path, which is "
                        + module("netty-buffer", ByteBuf.class, listed)
                        + module("netty-common", Version.class, listed)
                        + module("netty-transport", Channel.class, listed) + REMEDY + " (" + why + ")",
                e);
    }

    private static String module(String name, Class<?> type, Map<String, Version> listed) {
        // The manifest is that of the jar in use; Netty's list may be of another jar.
        Package manifest = type.getPackage();
        String title = manifest.getImplementationTitle();
        String version = title != null && title.startsWith("Netty/") ? manifest.getImplementationVersion() : null;
        if (version == null && listed.containsKey(name)) {
            version = listed.get(name).artifactVersion();
        }
        return name + " " + (version == null ? "of an unknown version" : version) + place(type)
                + (type == Channel.class ? ": " : ", ");
    }

    private static String place(Class<?> type) {
        CodeSource source = type.getProtectionDomain().getCodeSource();
        return source == null ? "" : " (" + source.getLocation() + ")";
    }
}
