package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.response.RateLimitHeaders;
import java.net.http.HttpResponse;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.greenbytes.http.sfv.IntegerItem;
import org.greenbytes.http.sfv.ListElement;
import org.greenbytes.http.sfv.OuterList;
import org.greenbytes.http.sfv.Parser;
import org.greenbytes.http.sfv.StringItem;

/** The rate limit fields of a response, read by an independent parser. */
public final class RateLimitFields {

    private RateLimitFields() {}

    /** Returns the names of the rate limit fields that are present. */
    public static List<String> all(HttpResponse<?> response) {
        return RateLimitHeaders.all().names().stream()
                .filter(name -> response.headers().firstValue(name).isPresent())
                .toList();
    }

    /** Returns the value of a field that must occur once. */
    public static String field(HttpResponse<?> response, String name) {
        assertThat(response.headers().allValues(name)).as(name).hasSize(1);
        return response.headers().firstValue(name).orElseThrow();
    }

    /** Returns the limit names in {@code RateLimit}, in order. */
    public static List<String> names(HttpResponse<?> response) {
        return items(response, "RateLimit").stream().map(Map.Entry::getKey).toList();
    }

    /** Returns the items of a list field: the name and the parameters of each. */
    public static List<Map.Entry<String, Map<String, Long>>> items(HttpResponse<?> response, String name) {
        OuterList list = Parser.parseList(field(response, name));
        return list.get().stream().map(RateLimitFields::item).toList();
    }

    private static Map.Entry<String, Map<String, Long>> item(ListElement<?> element) {
        Map<String, Long> numbers = new HashMap<>();
        element.getParams().forEach((name, value) -> numbers.put(name, ((IntegerItem) value).getAsLong()));
        return Map.entry(((StringItem) element).get(), numbers);
    }
}
