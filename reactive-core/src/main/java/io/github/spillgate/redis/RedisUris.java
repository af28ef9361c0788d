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

    /** A host with a port that is no number, which the parser takes as a name. An IPv6 address has more colons. */
    private static final Pattern HOST_WITH_PORT = Pattern.compile("[^:]*:[^:]*");

    private RedisUris() {}

    /** Parses the URI of one server. */
    static RedisURI parse(String text) {
        return parse(text, uri -> List.of(RedisURI.create(uri)), "redis://user:pass%40word@localhost:6379")
                .get(0);
    }

    /** Parses the URIs of some nodes of a cluster, separated by commas. */
    static List<RedisURI> parseCluster(String text) {
        return parse(
                text,
                nodes -> RedisClusterURIUtil.toRedisURIs(URI.create(nodes)),
                "redis://user:pass%40word@node-1:6379,node-2:6379");
    }

    private static List<RedisURI> parse(String text, Function<String, List<RedisURI>> parser, String example) {
        // Before a client is created from the URI, because that may fail with a bare NoClassDefFoundError.
        NettyVersion.check();
        try {
            List<RedisURI> uris = parser.apply(text);
            uris.forEach(RedisUris::checkHosts);
            return uris;
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("\"" + BEFORE_HOST.matcher(text).replaceFirst("$1…@")
                    + "\" is not the URI of a Redis: expected one, with special characters in a password as %XX, for"
                    + " example "
                    + example);
        }
    }

    private static void checkHosts(RedisURI uri) {
        String host = uri.getHost();
        if (host != null && HOST_WITH_PORT.matcher(host).matches()) {
            throw new IllegalArgumentException("the port is not a number");
        }
        uri.getSentinels().forEach(RedisUris::checkHosts);
    }
}
