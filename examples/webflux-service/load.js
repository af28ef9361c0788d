// A load on the service, for k6. It checks that the number of allowed requests is what the limits say.
//
//     k6 run load.js
//     k6 run -e SERVICES=http://localhost:8080,http://localhost:8081 load.js
//
// The service has to be fresh, because the thresholds are exact: these keys must not have been used within a day. All instances that are
// named have to share one Redis. The same load in Java, which needs no k6: README.md beside this file.

import http from 'k6/http';
import { check, fail } from 'k6';
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';

const SERVICES = (__ENV.SERVICES || 'http://localhost:8080').split(',');

const allowed = new Counter('allowed');
const denied = new Counter('denied');

// How many requests each burst sends, and how many of them its limit allows: not one more, and not one less. No rate and no
// percentage could say that. A burst on a limit by the minute is over within less than one.
const BURSTS = {
  // 30 a minute.
  one_key: { requests: 100, admits: 30, limit: 'validate-1m', run: 'oneKey' },
  // 30 a minute for each.
  two_keys_one: { requests: 60, admits: 30, limit: 'validate-1m', run: 'twoKeysOne' },
  two_keys_other: { requests: 60, admits: 30, limit: 'validate-1m', run: 'twoKeysOther' },
  // Seven requests are 28 numbers of 30, and four do not fit into the rest.
  four_numbers: { requests: 20, admits: 7, limit: 'validate-1m', run: 'fourNumbers' },
  // 100 a day, of which "two_keys_one" has taken 30. That has ended before this one starts.
  free_day: { requests: 150, admits: 70, limit: 'plan-24h', run: 'freeDay', startTime: '30s' },
  // 10,000 a day, of which "one_key" has taken 30.
  paid_day: { requests: 10100, admits: 9970, limit: 'plan-24h', run: 'paidDay', startTime: '30s', maxDuration: '5m' },
  // 120 a minute.
  one_address: { requests: 300, admits: 120, limit: 'address-1m', run: 'oneAddress' },
};

export const options = {
  scenarios: {},
  thresholds: {
    // All that is said below about an answer holds for every one of them.
    checks: ['rate==1'],
    // A status that no burst expects; ask() says which it does.
    http_req_failed: ['rate==0'],
  },
};

for (const [name, burst] of Object.entries(BURSTS)) {
  options.scenarios[name] = {
    executor: 'shared-iterations',
    exec: burst.run,
    vus: 16,
    iterations: burst.requests,
    startTime: burst.startTime || '0s',
    maxDuration: burst.maxDuration || '25s',
    gracefulStop: '0s',
  };
  options.thresholds[`allowed{burst:${name}}`] = [`count==${burst.admits}`];
  options.thresholds[`denied{burst:${name}}`] = [`count==${burst.requests - burst.admits}`];
}

/** To look at the usage charges nothing. */
export function setup() {
  for (const [apiKey, address] of [
    ['paid-key', '192.0.2.1'],
    ['free-key', '192.0.2.2'],
    ['another-free-key', '192.0.2.3'],
    ['another-paid-key', '192.0.2.4'],
    ['paid-key', '192.0.2.66'],
  ]) {
    const usage = http.get(`${SERVICES[0]}/v1/usage`, { headers: { 'X-Api-Key': apiKey, 'X-Forwarded-For': address } });
    if (usage.status !== 200) {
      fail(`${SERVICES[0]} answers ${usage.status} to ${apiKey}: expected the service of this folder`);
    }
    for (const tier of Object.values(usage.json('tiers'))) {
      if (tier.used > 0) {
        fail(`${tier.used} of ${tier.name} are used by ${apiKey} or ${address}: expected a service that has just been started`);
      }
    }
  }
}

export function oneKey() {
  validate('one_key', 'paid-key', '192.0.2.1', 1);
}

export function twoKeysOne() {
  validate('two_keys_one', 'free-key', '192.0.2.2', 1);
}

export function twoKeysOther() {
  validate('two_keys_other', 'another-free-key', '192.0.2.3', 1);
}

export function fourNumbers() {
  validate('four_numbers', 'another-paid-key', '192.0.2.4', 4);
}

export function freeDay() {
  rates('free_day', 'free-key', '198.51.100');
}

export function paidDay() {
  rates('paid_day', 'paid-key', '203.0.113');
}

/** Keys are made up, and so is all that stands to the left of what the proxy has seen. Nothing of that helps. */
export function oneAddress() {
  const guess = exec.scenario.iterationInTest;
  ask('one_address', 'GET', '/v1/rates', `guess-${guess}`, `198.18.0.${guess % 256}, 192.0.2.66`, 401);
}

function validate(burst, apiKey, address, numbers) {
  const query = Array.from({ length: numbers }, (_, i) => `number=FI1234567${i}`).join('&');
  ask(burst, 'POST', `/v1/validate?${query}`, apiKey, address, 200);
}

/** From so many addresses that none of them is denied. */
function rates(burst, apiKey, network) {
  const address = `${network}.${Math.floor(exec.scenario.iterationInTest / 100)}`;
  ask(burst, 'GET', '/v1/rates', apiKey, address, 200);
}

function ask(burst, method, path, apiKey, address, passes) {
  const service = SERVICES[exec.scenario.iterationInTest % SERVICES.length];
  const answer = http.request(method, service + path, null, {
    headers: { 'X-Api-Key': apiKey, 'X-Forwarded-For': address },
    responseCallback: http.expectedStatuses(passes, 429),
    tags: { burst },
  });
  const isAllowed = answer.status === passes;
  const isDenied = answer.status === 429;
  allowed.add(isAllowed ? 1 : 0, { burst });
  denied.add(isDenied ? 1 : 0, { burst });
  check(answer, {
    'is allowed, or denied with 429': () => isAllowed || isDenied,
    'tells the policy': (r) => String(header(r, 'RateLimit-Policy')).includes(`"${BURSTS[burst].limit}"`),
    'tells what is left': (r) => header(r, 'RateLimit') !== undefined && Number(header(r, 'X-RateLimit-Remaining')) >= 0,
    'tells until when': (r) => Number(header(r, 'X-RateLimit-Reset')) > 0,
    'says when to come back, if denied': (r) => !isDenied || Number(header(r, 'Retry-After')) >= 1,
    'is denied by this limit, and by no other': (r) =>
      !isDenied || String(r.json('violated-policies')) === BURSTS[burst].limit,
  });
}

/** k6 writes the names of header fields in its own way, "Ratelimit-Policy" for example. */
function header(answer, name) {
  const found = Object.keys(answer.headers).find((other) => other.toLowerCase() === name.toLowerCase());
  return found === undefined ? undefined : answer.headers[found];
}
