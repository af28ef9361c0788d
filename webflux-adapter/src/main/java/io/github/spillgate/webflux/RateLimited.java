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
 * Limits the requests that a method of a controller handles, or all methods of one.
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
 * The annotations of a method and of its class are one verdict, which is not that of the web filters: it comes after theirs. It
 * is decided before anything of the request's body is read, whatever the method returns, a {@code Mono}, a {@code Flux} or what a
 * suspending function does. Methods of a class that is annotated share its limits; each that is annotated has its own besides. What
 * stands on a method goes before what stands on the one that it overrides. Where controllers are behind proxies of the JDK, it has to
 * stand on the interface, as Spring's own annotations have to.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
@Repeatable(RateLimited.All.class)
@Reflective
public @interface RateLimited {

    /**
     * The limits, as {@code Limit.parse} reads them; several must all agree.
     *
     * @return the limits
     */
    String[] value();

    /**
     * Who is charged, as {@code KeySyntax} reads it: {@code address}, {@code principal}, {@code header:X-Api-Key},
     * {@code path:id}, {@code bean:tenantKey}, and so on.
     *
     * @return where the key comes from
     */
    String key() default "address";

    /**
     * What the rule is called; by default as the class without its package, or as that and the method with a dot between, as long
     * as that is not too long and nobody else is called so. Methods of one name and class share their limits.
     *
     * @return the name
     */
    String name() default "";

    /**
     * How many permits a request takes.
     *
     * @return the cost
     */
    long cost() default 1;

    /**
     * What holds for a request without a key. By default all such requests share one key; but if the key contains {@code principal},
     * the rule does not apply to requests that are not authenticated.
     *
     * @return what holds, one at most; empty for the default
     */
    WhenMissing[] whenMissing() default {};

    /**
     * What holds where nothing can be decided.
     *
     * @return what holds
     */
    WhenUndecided whenUndecided() default WhenUndecided.ALLOW;

    /**
     * What a request has taken is given back if it ends with one of these statuses.
     *
     * @return such as {@code 401} and {@code 2xx}
     */
    String[] refundWhen() default {};

    /**
     * Whether it decides and reports only, and lets everybody pass.
     *
     * @return whether it is tried out
     */
    boolean shadow() default false;

    /** Several on one method or class. */
    @Documented
    @Retention(RetentionPolicy.RUNTIME)
    @Target({ElementType.TYPE, ElementType.METHOD})
    @Reflective
    @interface All {

        /**
         * All of them.
         *
         * @return the annotations
         */
        RateLimited[] value();
    }
}
