package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.StoreType;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.test.context.PropertyMapping;

/**
 * Limits the requests of a test, which a slice such as {@code @WebFluxTest} does not do by itself. The rules are those
 * of the application's settings and annotations; counts are kept in the test's process, whatever the settings say of
 * Redis.
 *
 * <pre>{@code
 * @WebFluxTest(Reports.class)
 * @AutoConfigureSpillgate
 * class ReportsTest { … }
 * }</pre>
 *
 * Beans that rules name, such as a {@code Rule.LimitSource}, are not in a slice unless it imports them.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@ImportAutoConfiguration
public @interface AutoConfigureSpillgate {

    /**
     * Where counts are kept.
     *
     * @return in this process, or where the settings say
     */
    @PropertyMapping("spillgate.store")
    StoreType store() default StoreType.LOCAL;
}
