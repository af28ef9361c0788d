package io.github.spillgate.http.settings;

import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.Spelling;
import java.util.List;
import java.util.Locale;

/** The methods of the IANA HTTP method registry that a request can have. */
final class RegisteredMethods {

    /** The methods of most services. An error message lists these. */
    private static final List<String> USUAL =
            List.of("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "TRACE", "CONNECT");

    private static final List<String> OTHERS = List.of("""
            ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL
            MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK
            UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL""".split("\\s+", -1));

    private RegisteredMethods() {}

    /** Rejects a method that is not registered; ignores case. */
    static void check(String method) {
        String name = method.toUpperCase(Locale.ROOT);
        if (USUAL.contains(name) || OTHERS.contains(name)) {
            return;
        }
        // Prefer the usual methods: PUT is a better guess than a WebDAV method at the same distance.
        String meant = Spelling.nearest(method, USUAL)
                .or(() -> Spelling.nearest(method, OTHERS))
                .map(nearest -> "did you mean " + nearest + "? Expected")
                .orElse("expected");
        throw new IllegalArgumentException("method " + Text.quote(method) + " is not registered for HTTP: " + meant
                + " one of " + String.join(", ", USUAL)
                + ", or another of the IANA HTTP method registry. Only rules in code can have custom methods");
    }
}
