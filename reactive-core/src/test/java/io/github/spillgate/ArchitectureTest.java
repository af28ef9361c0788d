package io.github.spillgate;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.INTERFACES;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.assignableTo;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.belongToAnyOf;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.codeUnits;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaCodeUnit;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import com.tngtech.archunit.lang.conditions.ArchConditions;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.Unprotected;
import java.util.Collection;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The dependencies between the packages, as in the picture of the architecture. */
class ArchitectureTest {

    private static final String API = "io.github.spillgate";
    private static final String SPI = "io.github.spillgate.spi";
    private static final String INTERNAL = "io.github.spillgate.internal";
    private static final String WAITING = "io.github.spillgate.internal.waiting";
    private static final String SYNTAX = "io.github.spillgate.internal.syntax";
    private static final String HOLDING = "io.github.spillgate.internal.holding";
    private static final String PUBLISHED = "io.github.spillgate.fleet";
    private static final String FLEET = "io.github.spillgate.internal.fleet";
    private static final String REDIS = "io.github.spillgate.redis";
    private static final String LANE = "io.github.spillgate.redis.lane";
    private static final String COUNT = "io.github.spillgate.count";
    private static final String STORE = "io.github.spillgate.store";
    private static final String POSTGRES = "io.github.spillgate.postgres";
    private static final String LOCAL = "io.github.spillgate.local";
    private static final String FAILOVER = "io.github.spillgate.failover";
    private static final String LEDGER = "io.github.spillgate.failover.ledger";
    private static final String LEASE = "io.github.spillgate.failover.lease";
    private static final String HTTP = "io.github.spillgate.http";
    private static final String ADDRESS = "io.github.spillgate.http.address";
    private static final String RESPONSE = "io.github.spillgate.http.response";
    private static final String CLIENT = "io.github.spillgate.http.client";
    private static final String SETTINGS = "io.github.spillgate.http.settings";
    private static final String METRICS = "io.github.spillgate.metrics";

    @Test
    void theApiAndTheSpiDependOnNoOtherPackage() {
        classes()
                .that()
                .resideInAnyPackage(API, PUBLISHED, SPI)
                .and()
                .areNotAssignableTo(RateLimiter.class)
                .and()
                .areNotAssignableTo(RateLimiterBuilder.class)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(
                        API,
                        PUBLISHED,
                        SPI,
                        INTERNAL,
                        WAITING,
                        HOLDING,
                        FLEET,
                        "java..",
                        "reactor.core..",
                        "reactor.util",
                        "reactor.util.context",
                        "reactor.util.retry",
                        "org.reactivestreams",
                        "org.jspecify..")
                .check(OurClasses.ALL);
    }

    @Test
    void helpersDependOnNoOtherPackage() {
        onlyUses(INTERNAL, INTERNAL, "java..", "reactor.core..", "reactor.util.context", "org.jspecify..");
        onlyUses(SYNTAX, SYNTAX, INTERNAL, "java..", "org.jspecify..");
    }

    @Test
    void waitingHoldingAndTheFleetUseOnlyTheApiTheSpiAndTheKinds() {
        noClasses()
                .that()
                .resideInAPackage(SPI)
                .should(use(WAITING, HOLDING, FLEET))
                .check(OurClasses.ALL);
        onlyUses(FLEET, FLEET, PUBLISHED, API, SPI, INTERNAL, "java..", "reactor..", "org.jspecify..");
        onlyUses(
                WAITING,
                WAITING,
                HOLDING,
                API,
                SPI,
                INTERNAL,
                COUNT,
                "java..",
                "reactor..",
                "org.reactivestreams",
                "org.jspecify..");
        onlyUses(
                HOLDING,
                HOLDING,
                API,
                SPI,
                INTERNAL,
                COUNT,
                "java..",
                "reactor..",
                "org.reactivestreams",
                "org.jspecify..");
    }

    /** It makes a store without a deadline resilient. No other dependency points up. */
    @Test
    void theLimiterDependsOnNothingInOtherPackagesButTheResilientStore() {
        noClasses()
                .that()
                .areAssignableTo(RateLimiter.class)
                .or()
                .areAssignableTo(RateLimiterBuilder.class)
                .should()
                .dependOnClassesThat(resideInAPackage(API + "..")
                        .and(not(resideInAnyPackage(API, PUBLISHED, SPI, INTERNAL, WAITING, HOLDING, FLEET)))
                        .and(not(assignableTo(ResilientStore.class)))
                        .and(not(assignableTo(ResilientStore.Builder.class))))
                .check(OurClasses.ALL);
    }

    @Test
    void countsDependOnNoStore() {
        onlyUses(COUNT, COUNT, API, SPI, INTERNAL, "java..", "org.jspecify..");
    }

    /** A database in another package extends it. */
    @Test
    void aStoreThatComparesAndWritesDependsOnTheCountsOnly() {
        onlyUses(
                STORE,
                STORE,
                API,
                SPI,
                INTERNAL,
                FLEET,
                COUNT,
                "java..",
                "reactor.core..",
                "reactor.util..",
                "org.reactivestreams",
                "org.jspecify..");
        noClasses()
                .that()
                .resideInAnyPackage(
                        API, SPI, INTERNAL, COUNT, LOCAL, REDIS, LANE, FAILOVER, LEDGER, LEASE, HTTP + "..", METRICS)
                .should(use(STORE))
                .check(OurClasses.ALL);
    }

    @Test
    void theStoresDoNotDependOnEachOther() {
        noClasses().that().resideInAPackage(REDIS + "..").should(use(LOCAL)).check(OurClasses.ALL);
        noClasses().that().resideInAPackage(LOCAL).should(use(REDIS + "..")).check(OurClasses.ALL);
    }

    @Test
    void lanesDoNotUseTheStoreAroundThem() {
        noClasses().that().resideInAPackage(LANE).should(use(REDIS)).check(OurClasses.ALL);
    }

    @Test
    void eachStoreAloneUsesItsClient() {
        onlyUsedBy(REDIS + "..", "io.lettuce..", "io.netty..");
        onlyUsedBy(LOCAL, "com.github.benmanes..");
        onlyUsedBy(POSTGRES, POSTGRES, "io.r2dbc..");
    }

    /** Only the driver can cancel a statement on its server. */
    @Test
    void thePostgresStoreUsesNothingOfADriverButItsInterface() {
        onlyUses(
                POSTGRES,
                POSTGRES,
                API,
                STORE,
                INTERNAL,
                "io.r2dbc.postgresql.api",
                "io.r2dbc.spi",
                "java..",
                "reactor.core..",
                "reactor.util",
                "org.reactivestreams",
                "org.jspecify..");
    }

    @Test
    void failoverUsesStoresAndNoClient() {
        onlyUses(
                FAILOVER,
                FAILOVER,
                LEDGER,
                LEASE,
                API,
                SPI,
                INTERNAL,
                FLEET,
                COUNT,
                LOCAL,
                "io.github.resilience4j..",
                "java..",
                "reactor..",
                "org.reactivestreams",
                "org.jspecify..");
        noClasses()
                .that()
                .resideOutsideOfPackage(FAILOVER + "..")
                .and()
                .areNotAssignableTo(RateLimiter.class)
                .and()
                .areNotAssignableTo(RateLimiterBuilder.class)
                .should(use(FAILOVER + "..", "io.github.resilience4j.."))
                .check(OurClasses.ALL);
    }

    @Test
    void ledgersAndLeasesDoNotUseTheCallsAroundThem() {
        onlyUses(LEDGER, LEDGER, API, SPI, INTERNAL, FLEET, COUNT, LOCAL, "java..", "reactor.core..", "org.jspecify..");
        onlyUses(LEASE, LEASE, API, SPI, INTERNAL, "java..", "reactor.core..", "org.jspecify..");
    }

    @Test
    void httpUsesTheApiAndOnlyMetricsUsesHttp() {
        onlyUses(
                HTTP,
                HTTP,
                ADDRESS,
                RESPONSE,
                API,
                PUBLISHED,
                SPI,
                INTERNAL,
                FLEET,
                SYNTAX,
                "java..",
                "javax.crypto..",
                "org.jspecify..",
                "reactor..");
        noClasses()
                .that()
                .resideOutsideOfPackages(HTTP + "..", METRICS)
                .should(use(HTTP + ".."))
                .check(OurClasses.ALL);
    }

    @Test
    void addressesAndResponsesNeedNoRuleAndNoRuleNeedsSettings() {
        onlyUses(ADDRESS, ADDRESS, INTERNAL, SYNTAX, "java..", "org.jspecify..");
        onlyUses(RESPONSE, RESPONSE, API, "java..", "org.jspecify..");
        onlyUses(CLIENT, CLIENT, API, SPI, INTERNAL, SYNTAX, "java..", "reactor..", "org.jspecify..");
        onlyUses(
                SETTINGS,
                SETTINGS,
                HTTP,
                ADDRESS,
                API,
                PUBLISHED,
                INTERNAL,
                SYNTAX,
                "java..",
                "org.jspecify..",
                "reactor.core.publisher");
    }

    @Test
    void onlyMetricsUsesMicrometer() {
        onlyUsedBy(METRICS, METRICS, "io.micrometer..");
        onlyUses(
                METRICS,
                METRICS,
                HTTP,
                CLIENT,
                API,
                INTERNAL,
                "java..",
                "org.jspecify..",
                "reactor.util.context",
                "io.micrometer.common",
                "io.micrometer.core.instrument..",
                "io.micrometer.observation");
    }

    /** Addresses are parsed by our own code, because the JDK looks up text that could be a host name. */
    @Test
    void httpDoesNotUseTheNetwork() {
        noClasses()
                .that()
                .resideInAPackage(HTTP + "..")
                .should(use("java.net..", "java.util.regex"))
                .check(OurClasses.ALL);
    }

    @Test
    void noClassReadsTheSystemClockStatically() {
        noClasses().should().callMethod(System.class, "currentTimeMillis").check(OurClasses.ALL);
        noClasses().should().callMethod(java.time.Instant.class, "now").check(OurClasses.ALL);
    }

    /** What only tests or the same package use need not be public: tests can be in the same package. */
    @Test
    void publicMembersOfInternalPackagesAreUsedByOthers() {
        codeUnits()
                .that()
                .arePublic()
                .and()
                .areDeclaredInClassesThat(resideInAnyPackage(HOLDING, LEASE, LANE)
                        .and(not(INTERFACES))
                        .and(not(assignableTo(Enum.class)))
                        .and(not(assignableTo(Record.class))))
                .should(new ArchCondition<>("be used by another package, or be overridden or override") {
                    @Override
                    public void check(JavaCodeUnit unit, ConditionEvents events) {
                        JavaClass owner = unit.getOwner();
                        boolean isUsed = unit.getAccessesToSelf().stream()
                                .anyMatch(use ->
                                        !use.getOriginOwner().getPackage().equals(owner.getPackage()));
                        boolean overrides = Stream.of(
                                        owner.getAllRawSuperclasses(),
                                        owner.getAllRawInterfaces(),
                                        owner.getAllSubclasses())
                                .flatMap(Collection::stream)
                                .flatMap(type -> type.getMethods().stream())
                                .anyMatch(method -> method.getName().equals(unit.getName())
                                        && method.getParameters().size()
                                                == unit.getParameters().size());
                        events.add(new SimpleConditionEvent(unit, isUsed || overrides, unit.getDescription()));
                    }
                })
                .check(OurClasses.ALL);
    }

    /** The classes of the jar with the classifier contract. More would be another dependency of each store's tests. */
    @Test
    void theContractOfStoresNeedsOnlyJUnitAndAssertJ() {
        Class<?>[] contract = {LimitStoreContract.class, Unprotected.class, DecidedClaims.class};
        classes()
                .should()
                .onlyDependOnClassesThat(belongToAnyOf(contract)
                        .or(resideInAnyPackage(
                                API,
                                SPI,
                                "java..",
                                "reactor.core..",
                                "reactor.util.context",
                                "org.assertj.core..",
                                "org.jspecify..",
                                "org.junit.jupiter..")))
                .check(new ClassFileImporter().importClasses(contract));
    }

    private static void onlyUses(String one, String... others) {
        classes()
                .that()
                .resideInAPackage(one)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(others)
                .check(OurClasses.ALL);
    }

    private static void onlyUsedBy(String one, String... others) {
        noClasses().that().resideOutsideOfPackage(one).should(use(others)).check(OurClasses.ALL);
    }

    private static ArchCondition<JavaClass> use(String... packages) {
        return ArchConditions.dependOnClassesThat(resideInAnyPackage(packages));
    }
}
