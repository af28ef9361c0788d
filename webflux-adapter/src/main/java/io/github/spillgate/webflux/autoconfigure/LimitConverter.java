package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Limit;
import org.springframework.boot.context.properties.ConfigurationPropertiesBinding;
import org.springframework.core.convert.converter.Converter;

/** A converter from text to limits, for settings. */
@ConfigurationPropertiesBinding
final class LimitConverter implements Converter<String, Limit> {

    @Override
    public Limit convert(String text) {
        return Limit.parse(text);
    }
}
