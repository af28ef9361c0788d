package io.github.spillgate.webflux;

import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Repeatable;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.aot.hint.annotation.Reflective;

/**
 * A rate limit for the requests that a controller method handles, or that all methods of a controller handle.
 *
 * <pre>{@code
 * @RateLimited("30/1m")
 * @PostMapping("/v1/validate")
 * Mono<Answer> validate(@RequestBody Question question) { … }
 *
 * @RateLimited(value = {"10/1s", "10000/1d"}, key = "principal | address")
 * @RestController
 * class Reports { … }
 * }</pre>
 *
 * <p>The annotations of a method and of its class are decided together, after the web filters and separately from them.
 * The decision is made before the body of the request is read, whether the method returns a {@code Mono}, a {@code
 * Flux} or is a suspending function.
 *
 * <p>All methods of an annotated class share the limits of the class. An annotated method has limits of its own in
 * addition. An annotation on a method replaces that on the method it overrides. If controllers are behind JDK proxies,
 * put the annotation on the interface, as with Spring's own annotations.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
@Repeatable(RateLimited.All.class)
@Reflective
public @interface RateLimited {

    /**
     * The limits, in the format of {@code Limit.parse}. All of them must allow a request.
     *
     * @return the limits
     */
    String[] value();

    /**
     * The key that is charged, such as {@code address}, {@code principal} or {@code header:X-Api-Key}; {@link
     * io.github.spillgate.http.settings.KeySyntax KeySyntax} lists all.
     *
     * @return the key source
     */
    String key() default "address";

    /**
     * The name of the rule. By default it is the class name without its package, for a method followed by a dot and the
     * method name; a default name that is too long is shortened. If two classes would have the same default name,
     * reading the annotation fails, and one of them needs a name. Overloaded methods of a class share their limits.
     *
     * @return the name; empty for the default
     */
    String name() default "";

    /**
     * The number of permits that a request takes.
     *
     * @return the cost
     */
    long cost() default 1;

    /**
     * The handling of requests without a key. By default all such requests share one key. If the key requires {@code
     * principal}, the rule does not apply to requests that are not authenticated.
     *
     * @return one value at most; empty for the default
     */
    WhenMissing[] whenMissing() default {};

    /**
     * The handling of requests on which no decision is possible.
     *
     * @return whether they are allowed or denied
     */
    WhenUndecided whenUndecided() default WhenUndecided.ALLOW;

    /**
     * The response statuses for which the permits of a request are refunded.
     *
     * @return statuses such as {@code 401} and {@code 2xx}
     */
    String[] refundWhen() default {};

    /**
     * Whether the rule only decides and reports, and denies no request.
     *
     * @return true for a shadow rule
     */
    boolean shadow() default false;

    /** The container of several annotations on one method or class. */
    @Documented
    @Retention(RetentionPolicy.RUNTIME)
    @Target({ElementType.TYPE, ElementType.METHOD})
    @Reflective
    @interface All {

        /**
         * The annotations.
         *
         * @return the annotations
         */
        RateLimited[] value();
    }
}
