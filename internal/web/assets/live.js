// Keeps a view up to date: asks again and again, less often when there is no answer, not at
// all while the page is hidden or paused, and says how old the data is.
import { Refusal, serverNow } from './api.js';
import { lasting } from './format.js';

const SLOWEST = 30_000; // ms between attempts while nothing answers

export class Live {
  /** status is the element that says how old the data is; refused is called with a Refusal
   *  of status 401, after which nothing is asked until the next start. */
  constructor(status, refused) {
    this.status = status;
    this.refused = refused;
    this.paused = false;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.hold() : this.again()));
    setInterval(() => this.tell(), 1000);
  }

  /** start follows a view: load(signal) asks, show(answer, error) shows. every: ms. */
  start(view) {
    this.stop();
    this.view = view;
    this.at = 0;
    this.fails = 0;
    this.error = null;
    this.again();
  }

  stop() {
    this.hold();
    this.view = null;
  }

  hold() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /** pause stops asking until it is called again. */
  pause(on) {
    this.paused = on;
    if (on) this.hold();
    else this.again();
    this.tell();
  }

  /** again asks now. */
  async again() {
    this.hold();
    const view = this.view;
    if (!view || (document.hidden && this.at) || (this.paused && this.at)) return;
    const abort = (this.abort = new AbortController());
    try {
      const answer = await view.load(abort.signal);
      if (abort.signal.aborted) return;
      this.at = answer?.at ? Math.min(Date.parse(answer.at), serverNow()) : serverNow();
      this.fails = 0;
      this.error = null;
      view.show(answer, null);
    } catch (error) {
      if (abort.signal.aborted) return;
      if (error instanceof Refusal && error.status === 401) {
        this.view = null;
        this.refused(error);
        return;
      }
      this.fails++;
      this.error = error;
      view.show(null, error);
    }
    this.tell();
    const wait = this.fails ? Math.min(SLOWEST, view.every * 2 ** this.fails) * (0.8 + 0.4 * Math.random()) : view.every;
    this.next = Date.now() + wait;
    if (view.every && !this.paused && !document.hidden) this.timer = setTimeout(() => this.again(), wait);
  }

  tell() {
    const age = this.at ? `data ${lasting((serverNow() - this.at) / 1000)} old` : 'no data yet';
    let text = '';
    if (!this.view) text = '';
    else if (this.error) text = `${message(this.error)} Next attempt in ${lasting(Math.max(0, this.next - Date.now()) / 1000)}; ${age}.`;
    else if (this.paused) text = `Paused; ${age}.`;
    else if (!this.at) text = 'Loading';
    else text = `${this.view.every ? 'Live' : 'Answered'}; ${age}.`;
    // A reader of the screen hears changes of the status, not every second's.
    const kind = this.error ? 'error' : this.paused ? 'paused' : this.at ? 'live' : 'loading';
    this.status.setAttribute('aria-live', this.status.dataset.kind === kind ? 'off' : 'polite');
    this.status.dataset.kind = kind;
    if (this.status.textContent !== text) this.status.textContent = text;
  }
}

/** message is an error for people. */
export function message(error) {
  if (error instanceof Refusal) return sentence(error.field ? `${error.field}: ${error.message}` : error.message);
  if (error?.name === 'TimeoutError') return 'The server did not answer in time.';
  if (error instanceof TypeError) return 'The server cannot be reached.';
  return sentence(String(error?.message || error));
}

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);
