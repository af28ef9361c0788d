/**
 * Requests to services that have limits of their own.
 *
 * <ul>
 *   <li>Waiting, sending, pausing and retrying: {@link io.github.spillgate.http.client.OutgoingRequests
 *       OutgoingRequests}, over the {@link io.github.spillgate.http.client.ResponseAccess ResponseAccess} of a client
 *   <li>How long a response requires its client to pause: {@link io.github.spillgate.http.client.RetryFields
 *       RetryFields}
 * </ul>
 */
@NullMarked
package io.github.spillgate.http.client;

import org.jspecify.annotations.NullMarked;
