// Questions to the scheduler, and the visitor's token.

const KEY = 'tangram.token';
const TIMEOUT = 20_000; // ms; the scheduler answers within one second or says that it is busy

/** Refusal is an answer that is not 200: query.Error. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body.message || `the server answered ${status}`);
    this.status = status;
    this.reason = body.reason || '';
    this.field = body.field || '';
  }
}

export const token = {
  /** get: the token is in sessionStorage alone, so that it goes with the tab. */
  get: () => sessionStorage.getItem(KEY) || '',
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
};

let skew = 0; // server's clock minus this one's, ms

/** serverNow is the time by the server's clock, ms. */
export const serverNow = () => Date.now() + skew;

/** ask returns the answer to a question. Parameters that are empty are left out. A body
 *  makes it a POST. It throws Refusal, or TypeError when no server answers. */
export async function ask(what, params = {}, { signal, body } = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== '' && v !== undefined && v !== null));
  const headers = { Accept: 'application/json' };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/yaml';
  const limit = AbortSignal.timeout(TIMEOUT);
  const response = await fetch(`query/v1/${what}${query.size ? `?${query}` : ''}`, {
    method: body === undefined ? 'GET' : 'POST', body, headers, credentials: 'same-origin', cache: 'no-store', redirect: 'error',
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  });
  const date = Date.parse(response.headers.get('Date') || '');
  // The header has whole seconds: a difference below two is rounding.
  if (date) skew = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
  let answer;
  try {
    answer = await response.json();
  } catch (e) {
    if (response.ok) throw e;
    answer = {};
  }
  if (!response.ok) throw new Refusal(response.status, answer);
  return answer;
}
