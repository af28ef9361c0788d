package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Limit;
import org.springframework.boot.context.properties.ConfigurationPropertiesBinding;
import org.springframework.core.convert.converter.Converter;

/** Reads the limits in settings. */
@ConfigurationPropertiesBinding
final class LimitConverter implements Converter<String, Limit> {

    @Override
    public Limit convert(String text) {
        try {
            return Limit.parse(text);
        } catch (IllegalArgumentException e) {
            // Of what has causes only the last one is told, and the example stands in the first.
            throw new IllegalArgumentException(e.getMessage());
        }
    }
}
