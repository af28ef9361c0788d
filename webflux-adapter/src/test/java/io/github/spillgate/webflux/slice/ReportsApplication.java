package io.github.spillgate.webflux.slice;

import org.springframework.boot.autoconfigure.SpringBootApplication;

/** An application as users have it, of which tests load a slice. */
@SpringBootApplication
class ReportsApplication {}
