package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.github.spillgate.redis.Script.Purpose;
import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.nio.file.Files;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The length of the scripts. */
public class ScriptTest {

    private static final int KILOBYTE = 1_000;

    @ParameterizedTest
    @CsvSource({
        "docs/redis.md, each command carries its script",
        "docs/decisions/0037-missing-scripts-are-sent-by-eval.md, A new connection sends about",
    })
    void thePagesStateTheLengthOfTheScriptThatDecides(String page, String sentence) throws IOException {
        Matcher stated =
                Pattern.compile(sentence + ",? (\\d+) KB").matcher(Files.readString(Snippets.ROOT.resolve(page)));
        assertThat(stated.find()).as(sentence).isTrue();
        assertThat(Integer.parseInt(stated.group(1)) * KILOBYTE).isCloseTo(decide().length, withinPercentage(10));
    }

    /** Returns the text of the script that decides. */
    public static byte[] decide() {
        return Script.readAll(UnaryOperator.identity()).get(Purpose.DECIDE).text();
    }
}
