// What was decided lately: placements, starts, evictions.
import { ask } from './api.js';
import { choice, h, morph, s, table } from './dom.js';
import { gangLink } from './fleet.js';
import { count, gpus, moment, named } from './format.js';

const KEPT = 2000, ROWS = 200;
const KINDS = [['Placed', 'c0'], ['Started', 'c2'], ['Reserved', 'c5'], ['Evicted', 'c8'], ['StartFailed', 'c1'], ['Ended', 'c11']];

// forWhom is the text of an event, in which the name of the gang that gained by it is a link.
function forWhom(e) {
  if (!e.for) return e.text;
  const [before, ...after] = e.text.split(named(e.for));
  return after.length ? [before, gangLink(e.for), after.join(named(e.for))] : [e.text, ', for ', gangLink(e.for)];
}

export function timeline({ query, say }) {
  let main = null, version = 0, items = [], lost = false, hidden = 0, kind = query.get('kind') || '';

  function strip(list) {
    const width = Math.max(300, main.clientWidth - 2), left = 84, row = 22;
    const from = Date.parse(list[0].at), to = Math.max(Date.parse(list.at(-1).at), from + 1000);
    const x = (t) => left + ((Date.parse(t) - from) / (to - from)) * (width - left - 14);
    const height = KINDS.length * row + 26;
    return s('svg', { class: 'chart strip', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${count(list.length, 'event')} from ${moment(list[0].at)} to ${moment(list.at(-1).at)}: ${KINDS.map(([k]) => `${list.filter((e) => e.kind === k).length} ${k}`).join(', ')}` },
      KINDS.map(([k, colour], i) => [
        s('text', { class: 'soft', x: 0, y: i * row + 17 }, k),
        s('line', { class: 'axis', x1: left, x2: width - 8, y1: i * row + 13, y2: i * row + 13 }),
        list.filter((e) => e.kind === k).map((e) => s('circle', { cx: x(e.at).toFixed(1), cy: i * row + 13, r: 5, style: { fill: `var(--${colour})`, 'fill-opacity': 0.75 } })),
      ]),
      s('text', { class: 'soft', x: left, y: height - 4 }, moment(list[0].at)), s('text', { class: 'soft', x: width - 8, y: height - 4, 'text-anchor': 'end' }, moment(list.at(-1).at)));
  }

  function show() {
    if (!main) return;
    const list = kind ? items.filter((e) => e.kind === kind) : items;
    morph(main,
      h('div', { class: 'controls' }, choice('Show', [['', 'Everything'], ...KINDS.map(([k]) => [k, k])], kind, (k) => {
        kind = k;
        history.replaceState(null, '', `#/timeline${k ? `?kind=${k}` : ''}`);
        show();
      })),
      list.length ? strip(list) : null,
      lost ? h('p', { class: 'note' }, 'Some events in between are no longer kept.') : null,
      hidden ? h('p', { class: 'note' }, `${count(hidden, 'event')} of gangs that you may not see.`) : null,
      table(`${count(list.length, 'event')}, the latest first`, [['Time'], ['What'], ['Gang', 'name'], ['GPUs', 'num wide'], ['Nodes', 'wide'], ['Text', 'reason']],
        list.slice(-ROWS).reverse().map((e) => ({
          key: String(e.version),
          cells: [moment(e.at), h('span', { class: `state-${e.kind}` }, e.kind), gangLink(e.gang), e.milli ? gpus(e.milli) : '', (e.nodes || []).slice(0, 6).join(', ') + ((e.nodes || []).length > 6 ? ` and ${e.nodes.length - 6} more` : ''), forWhom(e)],
        })), 'Nothing yet.'));
  }

  return {
    title: 'Timeline', every: 2000,
    mount: (el) => { main = el; },
    load: (signal) => ask('timeline', version ? { since: version } : {}, { signal }),
    show: (a) => {
      if (!a) return;
      const fresh = a.items || [];
      if (version && fresh.length) say(`${count(fresh.length, 'new event')}.`);
      if (version && a.version < version) items = []; // another leader counts anew
      lost ||= Boolean(a.lost && version);
      hidden = version && a.version >= version ? hidden + (a.hidden || 0) : a.hidden || 0;
      version = a.version;
      items = [...items, ...fresh].slice(-KEPT);
      show();
    },
    resized: show,
  };
}
