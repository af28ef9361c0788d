/**
 * Rate limiting for HTTP, independent of a framework. Adapters connect it to one.
 *
 * <ul>
 *   <li>What users write: {@link io.github.spillgate.http.Rule Rule}, {@link io.github.spillgate.http.KeySource
 *       KeySource} (the built-in ones in {@code KeySources}), and functions of a {@link
 *       io.github.spillgate.http.RuleMatch RuleMatch}
 *   <li>What an adapter calls: {@link io.github.spillgate.http.Rules Rules}, which returns a {@link
 *       io.github.spillgate.http.Verdict Verdict}; {@link io.github.spillgate.http.RequestVerdicts RequestVerdicts},
 *       all verdicts on a request, with what happens when its response is sent and has ended
 *   <li>What an adapter implements: {@link io.github.spillgate.http.Request Request}, {@link
 *       io.github.spillgate.http.PathSyntax PathSyntax}
 *   <li>How a request is decided: {@code CompiledRules} matches the rules; {@code RequestDecision} charges them
 *       together, {@code ShadowDecision} each shadow rule alone; {@code ChargeResolver} looks up what each charges, a
 *       {@code ResolvedCharge}, or fails with a {@link io.github.spillgate.http.RuleLookupException
 *       RuleLookupException}
 *   <li>Reports: {@link io.github.spillgate.http.RuleInstrumentation RuleInstrumentation} calls each {@link
 *       io.github.spillgate.http.RuleListener RuleListener} and {@link io.github.spillgate.http.RuleTracer RuleTracer},
 *       and {@code MisconfigurationLog}
 * </ul>
 *
 * <p>Apart from these: the client's address in {@code http.address}, header fields and problems in {@code
 * http.response}, and rules from settings in {@code http.settings}.
 */
@NullMarked
package io.github.spillgate.http;

import org.jspecify.annotations.NullMarked;
