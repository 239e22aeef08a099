// The fleet: sums, the map of all devices, and the same as a table.
import { ask } from './api.js';
import { choice, field, h, morph, s, table } from './dom.js';
import { count, gpus, lasting, memory, named, path, plain } from './format.js';
import { FleetMap, domain, parts, tint, used } from './map.js';
import { nodes } from './nodes.js';

const PAGE = 64; // devices on a page of the table
const WORDS = { free: 'free', allocated: 'allocated', idle_allocated: 'allocated, idle', failed: 'failed', cordoned: 'cordoned', degraded: 'degraded', hidden: 'others (you may not see whose)' };

export function fleet({ query, go }) {
  const want = { by: query.get('by') || 'state', group: query.get('group'), find: query.get('find') || '', as: query.get('as') || 'map', page: 0, only: '' };
  const counted = new Map(); // by what is coloured: sums of nodes
  let known = null, sums = null, picked = null, error = null, main = null;
  const map = new FleetMap({
    picked: (node, device) => {
      picked = [node.name, device.index];
      const place = main?.querySelector('#detail');
      if (!place) return;
      place.className = 'detail picked';
      morph(place, detail());
    },
    opened: (node, device) => {
      const holder = device.holders?.[0];
      if (holder) go(path('why', holder.gang.namespace, holder.gang.name));
    },
  });

  const found = (node) => {
    const text = want.find.toLowerCase();
    if (!text) return true;
    return node.name.toLowerCase().includes(text) || Object.values(node.domains || {}).some((d) => d.toLowerCase().includes(text)) ||
      node.devices.some((d) => d.model.toLowerCase().includes(text) || (d.holders || []).some((o) => named(o.gang).toLowerCase().includes(text) || named(o.pod).toLowerCase().includes(text)));
  };
  map.find = found;
  const set = (change) => {
    Object.assign(want, change);
    if ('by' in change || 'only' in change) {
      if ('by' in change) want.only = '';
      map.by = want.by;
      map.only = want.only;
      map.restyle();
    }
    const p = new URLSearchParams();
    if (want.by !== 'state') p.set('by', want.by);
    if (want.group !== null) p.set('group', want.group);
    if (want.find) p.set('find', want.find);
    if (want.as !== 'map') p.set('as', want.as);
    history.replaceState(null, '', `#/fleet${p.size ? `?${p}` : ''}`);
    show(null);
  };
  map.by = want.by;

  const level = () => (want.group ?? used(known.levels, known.items).at(-1) ?? '');

  function controls() {
    return h('div', { class: 'controls' },
      choice('Colour by', [['state', 'State'], ['namespace', 'Owner (namespace)'], ['queue', 'Queue']], want.by, (by) => set({ by })),
      choice('Group by', [...used(known.levels, known.items).map((l) => [l, l]), ['', 'nothing']], level(), (group) => set({ group })),
      field('Find', h('input', { type: 'search', id: 'find', placeholder: 'node, model, gang or pod', value: want.find, oninput: (e) => set({ find: e.target.value, page: 0 }) })),
      h('button', { type: 'button', id: 'as', onclick: () => set({ as: want.as === 'map' ? 'table' : 'map', page: 0 }) }, want.as === 'map' ? 'Show as table' : 'Show as map'));
  }

  // nodeTotals are the sums of one node by colour. A node that did not change is the same
  // object as before, so an update adds up only those that did.
  function nodeTotals(node) {
    let own = counted.get(want.by)?.get(node);
    if (!own) {
      own = new Map();
      for (const device of node.devices) for (const [from, to, key] of parts(device, want.by)) own.set(key, (own.get(key) || 0) + to - from);
      if (!counted.has(want.by)) counted.set(want.by, new WeakMap());
      counted.get(want.by).set(node, own);
    }
    return own;
  }

  function legend() {
    const totals = new Map();
    for (const node of known.items.values()) for (const [key, milli] of nodeTotals(node)) totals.set(key, (totals.get(key) || 0) + milli);
    const all = [...totals].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const more = all.slice(14);
    return h('ul', { class: 'legend', 'aria-label': 'Legend: GPUs by colour; a button shows one colour alone' },
      all.slice(0, 14).map(([key, milli]) => h('li', { key: `k-${key}` },
        h('button', { type: 'button', 'aria-pressed': String(want.only === key), onclick: () => set({ only: want.only === key ? '' : key }) },
          swatch(tint(key, want.by)), `${WORDS[key] || key} ${gpus(milli)}`))),
      more.length ? h('li', { class: 'plain' }, `and ${count(more.length, 'other')}: ${gpus(more.reduce((sum, [, v]) => sum + v, 0))}`) : null);
  }

  function detail() {
    const node = picked && known?.items.get(picked[0]);
    const device = node?.devices.find((d) => d.index === picked[1]);
    if (!device) return h('p', { class: 'note', id: 'map-help' }, 'Point at a device to see who holds it. A dashed frame: the node is kept for a gang. ', h('span', { class: 'wide' }, 'By keyboard: arrow keys, Page keys for the next group, Enter for its holder.'));
    const where = known.levels.map((l) => node.domains?.[l]).filter(Boolean).join(' / ');
    const measured = [device.utilization !== undefined && `${device.utilization} % busy`, device.temperature !== undefined && `${device.temperature} °C`].filter(Boolean).join(', ');
    return [
      h('p', {}, h('b', {}, `${node.name}, device ${device.index}`), ` ${device.model}, ${memory(device.memoryMiB)}${where ? `, in ${where}` : ''}: `,
        h('span', { class: `state-${device.state}` }, WORDS[device.state] || device.state),
        node.state !== 'ready' ? [', node ', h('span', { class: `state-${node.state}` }, node.state)] : '',
        device.detail ? ` (${device.detail})` : '', measured ? `, ${measured}` : '', node.keptFor ? ['. Kept for ', gangLink(node.keptFor)] : node.kept ? '. Kept for a gang' : '', '.'),
      differs(device) ? h('p', { class: 'note' }, `${gpus(device.heldMilli)} of it is not left for others; queues and quotas count ${gpus(device.chargedMilli)}.`) : null,
      (device.holders || []).map((o) => h('p', {}, gangLink(o.gang), `${o.pod.name === o.gang.name ? '' : `, pod ${o.pod.name}`}, queue ${o.queue || 'none'}: ${held(o)}${o.starting ? ', starting' : ''}`)),
      device.hidden ? h('p', { class: 'note' }, `and ${count(device.hidden, 'holder')} that you may not see.`) : null,
    ];
  }

  function asTable() {
    const rows = [];
    for (const node of known.items.values()) if (found(node)) for (const device of node.devices) rows.push([node, device]);
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    want.page = Math.min(want.page, pages - 1);
    const lvl = level();
    return [
      table(`Devices ${plain(rows.length ? want.page * PAGE + 1 : 0)} to ${plain(Math.min(rows.length, (want.page + 1) * PAGE))} of ${plain(rows.length)}`,
        [[lvl || 'Group', 'wide'], ['Node'], ['Device', 'num'], ['Model', 'wide'], ['State'], ['Held', 'num'], ['By']],
        rows.slice(want.page * PAGE, (want.page + 1) * PAGE).map(([node, device]) => ({
          key: `${node.name} ${device.index}`,
          cells: [domain(node, lvl), node.state === 'ready' ? node.name : `${node.name} (${node.state})`, device.index, device.model,
            h('span', { class: `state-${device.state}` }, WORDS[device.state] || device.state), differs(device) ? `${gpus(device.heldMilli)} (charged ${gpus(device.chargedMilli)})` : gpus(device.heldMilli),
            [(device.holders || []).map((o, i) => [i ? ', ' : '', gangLink(o.gang), ` ${held(o)}`]), device.hidden ? ` ${count(device.hidden, 'hidden holder')}` : '']],
        }))),
      rows.some(([, device]) => differs(device)) ? h('p', { class: 'note' }, 'Held: what is not left for others. Charged: what queues and quotas count, another number where a GPU is cut or shared.') : null,
      h('div', { class: 'controls' },
        h('button', { type: 'button', disabled: want.page === 0, onclick: () => set({ page: want.page - 1 }) }, 'Previous page'),
        h('button', { type: 'button', disabled: want.page >= pages - 1, onclick: () => set({ page: want.page + 1 }) }, 'Next page')),
    ];
  }

  function show(changed) {
    if (!main || !known) return;
    const begin = performance.now();
    if (known.hidden && !known.items.size) {
      morph(main, tiles(sums), h('p', { class: 'note' }, `You may not list nodes: ${count(known.hidden, 'node')} appear only as sums.`), models(sums));
      return;
    }
    morph(main, error ? h('p', { class: 'error' }, error) : null, tiles(sums), controls(), legend(),
      want.as === 'map' ? h('div', { id: 'map-box' }, h('div', { id: 'map-place', 'data-own': true }), h('div', { id: 'detail', class: picked ? 'detail picked' : 'detail', 'aria-live': 'polite' }, detail())) : asTable(),
      models(sums));
    if (want.as === 'map') {
      const place = main.querySelector('#map-place');
      if (map.el.parentNode !== place) {
        place.append(map.el);
        changed = null;
      }
      map.show(known.items, level(), changed);
    }
    performance.measure('fleet-show', { start: begin });
  }

  return {
    title: 'Fleet', every: 2000, map,
    mount: (el) => { main = el; },
    load: async (signal) => {
      const [a, b] = await Promise.all([ask('fleet', {}, { signal }), nodes(signal)]);
      return { fleet: a, nodes: b, at: b.at || a.at };
    },
    show: (answer) => {
      if (!answer) return;
      sums = answer.fleet;
      known = answer.nodes;
      show(answer.nodes.changed);
    },
    restyle: () => { map.restyle(); },
    close: () => map.close(),
  };
}

/** differs: what queues count for a device is not what of it is held. */
const differs = (d) => d.chargedMilli > 0 && d.chargedMilli !== d.heldMilli;

const held = (o) => (o.profile ? `MIG ${o.profile}` : o.memoryMiB ? `${gpus(o.milli)} GPU, ${memory(o.memoryMiB)}` : `${gpus(o.milli)} GPU`);

/** gangLink is a gang's name that leads to its why. */
export const gangLink = (ref) => h('a', { href: path('why', ref.namespace, ref.name) }, named(ref));

/** swatch is a colour of style.css as a picture, with the mark that the map uses. */
export const swatch = (name) => s('svg', { class: 'swatch', viewBox: '0 0 14 14', width: 14, height: 14, 'aria-hidden': 'true' },
  s('rect', { width: 14, height: 14, rx: 3, style: { fill: `var(--${name})` } }),
  name === 'failed' ? s('path', { d: 'M3 3l8 8M11 3l-8 8', style: { stroke: 'var(--bg)', 'stroke-width': 2 } }) : null,
  name === 'cordoned' ? s('path', { d: 'M3 7h8', style: { stroke: 'var(--bg)', 'stroke-width': 2 } }) : null,
  name === 'degraded' ? s('circle', { cx: 7, cy: 7, r: 2.5, style: { fill: 'var(--bg)' } }) : null);

/** tiles are the sums of a fleet. */
export function tiles(f) {
  if (!f) return null;
  const by = {};
  let total = 0;
  for (const m of f.models || []) {
    total += m.milli;
    for (const [state, v] of Object.entries(m.byState || {})) by[state] = (by[state] || 0) + v;
  }
  const tile = (name, value, note, more) => h('li', { key: name }, h('span', {}, name), h('b', {}, value), more, h('span', {}, note));
  const n = f.nodes, w = f.work;
  return [
    f.scheduler.suspended ? h('p', { class: 'error' }, 'The scheduler cannot reach the API server: nothing is started until it answers.') : null,
    h('ul', { class: 'tiles', 'aria-label': 'Sums' },
      tile('GPUs allocated', `${gpus((by.allocated || 0) + (by.idle_allocated || 0))} of ${gpus(total)}`, `${gpus(by.free)} free`, states(by, total)),
      tile('Out of service', gpus((by.failed || 0) + (by.cordoned || 0) + (by.degraded || 0)), `${gpus(by.failed)} failed`),
      tile('Nodes ready', `${plain(n.ready)} of ${plain(n.total)}`, `${plain(n.cordoned)} cordoned, ${plain(n.lost)} lost`),
      tile('Running', count(w.runningGangs, 'gang'), count(w.runningPods, 'pod')),
      tile('Waiting', count(w.waitingGangs, 'gang'), w.waitingGangs ? `${count(w.waitingPods, 'pod')}, oldest ${lasting(w.oldestSeconds)}` : count(w.waitingPods, 'pod')),
      tile('Fragmentation', `${plain(Math.round(f.fragmentation * 1000) / 10)} %`, 'of free GPUs unusable'))];
}

const STATES = ['allocated', 'idle_allocated', 'degraded', 'cordoned', 'failed', 'free'];

// states is a bar of GPUs by state, in the colours of the map. The figures stand beside it.
function states(by, total) {
  let at = 0;
  return s('svg', { class: 'statebar', viewBox: '0 0 1000 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, s('rect', { class: 'track', width: 1000, height: 10 }),
    STATES.map((state) => {
      const width = (1000 * (by?.[state] || 0)) / Math.max(1, total);
      const x = at;
      at += width;
      return state !== 'free' && width ? s('rect', { x: x.toFixed(1), width: width.toFixed(1), height: 10, style: { fill: `var(--${state})` } }) : null;
    }));
}

function models(f) {
  return [h('h2', {}, 'Models'), table('GPUs by model and state', [['Model'], ['Use', 'use wide'], ['All', 'num'], ...STATES.map((st) => [WORDS[st], st === 'free' || st === 'allocated' ? 'num' : 'num wide'])],
    (f?.models || []).map((m) => ({ key: `${m.vendor} ${m.model}`, cells: [`${m.vendor} ${m.model}`, states(m.byState, m.milli), gpus(m.milli), ...STATES.map((st) => (m.byState?.[st] ? gpus(m.byState[st]) : h('span', { class: 'note' }, '0')))] })))];
}
