package io.github.spillgate.testkit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;

/** A test that only {@code mvn -Pproof verify} runs, before a release: soaks, and suites of 100,000 runs. */
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Tag("proof")
@Target({ElementType.METHOD, ElementType.TYPE})
public @interface Proof {}
