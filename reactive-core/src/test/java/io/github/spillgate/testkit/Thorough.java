package io.github.spillgate.testkit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;

/**
 * A test that only {@code mvn -Pthorough verify} runs: what takes long and seldom fails alone, such as a cluster,
 * Sentinel, TLS in every form, ahead-of-time builds, and failures at full counts.
 */
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Tag("thorough")
@Target({ElementType.METHOD, ElementType.TYPE})
public @interface Thorough {}
