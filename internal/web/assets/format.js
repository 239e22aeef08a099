// Numbers and times as people read them.
import { serverNow } from './api.js';

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

/** gpus turns thousandths into GPUs. */
export const gpus = (milli) => number.format((milli || 0) / 1000);

/** count writes a number with a word that is made plural. */
export const count = (n, word) => `${number.format(n)} ${word}${n === 1 ? '' : 's'}`;

export const plain = (n) => number.format(n);

/** lasting writes seconds in at most two units. */
export function lasting(seconds) {
  const v = Math.max(0, Math.round(seconds));
  if (v < 60) return `${v} s`;
  if (v < 3600) return `${Math.floor(v / 60)} min`;
  if (v < 86400) return `${Math.floor(v / 3600)} h ${Math.floor((v % 3600) / 60)} min`;
  return `${Math.floor(v / 86400)} d ${Math.floor((v % 86400) / 3600)} h`;
}

/** ago is how long ago a time was, by the server's clock. */
export const ago = (time) => (time ? lasting((serverNow() - Date.parse(time)) / 1000) : '');

/** moment is a time of the day, with the date when it is another day. */
export function moment(time) {
  const t = new Date(time);
  return Math.abs(t - serverNow()) < 12 * 3600e3 ? clock.format(t) : day.format(t);
}

/** due is an expected time: how long from now, and when. */
export function due(time) {
  const left = (Date.parse(time) - serverNow()) / 1000;
  return left <= 0 ? `now (was expected at ${moment(time)})` : `in ${lasting(left)} (${moment(time)})`;
}

/** memory writes MiB. */
export const memory = (mib) => (mib >= 1024 ? `${number.format(Math.round(mib / 102.4) / 10)} GiB` : `${mib} MiB`);

/** start is when a gang is expected to start, from query.Start. */
export function start(st) {
  switch (st.known) {
    case 'now': return 'now';
    case 'reserved': return st.at ? `${due(st.at)}, nodes are reserved` : 'nodes are reserved';
    case 'forecast': return st.at ? `${due(st.at)}, forecast` : 'forecast';
    case 'never': return 'never, as things are';
    default: return 'not known';
  }
}

/** expected is start for a heading: what is read first, and the rest. */
export function expected(st) {
  switch (st.known) {
    case 'now': return ['now', ''];
    case 'reserved': case 'forecast': {
      const how = st.known === 'reserved' ? 'nodes are reserved' : 'a forecast';
      if (!st.at) return [how, ''];
      const left = (Date.parse(st.at) - serverNow()) / 1000;
      return left <= 0 ? ['now', `was expected at ${moment(st.at)}; ${how}`] : [`in ${lasting(left)}`, `at ${moment(st.at)}; ${how}`];
    }
    case 'never': return ['never, as things are', ''];
    default: return ['not known', ''];
  }
}

/** sentence begins with a capital letter and ends with a full stop. */
export const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}` : '');

/** path is the address of a view of an object. */
export const path = (view, ...parts) => '#/' + [view, ...parts].map(encodeURIComponent).join('/');

/** named is namespace/name. */
export const named = (ref) => `${ref.namespace}/${ref.name}`;
