package io.github.spillgate.internal.syntax;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The forms in which a handler of static resources may read the path of a request. Most paths have only their own. */
public final class PathForms {
    // Design notes.
    //
    // Such a handler decodes and cleans a path after the router has matched it: that of Spring once, that of Vert.x Web
    // twice. The request /static/%2Fprivate/a.txt gets the file private/a.txt, but its path does not match
    // /static/private/*. So a rule applies if its pattern matches any form, and excludes a path if all forms match.
    //
    // The handler resolves ".." against its own root, which rules do not know. With such a segment, which no browser
    // sends, the file may be any.

    private static final int MOST_DECODINGS = 2;
    private static final PathForms ONLY_ITS_OWN = new PathForms(List.of(), false);
    private static final PathForms ANY = new PathForms(List.of(), true);

    private final List<String> others;
    private final boolean isAnyPath;

    private PathForms(List<String> others, boolean isAnyPath) {
        this.others = others;
        this.isAnyPath = isAnyPath;
    }

    /**
     * Returns the forms of a path.
     *
     * @param path the path as the router matches it
     */
    public static PathForms of(String path) {
        return isPlain(path) ? ONLY_ITS_OWN : read(path);
    }

    /** Returns the other forms, without a slash at their end; the one that is decoded most often is first. */
    public List<String> others() {
        return others;
    }

    /** Returns whether the request may be for any path. */
    public boolean isAnyPath() {
        return isAnyPath;
    }

    private static boolean isPlain(String path) {
        int last = path.length() - 1;
        for (int i = 0; i <= last; i++) {
            char c = path.charAt(i);
            if (c == '%' || c == '\\' || (c == '/' && i > 0 && (i == last || path.charAt(i - 1) == '/'))) {
                return false;
            }
            if (c == '.' && i > 0 && path.charAt(i - 1) == '/') {
                return false;
            }
        }
        return true;
    }

    private static PathForms read(String path) {
        List<String> others = new ArrayList<>(2);
        String decoded = path;
        for (int i = 0; i < MOST_DECODINGS; i++) {
            decoded = decode(decoded);
            StringBuilder clean = new StringBuilder(decoded.length());
            for (String segment : decoded.replace('\\', '/').split("/", -1)) {
                if (segment.equals("..")) {
                    return ANY;
                }
                if (!segment.isEmpty() && !segment.equals(".")) {
                    clean.append('/').append(segment);
                }
            }
            String form = clean.toString();
            if (!form.equals(path) && !others.contains(form)) {
                others.add(0, form);
            }
        }
        return new PathForms(others, false);
    }

    /** Decodes once. What is not encoded correctly stays as it is. */
    private static String decode(String path) {
        if (path.indexOf('%') < 0) {
            return path;
        }
        byte[] bytes = path.getBytes(StandardCharsets.UTF_8);
        int length = 0;
        for (int i = 0; i < bytes.length; i++) {
            int high = bytes[i] == '%' && i + 2 < bytes.length ? Character.digit(bytes[i + 1], 16) : -1;
            int low = high < 0 ? -1 : Character.digit(bytes[i + 2], 16);
            if (low < 0) {
                bytes[length++] = bytes[i];
            } else {
                bytes[length++] = (byte) (high << 4 | low);
                i += 2;
            }
        }
        return new String(bytes, 0, length, StandardCharsets.UTF_8);
    }
}
