package io.github.spillgate;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.github.benmanes.caffeine.cache.Caffeine;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowType;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.local.CachedLimits;
import io.github.spillgate.local.CountTable;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.WithoutDeadline;
import java.io.InputStream;
import java.lang.constant.ClassDesc;
import java.lang.invoke.VarHandle;
import java.lang.invoke.VarHandle.VarHandleDesc;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/**
 * The metadata for native images lists exactly the classes, fields and resources that are looked up by name at run
 * time. The test computes the whole file from the caches and the breaker. All scripts are in one folder.
 */
class NativeImageTest {

    private static final String FILE =
            "META-INF/native-image/io.github.spillgate/spillgate-reactive-core/reachability-metadata.json";
    private static final String CAFFEINE = "com.github.benmanes.caffeine.cache.";
    private static final List<String> LIBRARIES = List.of(CAFFEINE, "io.github.resilience4j.");

    /** By the type that must be reachable, and the type that is kept in that case. */
    private final Map<String, Map<String, Kept>> reflection = new TreeMap<>();

    @Test
    void classesThatAreLoadedByNameAreListed() throws Exception {
        afterUseOf(UseOfTheLocalStore.class, loader -> keepCachesOf(loader, CountTable.class));
        afterUseOf(UseOfCachedLimits.class, loader -> keepCachesOf(loader, CachedLimits.class));
        afterUseOf(UseOfTheBreaker.class, loader -> {});
        try (InputStream file = getClass().getClassLoader().getResourceAsStream(FILE)) {
            assertThat(file).as(FILE).isNotNull();
            assertThat(new String(file.readAllBytes(), StandardCharsets.UTF_8)).isEqualTo(document());
        }
    }

    @Test
    void onlyTheKnownClassesBuildCaches() {
        noClasses()
                .that()
                .doNotHaveFullyQualifiedName(CountTable.class.getName())
                .and()
                .doNotHaveFullyQualifiedName(CachedLimits.class.getName())
                .should()
                .callMethod(Caffeine.class, "newBuilder")
                .check(OurClasses.ALL);
    }

    private void afterUseOf(Class<? extends Runnable> use, Listing listing) throws Exception {
        try (RecordingClassLoader loader = new RecordingClassLoader()) {
            ((Runnable) loader.loadClass(use.getName()).getDeclaredConstructor().newInstance()).run();
            listing.keep(loader);
            for (String name : Set.copyOf(loader.loaded)) {
                if (LIBRARIES.stream().anyMatch(name::startsWith)) {
                    keepFieldsOf(loader.loadClass(name));
                }
            }
        }
    }

    /**
     * Caffeine composes the names of the classes of a cache and of its nodes from the settings of the cache.
     */
    private void keepCachesOf(RecordingClassLoader loader, Class<?> user) throws Exception {
        for (String name : namesOf(loader, "LocalCacheFactory")) {
            keep(user.getName(), CAFFEINE + name).fields.add("FACTORY");
        }
        for (String name : namesOf(loader, "NodeFactory")) {
            keep(user.getName(), CAFFEINE + name).isMade = true;
        }
    }

    private static Set<String> namesOf(RecordingClassLoader loader, String factory) throws Exception {
        Field factories = loader.loadClass(CAFFEINE + factory).getDeclaredField("FACTORIES");
        factories.setAccessible(true);
        Set<String> names = new TreeSet<>();
        ((Map<?, ?>) factories.get(null)).keySet().forEach(name -> names.add(name.toString()));
        assertThat(names).as(factory).isNotEmpty();
        return names;
    }

    private void keepFieldsOf(Class<?> type) throws Exception {
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getType() == VarHandle.class) {
                field.setAccessible(true);
                VarHandle handle = (VarHandle) field.get(null);
                // Handles of arrays have another coordinate, and no lookup by name.
                if (handle.coordinateTypes().size() == 1) {
                    VarHandleDesc described = handle.describeConstable().orElseThrow();
                    ClassDesc owner =
                            handle.coordinateTypes().get(0).describeConstable().orElseThrow();
                    keep(type.getName(), nameOf(owner)).fields.add(described.constantName());
                }
            }
        }
    }

    private static String nameOf(ClassDesc type) {
        String descriptor = type.descriptorString();
        return descriptor.substring(1, descriptor.length() - 1).replace('/', '.');
    }

    private Kept keep(String reached, String type) {
        return reflection.computeIfAbsent(reached, any -> new TreeMap<>()).computeIfAbsent(type, any -> new Kept());
    }

    private String document() {
        List<String> types = new ArrayList<>();
        reflection.forEach((reached, kept) -> kept.forEach((type, what) ->
                types.add(condition(reached) + "      \"type\": \"" + type + "\",\n" + what + "    }")));
        return "{\n  \"reflection\": [\n" + String.join(",\n", types) + "\n  ],\n  \"resources\": [\n"
                + texts("postgres.Statements", "postgres/*.sql") + ",\n" + texts("redis.Script", "redis/*.lua")
                + "\n  ]\n}\n";
    }

    private static String texts(String readBy, String files) {
        return condition("io.github.spillgate." + readBy) + "      \"glob\": \"io/github/spillgate/" + files
                + "\"\n    }";
    }

    private static String condition(String reached) {
        return "    {\n      \"condition\": {\n        \"typeReached\": \"" + reached + "\"\n      },\n";
    }

    /** Lists what a use needs. */
    @FunctionalInterface
    private interface Listing {

        void keep(RecordingClassLoader loader) throws Exception;
    }

    /** The members of a type that are kept. */
    private static final class Kept {

        private final Set<String> fields = new TreeSet<>();
        private boolean isMade;

        @Override
        public String toString() {
            List<String> parts = new ArrayList<>();
            if (!fields.isEmpty()) {
                parts.add("      \"fields\": ["
                        + fields.stream()
                                .map(field -> "{ \"name\": \"" + field + "\" }")
                                .collect(Collectors.joining(", "))
                        + "]");
            }
            if (isMade) {
                parts.add("      \"methods\": [{ \"name\": \"<init>\", \"parameterTypes\": [] }]");
            }
            return String.join(",\n", parts) + "\n";
        }
    }

    /** A class loader that loads all classes again and records their names, independent of other tests. */
    private static final class RecordingClassLoader extends URLClassLoader {

        private final Set<String> loaded = new ConcurrentSkipListSet<>();

        RecordingClassLoader() {
            super(classPath(), ClassLoader.getPlatformClassLoader());
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            Class<?> found = super.findClass(name);
            loaded.add(name);
            return found;
        }

        private static URL[] classPath() {
            return Stream.of(System.getProperty("java.class.path").split(System.getProperty("path.separator")))
                    .map(RecordingClassLoader::url)
                    .toArray(URL[]::new);
        }

        private static URL url(String path) {
            try {
                return Path.of(path).toUri().toURL();
            } catch (MalformedURLException e) {
                throw new IllegalArgumentException("not a path of classes: " + path, e);
            }
        }
    }

    /** Counts more keys than fit, twice. */
    public static final class UseOfTheLocalStore implements Runnable {

        @Override
        public void run() {
            RateLimiter limiter = RateLimiter.builder("native")
                    .store(LocalStore.bounded(16))
                    .limit(Limit.perMinute(10))
                    .build();
            for (int i = 0; i < 200; i++) {
                limiter.tryAcquire("key-" + i % 50).block();
            }
        }
    }

    /** Looks up more keys than fit, twice. */
    public static final class UseOfCachedLimits implements Runnable {

        @Override
        public void run() {
            CachedLimits limits =
                    CachedLimits.of(key -> Mono.just(List.of(Limit.perMinute(10))), 16, Duration.ofMinutes(1));
            for (int i = 0; i < 200; i++) {
                limits.apply("key-" + i % 50).block();
            }
        }
    }

    /** Uses breakers with both kinds of windows: by number of calls, the default, and by time. */
    public static final class UseOfTheBreaker implements Runnable {

        @Override
        public void run() {
            ResilientStore.of(new WithoutDeadline(LocalStore.bounded(16))).close();
            ResilientStore.builder(new WithoutDeadline(LocalStore.bounded(16)))
                    .breaker(breaker -> breaker.slidingWindowType(SlidingWindowType.TIME_BASED))
                    .build()
                    .close();
        }
    }
}
