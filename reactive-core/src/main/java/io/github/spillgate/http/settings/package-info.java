/**
 * Rules and limiters from settings, independent of their format: an adapter reads YAML or JSON into these interfaces.
 *
 * <ul>
 *   <li>What an adapter implements: {@link io.github.spillgate.http.settings.RuleSettings RuleSettings}, {@link
 *       io.github.spillgate.http.settings.ClientAddressSettings ClientAddressSettings}
 *   <li>How rules are made of them: {@link io.github.spillgate.http.settings.RuleReader RuleReader}; the keys by {@link
 *       io.github.spillgate.http.settings.KeySyntax KeySyntax}, the methods by {@code RegisteredMethods}
 *   <li>Limiters for code: {@link io.github.spillgate.http.settings.NamedLimiters NamedLimiters}
 *   <li>Limits that operators publish: {@link io.github.spillgate.http.settings.PublishedLimits PublishedLimits}
 *   <li>What is wrong, and where: {@link io.github.spillgate.http.settings.WrongSettingException
 *       WrongSettingException}
 * </ul>
 */
@NullMarked
package io.github.spillgate.http.settings;

import org.jspecify.annotations.NullMarked;
