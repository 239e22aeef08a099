// Work: what waits, in the order of starting, with its reason and expected start; and what
// runs.
import { ask } from './api.js';
import { choice, field, h, morph, table } from './dom.js';
import { ago, count, due, gpus, path, plain } from './format.js';

const ROWS = 200;     // shown at once
const SOME = 500;     // asked for without a filter
const ALL = 10_000;   // asked for to search among: query.MaxLimit

// reason begins with what is waited for, as a mark that can be found at a glance.
function reason(r) {
  const kind = r.never ? 'Never' : r.class;
  return [kind ? h('span', { class: `who class-${kind}` }, kind) : null, r.text.replace(/^waits for (capacity|quota|members|its turn): /, '')];
}

export function pending({ query, say }) {
  const want = { ns: query.get('ns') || '', q: query.get('q') || '', phase: query.get('phase') ?? 'Waiting', queue: query.get('queue') || '' };
  let main = null, answer = null, before = null, again = () => {};

  const set = (change) => {
    const asks = ['ns', 'phase', 'queue'].some((k) => k in change) || (!want.q !== !change.q && 'q' in change);
    Object.assign(want, change);
    const p = new URLSearchParams(Object.entries(want).filter(([k, v]) => (k === 'phase' ? v !== 'Waiting' : v)));
    history.replaceState(null, '', `#/pending${p.size ? `?${p}` : ''}`);
    if (asks) {
      clearTimeout(set.timer);
      set.timer = setTimeout(() => again(), 250);
    }
    show();
  };

  function show() {
    if (!main || !answer) return;
    const text = want.q.toLowerCase();
    const found = (answer.items || []).filter((g) => !text || `${g.namespace}/${g.name} ${g.owner || ''} ${g.user || ''}`.toLowerCase().includes(text));
    const hidden = Object.values(answer.hidden || {}).reduce((a, b) => a + b, 0);
    const waiting = want.phase === 'Waiting' || want.phase === '';
    morph(main,
      h('form', { class: 'controls', role: 'search', onsubmit: (e) => e.preventDefault() },
        field('Namespace', h('input', { id: 'ns', value: want.ns, autocomplete: 'off', oninput: (e) => set({ ns: e.target.value.trim() }) })),
        field('Name, owner or user contains', h('input', { id: 'q', type: 'search', value: want.q, autocomplete: 'off', oninput: (e) => set({ q: e.target.value.trim() }) })),
        choice('Phase', [['Waiting', 'Waiting'], ['Partial', 'Runs, members wait'], ['Starting', 'Starting'], ['Running', 'Running'], ['', 'All']], want.phase, (phase) => set({ phase })),
        want.queue ? h('button', { type: 'button', onclick: () => set({ queue: '' }) }, `Queue ${want.queue}: show all`) : null),
      table(`${count(found.length, 'gang')}${found.length > ROWS ? `, the first ${ROWS} shown` : ''}${answer.continue ? ', there are more: narrow the search' : ''}`,
        [['Turn', 'num'], ['Gang', 'name'], ['Kind', 'wide'], ['Queue', 'wide'], ['GPUs', 'num'], [waiting ? 'Waits' : 'Age', 'num'], ['Reason', 'reason'], ['Expected start']],
        found.slice(0, ROWS).map((g) => ({
          key: `${g.namespace}/${g.name}`,
          cells: [g.position ? plain(g.position) : '', h('a', { href: path('why', g.namespace, g.name) }, `${g.namespace}/${g.name}`), g.kind, g.queue, gpus(g.milli), ago(g.submitted),
            g.reason?.text ? reason(g.reason) : g.phase, g.expectedStart ? due(g.expectedStart) : g.phase === 'Waiting' ? (g.reason?.never ? 'never, as things are' : 'not known') : ''],
        })), want.ns || want.q ? 'None matches.' : 'Nothing waits.'),
      hidden ? h('p', { class: 'note' }, `and ${count(hidden, 'gang')} that you may not see.`) : null);
  }

  return {
    title: 'Pending', every: 3000,
    mount: (el, live) => {
      main = el;
      again = live;
    },
    load: (signal) => ask('gangs', { phase: want.phase, namespace: want.ns, queue: want.queue, limit: want.q ? ALL : SOME }, { signal }),
    show: (a) => {
      if (!a) return;
      answer = a;
      const names = new Set((a.items || []).map((g) => `${g.namespace}/${g.name}`));
      if (before && want.phase === 'Waiting') {
        const gone = [...before].filter((n) => !names.has(n)).length;
        const came = [...names].filter((n) => !before.has(n)).length;
        if (gone || came) say(`${count(gone, 'gang')} left the list, ${count(came, 'gang')} joined it.`);
      }
      before = names;
      show();
    },
    close: () => clearTimeout(set.timer),
  };
}
