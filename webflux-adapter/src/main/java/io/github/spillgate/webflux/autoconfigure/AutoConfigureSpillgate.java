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
 * Limits the requests of a test, which a slice such as {@code @WebFluxTest} does not do by default. The rules are those
 * of the application's settings and annotations. By default counts are kept in the memory of the test's process, even
 * if the settings contain a Redis.
 *
 * <pre>{@code
 * @WebFluxTest(Reports.class)
 * @AutoConfigureSpillgate
 * class ReportsTest { … }
 * }</pre>
 *
 * A slice does not contain beans that rules refer to, such as a {@code Rule.LimitSource}. Import them into the test.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@ImportAutoConfiguration
public @interface AutoConfigureSpillgate {

    /**
     * The store of the counts.
     *
     * @return {@code LOCAL} for the memory of this process, {@code AUTO} for the store that the settings select
     */
    @PropertyMapping("spillgate.store")
    StoreType store() default StoreType.LOCAL;
}
