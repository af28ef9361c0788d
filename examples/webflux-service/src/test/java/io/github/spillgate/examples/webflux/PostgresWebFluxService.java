package io.github.spillgate.examples.webflux;

/** Starts the service with counts in PostgreSQL. The server is one of the tests, so this is one of them, too. */
final class PostgresWebFluxService {

    private PostgresWebFluxService() {}

    public static void main(String[] args) {
        WebFluxService.run(ExamplePostgres.open(), args);
    }
}
