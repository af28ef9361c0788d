/**
 * The address of the client of a request.
 *
 * <ul>
 *   <li>For users: {@link io.github.spillgate.http.address.ClientAddress ClientAddress}, the peer or, behind trusted
 *       proxies, the address in a header
 *   <li>How it is read: {@code ForwardingHeader}, the formats of {@code X-Forwarded-For} and {@code Forwarded}; {@code
 *       IpAddress} and {@code Network}, parsed without lookups of names
 * </ul>
 */
@NullMarked
package io.github.spillgate.http.address;

import org.jspecify.annotations.NullMarked;
