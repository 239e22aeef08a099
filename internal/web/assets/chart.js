// Pictures of numbers: lines over time, and a bar of use against limits.
import { s } from './dom.js';
import { gpus, moment } from './format.js';

const H = 260, LEFT = 46, BOTTOM = 24, TOP = 10;

/** lines is one queue's series (query.QueueSeries) as a chart of the given width. */
export function lines(series, everySeconds, width) {
  const at = series.at.map((t) => Date.parse(t));
  const from = at[0], to = Math.max(at.at(-1), from + 1000);
  const top = nice(Math.max(1000, ...series.used, ...series.entitled, ...series.wanted));
  const x = (t) => LEFT + ((t - from) / (to - from)) * (width - LEFT - 12);
  const y = (v) => TOP + (1 - v / top) * (H - TOP - BOTTOM);
  // Without a leader there are no samples: the line has a gap.
  const gap = (i) => i === 0 || at[i] - at[i - 1] > everySeconds * 3500;
  const point = (i, v) => `${x(at[i]).toFixed(1)} ${y(v).toFixed(1)}`;
  // A sample holds until the next one: what happened in between is not known, so no slope.
  const step = (i, v) => `H${x(at[i]).toFixed(1)}V${y(v).toFixed(1)}`;
  const path = (values) => values.map((v, i) => (gap(i) ? `M${point(i, v)}` : step(i, v))).join('');
  const area = series.used.map((v, i) => (gap(i) ? `${i ? `L${point(i - 1, 0)}Z` : ''}M${point(i, 0)}L${point(i, v)}` : step(i, v))).join('') + `L${point(at.length - 1, 0)}Z`;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((f) => f * top);
  const times = width < 500 ? 3 : 6;
  return s('svg', { class: 'chart', viewBox: `0 0 ${width} ${H}`, role: 'img', 'aria-label': summary(series) },
    ticks.map((v) => [s('line', { class: 'axis', x1: LEFT, x2: width - 12, y1: y(v), y2: y(v) }), s('text', { class: 'soft', x: LEFT - 6, y: y(v) + 4, 'text-anchor': 'end' }, gpus(v))]),
    Array.from({ length: times }, (_, i) => from + ((to - from) * i) / (times - 1)).map((t, i) =>
      s('text', { class: 'soft', x: x(t), y: H - 6, 'text-anchor': i === 0 ? 'start' : i === times - 1 ? 'end' : 'middle' }, moment(t))),
    s('path', { class: 'used-area', d: area }),
    s('path', { class: 'wanted-line', d: path(series.wanted) }),
    s('path', { class: 'entitled-line', d: path(series.entitled) }),
    s('path', { class: 'used-line', d: path(series.used) }));
}

function summary(series) {
  const now = series.used.length - 1;
  const mean = series.used.reduce((a, b) => a + b, 0) / series.used.length;
  return `Queue ${series.queue}: uses ${gpus(series.used[now])} GPUs, entitled to ${gpus(series.entitled[now])}, wants ${gpus(series.wanted[now])}; used ${gpus(mean)} on average since ${moment(series.at[0])}.`;
}

const nice = (v) => {
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 4, 5, 8, 10].map((n) => n * unit).find((n) => n >= v);
};

/** bar is what a queue uses (filled), its share (a line) and its limit (a dashed line). top
 *  is the value of the full width. */
export function bar(r, top) {
  const w = (v) => Math.min(100, (100 * v) / Math.max(1, top));
  const over = Math.max(0, r.used - r.entitled);
  return s('svg', {
    class: 'bar', viewBox: '0 0 100 16', preserveAspectRatio: 'none', role: 'img',
    'aria-label': `uses ${gpus(r.used)} of a share of ${gpus(r.entitled)}${r.capability !== undefined ? `, limit ${gpus(r.capability)}` : ''}`,
  },
  s('rect', { class: 'track', width: 100, height: 16 }),
  s('rect', { class: 'used-fill', width: w(Math.min(r.used, r.entitled)), height: 16 }),
  over ? s('rect', { class: 'over-fill', x: w(r.entitled), width: Math.max(0, w(r.used) - w(r.entitled)), height: 16 }) : null,
  mark('mark-entitled', w(r.entitled)), r.capability !== undefined ? mark('mark-limit', w(r.capability)) : null);
}

const mark = (cls, x) => s('line', { class: cls, x1: Math.min(99.5, x), x2: Math.min(99.5, x), y1: 0, y2: 16, 'vector-effect': 'non-scaling-stroke' });
