// Queues: the tree with shares, and one queue over time.
import { ask } from './api.js';
import { bar, lines } from './chart.js';
import { choice, h, morph, s, table } from './dom.js';
import { count, gpus, moment, path, plain } from './format.js';

export function queues({ args, go }) {
  let main = null, all = null, past = null;
  const chosen = () => args[0] || past.queues.find((q) => q.at?.length && q.queue !== 'root')?.queue || past.queues[0]?.queue || '';

  function depth(q, byName) {
    let n = 0;
    for (let at = q; at.parent && byName.has(at.parent) && n < 20; at = byName.get(at.parent)) n++;
    return n;
  }

  function tree() {
    const byName = new Map(all.items.map((q) => [q.name, q]));
    const top = Math.max(1, ...all.items.filter((q) => !byName.get(q.parent)).map((q) => Math.max(q.gpus.entitled, q.gpus.used, q.gpus.capability || 0)));
    return table('GPUs of queues: used (filled), share (line), limit (dashed line)',
      [['Queue', 'tree'], ['Use'], ['Used', 'num'], ['Share', 'num'], ['Wanted', 'num wide'], ['Guarantee', 'num wide'], ['Limit', 'num wide'], ['Weight', 'num wide'], ['Balance', 'num wide'], ['Running', 'num wide'], ['Waiting', 'num wide'], ['State', 'wide']],
      inOrder(byName).map((q) => ({
        key: q.name,
        cells: [h('a', { href: path('queues', q.name), style: { 'margin-left': `${depth(q, byName) * 1.2}em` }, 'aria-current': q.name === chosen() ? 'true' : null }, q.name),
          bar(q.gpus, top), gpus(q.gpus.used), gpus(q.gpus.entitled), gpus(q.gpus.wanted), limit(q.gpus.guarantee), limit(q.gpus.capability), plain(q.weight),
          balance(q.balance), plain(q.running), q.waiting ? h('a', { href: `#/pending?queue=${encodeURIComponent(q.name)}` }, plain(q.waiting)) : '0',
          h('span', { class: `state-${q.state}` }, q.state)],
      })));
  }

  // A queue's children follow it; queues whose parent is hidden stand at the top.
  function inOrder(byName) {
    const out = [];
    const seen = new Set();
    const add = (q) => {
      if (seen.has(q.name)) return;
      seen.add(q.name);
      out.push(q);
      for (const child of all.items) if (child.parent === q.name) add(child);
    };
    for (const q of all.items) if (!byName.has(q.parent)) add(q);
    for (const q of all.items) add(q);
    return out;
  }

  function show() {
    if (!main || !all) return;
    const name = chosen();
    const series = past.queues.find((q) => q.queue === name);
    const samples = series?.at?.length || 0;
    morph(main, tree(), all.hidden ? h('p', { class: 'note' }, `and ${count(all.hidden, 'queue')} that you may not see.`) : null,
      h('div', { class: 'heading' }, h('h2', {}, name ? `${name}: share and use over time` : 'Over time'),
        samples > 1 ? h('ul', { class: 'legend', 'aria-label': 'Lines' }, [['used-line', 'used'], ['entitled-line', 'share (entitlement)'], ['wanted-line', 'wanted']].map(([cls, text]) =>
          h('li', { class: 'plain' }, s('svg', { class: 'line', viewBox: '0 0 28 8', width: 28, height: 8, 'aria-hidden': 'true' }, s('path', { class: cls, d: 'M0 4H28' })), text))) : null,
        past.queues.length ? choice('Queue', past.queues.map((q) => [q.queue, q.queue]), name, (q) => go(path('queues', q))) : null),
      samples > 1 ? [
        h('div', { id: 'chart' }, lines(series, past.everySeconds, Math.max(300, main.clientWidth - 2))),
        h('details', { id: 'figures' }, h('summary', {}, 'The same in figures'),
          table(`Last samples of ${name}, GPUs`, [['Time'], ['Used', 'num'], ['Share', 'num'], ['Wanted', 'num']],
            series.at.map((t, i) => ({ key: t, cells: [moment(t), gpus(series.used[i]), gpus(series.entitled[i]), gpus(series.wanted[i])] })).reverse().slice(0, 60))),
      ] : h('p', { class: 'note' }, `No samples yet; one is taken every ${past.everySeconds || 15} seconds.`));
  }

  return {
    title: 'Queues', every: 5000,
    mount: (el) => { main = el; },
    load: async (signal) => {
      const [a, b] = await Promise.all([ask('queues', {}, { signal }), ask('history', {}, { signal })]);
      return { queues: a, history: b, at: a.at };
    },
    show: (answer) => {
      if (!answer) return;
      all = { ...answer.queues, items: answer.queues.items || [] };
      past = { ...answer.history, queues: answer.history.queues || [] };
      show();
    },
    resized: show,
  };
}

const limit = (v) => (v === undefined ? h('span', { class: 'note' }, 'none') : gpus(v));
// balance is in GPU hours, or minutes below one.
function balance(seconds) {
  const [unit, name] = Math.abs(seconds) < 3600 ? [60, 'min'] : [3600, 'h'];
  const v = Math.round((seconds / unit) * 10) / 10;
  return v === 0 ? '0' : `${v > 0 ? '+' : ''}${plain(v)} GPU ${name}`;
}
