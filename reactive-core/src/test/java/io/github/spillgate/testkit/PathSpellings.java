package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/** The spellings of a path with which a client may try to get a file past a rule. */
public final class PathSpellings {

    private static final List<String> SLASHES = List.of("""
            / // /// /./ /././ %2F %2f %2F/ /%2F /%2F%2F %252F %25252F \\ /\\ %5C %5c /%5C %255C /%2E/
            /%2e/ /%252E/ %2F.%2F /.%2F %2F%2E%2F /;x/ ;x/ /%3Bx/ /x/../ /x/..%2F /x/%2E%2E/ /x/%2e%2e%2f
            /x%2F..%2F /x/..\\ /x/..%5C /x/%252E%252E%252F /x/..%252F /../ /..%2F /..%5C /..\\ /..%252F
            /%2E%2E%2F /x/y/..%2F..%2F /x/y/..%2F..%2F..%2F /x%2Fy%2F..%2F..%2F..%2F..%2F /%20/ /%00/
            /%09/""".split("\\s+", -1));

    private PathSpellings() {}

    /**
     * Asserts that no spelling gets the file {@code private/a.txt} past a rule that allows one request for it.
     *
     * @param mount the start of the path, below which files are served
     * @param statusLine requests a path, and returns the status line of the response
     */
    public static void assertNoneIsServed(String mount, UnaryOperator<String> statusLine) {
        assertThat(statusLine.apply(mount + "private/a.txt")).contains(" 200 ");
        Map<String, String> statuses = new LinkedHashMap<>();
        of(mount, "private/a.txt", "public").forEach(path -> statuses.put(path, statusLine.apply(path)));
        assertThat(statuses.entrySet()).noneMatch(path -> path.getValue().contains(" 200 "));
        assertThat(statuses.values().stream().filter(status -> status.contains(" 429 ")))
                .hasSizeGreaterThan(50);
    }

    /**
     * Returns spellings of a path.
     *
     * @param mount the start of the path, below which files are served
     * @param file the rest of the path, with a slash in it
     * @param other a segment of which a rule excludes all paths
     */
    public static Set<String> of(String mount, String file, String other) {
        Set<String> all = new LinkedHashSet<>();
        String start = mount.substring(0, mount.length() - 1);
        int slash = file.indexOf('/');
        String directory = file.substring(0, slash);
        String name = file.substring(slash + 1);
        for (String first : SLASHES) {
            for (String second : SLASHES) {
                all.add(start + first + directory + second + name);
            }
            all.add(start + first + other + "/.." + first + file);
            all.add(start + "/" + other + first + "..%2F" + file);
        }
        for (String spelled :
                List.of(encoded(directory), encoded(encoded(directory)), directory.toUpperCase(Locale.ROOT))) {
            all.add(mount + spelled + "/" + name);
            all.add(mount + spelled + "%2F" + name);
        }
        for (String end : List.of(
                "/", "//", "/.", "%2F", "%2f", "%252F", "%5C", "\\", "/%2E", "%20", "%00", ";x", "?x", "%3F", "%23",
                ".")) {
            all.add(mount + file + end);
        }
        return all;
    }

    /** Encodes each character, although none needs it; of an encoded text only the percent signs. */
    private static String encoded(String text) {
        StringBuilder encoded = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            encoded.append(
                    c == '%' ? "%25" : text.indexOf('%') >= 0 ? String.valueOf(c) : "%" + Integer.toHexString(c));
        }
        return encoded.toString();
    }
}
