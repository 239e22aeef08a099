// A gang's plan as a picture: racks, nodes, devices, links.
import { ask } from './api.js';
import { facts, h, morph, s } from './dom.js';
import { count, expected, gpus, named, path } from './format.js';
import { nodes } from './nodes.js';

const C = 28, GAP = 6, ROW = 21; // px: a device, between two, and a row of links

/** picture draws members (query.Member with node and devices) on nodes, a Map by name that
 *  may lack some: then only what the members name is drawn. extra: names of nodes that are
 *  kept and have no member yet. */
export function picture(members, items, levels, extra = []) {
  const byNode = new Map(extra.map((name) => [name, []]));
  for (const m of members) if (m.node) byNode.set(m.node, [...(byNode.get(m.node) || []), m]);
  const groups = new Map();
  for (const [name, list] of [...byNode].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
    const node = items.get(name) || { name, devices: [], state: '' };
    const where = levels.map((l) => node.domains?.[l]).filter(Boolean).join(' / ');
    if (!groups.has(where)) groups.set(where, []);
    groups.get(where).push([node, list]);
  }
  return h('div', { class: 'plan' }, [...groups].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([where, list]) => h('section', { key: where || 'all', 'aria-label': where || 'Nodes' },
    h('h3', {}, where || 'Nodes'), h('div', { class: 'nodes' }, list.map(([node, mine]) => nodePicture(node, mine))))));
}

function nodePicture(node, members) {
  const mine = new Map(); // device index -> [member, part]
  members.forEach((m) => (m.devices || []).forEach((part) => mine.set(part.index, [...(mine.get(part.index) || []), [m, part]])));
  const devices = node.devices.length ? node.devices : [...mine.keys()].sort((a, b) => a - b).map((index) => ({ index, state: 'allocated' }));
  const at = new Map(devices.map((d, i) => [d.index, i]));
  const rows = linkRows(node.links || [], at);
  const width = Math.max(1, devices.length) * (C + GAP) + GAP;
  const height = GAP + C + rows.length * ROW + 6;
  const given = (m) => (m.devices?.length ? `${m.devices.length === 1 ? 'device' : 'devices'} ${m.devices.map(part).join(', ')}` : '');
  const words = members.map((m) => `${m.role ? `${m.role} ` : ''}${m.pod.name}${m.devices?.length ? ` on ${given(m)}` : ''}`);
  return h('figure', { key: node.name, style: { width: `${Math.max(width, 220) + 14}px` } },
    s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `${node.name}: ${count(devices.length, 'device')}; ${words.join('; ') || 'kept'}` },
      devices.map((d, i) => {
        const held = mine.get(d.index);
        const x = GAP + i * (C + GAP);
        const cls = held ? 'device mine' : d.state === 'failed' || d.health === 'failed' ? 'device bad' : d.state === 'free' ? 'device' : 'device other';
        const share = held && held.reduce((sum, [, p]) => sum + (p.milli || 1000), 0);
        return [
          s('rect', { class: held && share < 1000 ? 'device other' : cls, x, y: GAP, width: C, height: C, rx: 4 }),
          held && share < 1000 ? s('rect', { class: 'device mine', x, y: GAP, width: (C * Math.max(150, share)) / 1000, height: C, rx: 4 }) : null,
          s('text', { class: held || cls === 'device bad' ? 'on' : '', x: x + C / 2, y: GAP + C / 2 + 4, 'text-anchor': 'middle' }, String(d.index)),
        ];
      }),
      rows.map((row, n) => row.map(({ link, slots }) => {
        const xs = slots.map((i) => GAP + i * (C + GAP) + C / 2);
        const y = GAP + C + 9 + n * ROW;
        const left = Math.min(...xs), right = Math.max(...xs);
        return [
          s('path', { class: 'linkgroup', d: `M${left} ${y}H${right}${xs.map((x) => `M${x} ${y}v-6`).join('')}` }),
          s('text', { class: 'soft', x: (left + right) / 2, y: y + 12, 'text-anchor': 'middle' }, link),
        ];
      }))),
    h('figcaption', {}, h('b', {}, node.name), node.state && node.state !== 'ready' ? ` (${node.state})` : '', members.length ? null : ' kept',
      h('ul', {}, members.length ? null : holders(node).map(([gang, n]) => h('li', { key: gang }, gang, ' ', h('span', { class: 'note' }, `holds ${n}`))),
        members.slice(0, 8).map((m) => h('li', { key: m.pod.name }, m.role ? `${m.role} ` : '', m.pod.name, m.devices?.length ? [' ', h('span', { class: 'note' }, given(m))] : null)),
        members.length > 8 ? h('li', {}, `and ${members.length - 8} more`) : null)));
}

// holders are the gangs that hold devices of a node, [name, devices], the first few.
function holders(node) {
  const out = new Map();
  for (const d of node.devices) for (const name of new Set((d.holders || []).map((o) => named(o.gang)))) out.set(name, (out.get(name) || 0) + 1);
  return [...out].slice(0, 4);
}

// linkRows are groups of linked devices as they are drawn below each other: groups that do
// not overlap share a row. slots are positions from the left.
function linkRows(links, at) {
  const rows = [];
  for (const g of links.slice(0, 12)) {
    const slots = g.devices.filter((i) => at.has(i)).map((i) => at.get(i)).sort((a, b) => a - b);
    if (slots.length < 2) continue;
    let row = rows.findIndex((list) => list.every((o) => o.link === g.link && (o.slots.at(-1) < slots[0] || slots.at(-1) < o.slots[0])));
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push({ link: g.link, slots });
  }
  return rows;
}

const part = (p) => `${p.index}${p.profile ? ` (${p.profile})` : p.milli && p.milli < 1000 ? ` (${gpus(p.milli)})` : ''}`;

/** key explains the colours of picture. */
export const key = () => h('ul', { class: 'legend', 'aria-label': 'Colours' }, [['mine', 'of the gang'], ['other', 'held by others, or kept out of use'], ['', 'free'], ['bad', 'failed']].map(([cls, text]) =>
  h('li', { class: 'plain' }, s('svg', { class: 'swatch', viewBox: '0 0 14 14', width: 14, height: 14, 'aria-hidden': 'true' }, s('rect', { class: `device ${cls}`, x: 1, y: 1, width: 12, height: 12, rx: 3 })), text)),
h('li', { class: 'plain' }, s('svg', { class: 'swatch', viewBox: '0 0 14 14', width: 14, height: 14, 'aria-hidden': 'true' }, s('path', { class: 'linkgroup', d: 'M1 9H13M1 9V4M13 9V4' })), 'joined by a link'));

/** optionalNodes is what is known of nodes, or nothing where the visitor may not ask. */
export async function optionalNodes(signal) {
  try {
    return await nodes(signal);
  } catch (error) {
    if (error.status === 403) return { items: new Map(), levels: [] };
    throw error;
  }
}

export function plan({ args: [namespace, name] }) {
  let main = null;
  return {
    title: `Plan of ${namespace}/${name}`, every: 4000,
    mount: (el) => { main = el; },
    load: async (signal) => {
      const [why, all] = await Promise.all([ask('why', { namespace, name }, { signal }), optionalNodes(signal)]);
      return { why, all, at: why.at };
    },
    show: (answer) => {
      if (!answer) return;
      const { why, all } = answer;
      const members = why.gang.members || [];
      const placed = members.filter((m) => m.node);
      const kept = placed.length ? [] : why.start?.nodes || why.gang.reserved || [];
      const waits = why.gang.phase === 'Waiting';
      morph(main, !why.found ? h('div', { class: 'answer' }, h('p', {}, why.text)) : [
        facts([['Phase', why.gang.phase], ['Members with a place', `${placed.length} of ${members.length}`], ['GPUs', gpus(why.gang.milli)], ['Queue', why.gang.queue],
          ['Expected start', waits ? expected(why.start).filter(Boolean).join(', ') : ''], ['Why', h('a', { href: path('why', namespace, name) }, waits ? 'and what would help' : 'and when')]]),
        placed.length || kept.length ? [kept.length ? h('p', {}, `No member has a place yet. ${kept.length === 1 ? 'This node is' : `These ${kept.length} nodes are`} ${why.gang.reserved?.length ? 'kept for it until what runs there has ended' : 'expected to take it'}:`) : null, key(), picture(members, all.items, all.levels || [], kept)] :
          h('div', { class: 'answer' }, h('p', {}, `No member has a place: ${why.text}`))]);
    },
  };
}
