package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.KotlinSource;
import io.github.spillgate.testkit.Thorough;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import kotlin.reflect.KFunction;
import kotlin.reflect.jvm.ReflectJvmMapping;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A controller in Kotlin is limited as one in Java is. */
class RateLimitedKotlinTest {

    private static final String CONTROLLER = """
            import io.github.spillgate.webflux.RateLimited
            import kotlinx.coroutines.delay
            import kotlinx.coroutines.flow.Flow
            import kotlinx.coroutines.flow.flowOf
            import org.springframework.web.bind.annotation.GetMapping
            import org.springframework.web.bind.annotation.RestController

            @RestController
            class Slow {
                @RateLimited("1/1m")
                @GetMapping("/suspending")
                suspend fun suspending(): String {
                    delay(1)
                    return "hello"
                }

                @RateLimited("1/1m")
                @GetMapping("/flow")
                fun flow(): Flow<String> = flowOf("hel", "lo")
            }
            """;

    @TempDir
    Path temp;

    @Test
    @Thorough
    void suspendingFunctionsAreLimited() throws Exception {
        KotlinSource.assertCompiles("Slow", CONTROLLER, temp);
        try (URLClassLoader compiled = new URLClassLoader(
                        new URL[] {temp.toUri().toURL()}, getClass().getClassLoader());
                Limiters limiters = Limiters.onRedis();
                Service service = Service.start(context -> {
                    Service.annotations(context, limiters.limiter());
                    context.registerBean(load(compiled));
                })) {
            for (String path : new String[] {"/suspending", "/flow"}) {
                HttpResponse<String> allowed = service.get(path);
                assertThat(allowed.statusCode()).isEqualTo(200);
                assertThat(allowed.body()).isEqualTo("hello");
                assertThat(service.get(path).statusCode()).isEqualTo(429);
            }
        }
    }

    private static Class<?> load(ClassLoader compiled) {
        try {
            Class<?> type = compiled.loadClass("Slow");
            // When Kotlin's reflection sees a class for the first time it reads files, which an event loop must not.
            for (Method method : type.getMethods()) {
                KFunction<?> function = ReflectJvmMapping.getKotlinFunction(method);
                if (function != null) {
                    assertThat(function.getParameters()).isNotEmpty();
                    assertThat(function.getReturnType()).isNotNull();
                }
            }
            return type;
        } catch (ClassNotFoundException e) {
            throw new AssertionError(e);
        }
    }
}
