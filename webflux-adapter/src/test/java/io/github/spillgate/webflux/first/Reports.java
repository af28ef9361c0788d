package io.github.spillgate.webflux.first;

import io.github.spillgate.webflux.RateLimited;

/** Called as another class is that lies elsewhere. */
public class Reports {

    @RateLimited("1/1m")
    public void list() {}
}
