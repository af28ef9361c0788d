/**
 * What a response reports of decisions. Nothing here needs a rule or a request.
 *
 * <ul>
 *   <li>The header fields: {@link io.github.spillgate.http.response.RateLimitHeaders RateLimitHeaders}, written to the
 *       {@link io.github.spillgate.http.response.ResponseFields ResponseFields} of an adapter
 *   <li>The body of a denial: {@link io.github.spillgate.http.response.Problem Problem}
 *   <li>What both have in common: {@code QuotaPolicy}, a limit with the name that it has in a response, and {@code
 *       RateLimitDraft11}, the names and formats of the draft
 * </ul>
 */
@NullMarked
package io.github.spillgate.http.response;

import org.jspecify.annotations.NullMarked;
