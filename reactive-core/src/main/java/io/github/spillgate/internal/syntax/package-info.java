/**
 * The syntax of texts that clients and users write.
 *
 * <ul>
 *   <li>In requests: {@code HttpTokens}; {@code PathForms}, the forms in which handlers may read a path
 *   <li>In settings: {@code StatusSet}, statuses and classes of them; {@code Spelling}, suggestions for misspelt names
 * </ul>
 */
@NullMarked
package io.github.spillgate.internal.syntax;

import org.jspecify.annotations.NullMarked;
