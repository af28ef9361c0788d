package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.ClientForTests.Answer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A response as a page shows it, in the form in which {@code curl -i} prints it. */
public record ShownResponse(int status, Map<String, String> fields, String body) {

    private static final String STATUS_LINE = "HTTP/1.1 ";

    /** The responses that a page shows, in their order. */
    public static List<ShownResponse> on(List<String> texts) {
        return texts.stream()
                .filter(text -> text.startsWith(STATUS_LINE))
                .map(ShownResponse::of)
                .toList();
    }

    private static ShownResponse of(String text) {
        List<String> lines = text.lines().toList();
        Map<String, String> fields = new LinkedHashMap<>();
        int i = 1;
        for (; !lines.get(i).isEmpty(); i++) {
            String[] field = lines.get(i).split(": ", 2);
            fields.put(field[0], field[1]);
        }
        return new ShownResponse(
                Integer.parseInt(lines.get(0).substring(STATUS_LINE.length()).split(" ", 2)[0]),
                fields,
                String.join("\n", lines.subList(i + 1, lines.size())));
    }

    /** It is what a server has answered, up to what depends on the time. */
    public void assertIs(Answer answer) {
        assertThat(answer.status()).isEqualTo(status);
        Map<String, String> said = new LinkedHashMap<>();
        answer.fields().forEach((name, value) -> said.put(name, timeless(name, value)));
        Map<String, String> shown = new LinkedHashMap<>();
        fields.forEach((name, value) -> shown.put(name, timeless(name, value)));
        assertThat(said).containsExactlyInAnyOrderEntriesOf(shown);
        assertThat(timeless("", answer.body().stripTrailing())).isEqualTo(timeless("", body.stripTrailing()));
    }

    private static String timeless(String name, String text) {
        return switch (name) {
            case "X-RateLimit-Reset", "Retry-After" -> text.replaceAll("\\d+", "…");
            default -> text.replaceAll(";t=\\d+", ";t=…").replaceAll("\"retry-after\":\\d+", "\"retry-after\":…");
        };
    }
}
