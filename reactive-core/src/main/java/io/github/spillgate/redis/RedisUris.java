package io.github.spillgate.redis;

import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterURIUtil;
import java.net.URI;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Pattern;

/** Parser of the URIs of Redis servers. Its error messages contain no password. */
final class RedisUris {

    /** The scheme and everything up to the last @, which may be a password, across line breaks. */
    private static final Pattern BEFORE_HOST = Pattern.compile("^([\\w+.-]+://)?.*@", Pattern.DOTALL);

    private RedisUris() {}

    /** Parses the URI of one server. */
    static RedisURI parse(String text) {
        return parse(text, RedisURI::create, "redis://user:pass%40word@localhost:6379");
    }

    /** Parses the URIs of some nodes of a cluster, separated by commas. */
    static List<RedisURI> parseCluster(String text) {
        return parse(
                text,
                nodes -> RedisClusterURIUtil.toRedisURIs(URI.create(nodes)),
                "redis://user:pass%40word@node-1:6379,node-2:6379");
    }

    private static <T> T parse(String text, Function<String, T> parser, String example) {
        // Before a client is created from the URI, because that may fail with a bare NoClassDefFoundError.
        NettyVersion.check();
        try {
            return parser.apply(text);
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("\"" + BEFORE_HOST.matcher(text).replaceFirst("$1…@")
                    + "\" is no URI of a Redis: expected one, with what is special in a password as %XX, for example "
                    + example);
        }
    }
}
