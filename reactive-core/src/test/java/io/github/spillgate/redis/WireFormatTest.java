package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.redis.Script.Purpose;
import io.github.spillgate.redis.ScriptReply.Status;
import io.github.spillgate.redis.ScriptRequest.Mode;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The constants of the script that decides, and those of the classes that encode its request and decode its reply. */
class WireFormatTest {

    private static final Pattern FIELD = Pattern.compile("I(\\d)");

    private final String script = new String(
            Script.readAll(UnaryOperator.identity()).get(Purpose.DECIDE).text(), StandardCharsets.UTF_8);

    @Test
    void aUsageHasTheSameLengthInTheScriptAndInTheReply() {
        String usage = constant("USAGE = '<(\\w+)'");
        assertThat(length(usage)).isEqualTo(ScriptReply.USAGE_LENGTH);
        assertThat(constant("REPLY_OF_ONE = '<(\\w+)'")).isEqualTo("I" + ScriptReply.TIME_LENGTH + usage);
    }

    @Test
    void theFastPathSkipsLimitsAndGroupsOfTheLengthsOfTheRequest() {
        String lengths = ScriptRequest.LIMIT_LENGTH + ", " + ScriptRequest.GROUP_LENGTH;
        assertThat(constant("LIMIT, GROUP = ([\\d, ]+) --")).isEqualTo(lengths);
    }

    @Test
    void theNumbersOfAStatusAreThoseOfTheEnum() {
        List<String> inOrder =
                Stream.of(Status.values()).map(Status::name).skip(1).toList();
        assertThat(script).contains("local " + String.join(", ", inOrder) + " = 1, 2, 3, 4\n");
    }

    @Test
    void theNumbersOfAModeAreThoseOfTheEnum() {
        assertThat(constant("TAKE, LEASE = ([\\d, ]+) --")).isEqualTo(Mode.TAKE.number + ", " + Mode.LEASE.number);
    }

    private String constant(String definition) {
        Matcher found = Pattern.compile("local [\\w, ]*" + definition).matcher(script);
        assertThat(found.find()).as(definition).isTrue();
        return found.group(1);
    }

    private static int length(String format) {
        return FIELD.matcher(format)
                .results()
                .mapToInt(field -> Integer.parseInt(field.group(1)))
                .sum();
    }
}
