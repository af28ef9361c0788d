package io.github.spillgate;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import org.junit.jupiter.api.Test;

/** The picture of the rooms: arrows only point down. */
class ArchitectureTest {

    private static final String FACE = "io.github.spillgate";
    private static final String REDIS = "io.github.spillgate.redis";
    private static final String LOCAL = "io.github.spillgate.local";
    private static final String RESILIENCE = "io.github.spillgate.failover";
    private static final String HTTP = "io.github.spillgate.http";
    private static final String METRICS = "io.github.spillgate.metrics";

    @Test
    void theFaceKnowsNobody() {
        classes()
                .that()
                .resideInAPackage(FACE)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(
                        FACE,
                        "java..",
                        "reactor.core..",
                        "reactor.util.context",
                        "org.reactivestreams",
                        "org.jspecify..")
                .check(OurClasses.ALL);
    }

    @Test
    void theStoresDoNotSeeEachOther() {
        noClasses()
                .that()
                .resideInAPackage(REDIS)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(LOCAL)
                .check(OurClasses.ALL);
        noClasses()
                .that()
                .resideInAPackage(LOCAL)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(REDIS)
                .check(OurClasses.ALL);
    }

    @Test
    void onlyTheRedisStoreSeesLettuceAndOnlyTheLocalStoreSeesCaffeine() {
        noClasses()
                .that()
                .resideOutsideOfPackage(REDIS)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage("io.lettuce..", "io.netty..")
                .check(OurClasses.ALL);
        noClasses()
                .that()
                .resideOutsideOfPackage(LOCAL)
                .should()
                .dependOnClassesThat()
                .resideInAPackage("com.github.benmanes..")
                .check(OurClasses.ALL);
    }

    @Test
    void failoverSeesStoresAndNoClient() {
        classes()
                .that()
                .resideInAPackage(RESILIENCE)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(
                        RESILIENCE,
                        FACE,
                        LOCAL,
                        "io.github.resilience4j..",
                        "java..",
                        "reactor..",
                        "org.reactivestreams",
                        "org.jspecify..")
                .check(OurClasses.ALL);
        noClasses()
                .that()
                .resideOutsideOfPackage(RESILIENCE)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(RESILIENCE, "io.github.resilience4j..")
                .check(OurClasses.ALL);
    }

    @Test
    void httpSeesTheFaceAndNobodySeesHttp() {
        classes()
                .that()
                .resideInAPackage(HTTP)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(HTTP, FACE, "java..", "javax.crypto..", "org.jspecify..", "reactor..")
                .check(OurClasses.ALL);
        noClasses()
                .that()
                .resideOutsideOfPackages(HTTP, METRICS)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(HTTP)
                .check(OurClasses.ALL);
    }

    @Test
    void onlyMetricsSeesMicrometer() {
        noClasses()
                .that()
                .resideOutsideOfPackage(METRICS)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(METRICS, "io.micrometer..")
                .check(OurClasses.ALL);
        classes()
                .that()
                .resideInAPackage(METRICS)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(
                        METRICS,
                        HTTP,
                        FACE,
                        "java..",
                        "org.jspecify..",
                        "reactor.util.context",
                        "io.micrometer.common",
                        "io.micrometer.core.instrument..",
                        "io.micrometer.observation")
                .check(OurClasses.ALL);
    }

    /** Addresses are read by hand, because the JDK looks up what it takes for a name. */
    @Test
    void httpAsksTheNetworkForNothing() {
        noClasses()
                .that()
                .resideInAPackage(HTTP)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage("java.net..", "java.util.regex")
                .check(OurClasses.ALL);
    }

    @Test
    void onlyTheEndsOfTheHouseReadTheSystemsClock() {
        noClasses().should().callMethod(System.class, "currentTimeMillis").check(OurClasses.ALL);
        noClasses().should().callMethod(java.time.Instant.class, "now").check(OurClasses.ALL);
    }
}
