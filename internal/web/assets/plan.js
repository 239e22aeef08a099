// A gang's plan as a picture: racks, nodes, devices, links.
import { ask } from './api.js';
import { domain } from './map.js';
import { h, morph, s } from './dom.js';
import { count, gpus, named, path } from './format.js';
import { nodes } from './nodes.js';

const C = 34, GAP = 8; // px: a device, and between two

/** picture draws members (query.Member with node and devices) on nodes, a Map by name that
 *  may lack some: then only what the members name is drawn. extra: names of nodes that are
 *  kept and have no member yet. */
export function picture(members, items, levels, extra = []) {
  const byNode = new Map(extra.map((name) => [name, []]));
  for (const m of members) if (m.node) byNode.set(m.node, [...(byNode.get(m.node) || []), m]);
  const level = levels.at(-1) || '';
  const groups = new Map();
  for (const [name, list] of [...byNode].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
    const node = items.get(name) || { name, devices: [], state: '' };
    const where = level && items.has(name) ? levels.map((l) => domain(node, l)).join(' / ') : '';
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
  const groups = (node.links || []).slice(0, 8);
  const width = Math.max(1, devices.length) * (C + GAP) + GAP;
  const height = GAP + C + groups.length * 18 + 6;
  const words = members.map((m) => `${m.role ? `${m.role} ` : ''}${m.pod.name}${m.devices?.length ? ` on device ${m.devices.map(part).join(', ')}` : ''}`);
  return h('figure', { key: node.name },
    s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `${node.name}: ${count(devices.length, 'device')}; ${words.join('; ') || 'kept'}` },
      devices.map((d, i) => {
        const held = mine.get(d.index);
        const x = GAP + i * (C + GAP);
        const cls = held ? 'device mine' : d.state === 'failed' || d.health === 'failed' ? 'device bad' : d.state === 'free' ? 'device' : 'device other';
        const share = held && held.reduce((sum, [, p]) => sum + (p.milli || 1000), 0);
        return [
          s('rect', { class: held && share < 1000 ? 'device other' : cls, x, y: GAP, width: C, height: C, rx: 4 }),
          held && share < 1000 ? s('rect', { class: 'device mine', x, y: GAP, width: (C * Math.max(150, share)) / 1000, height: C, rx: 4 }) : null,
          s('text', { class: held ? 'on' : cls === 'device' ? '' : 'on', x: x + C / 2, y: GAP + C / 2 + 4, 'text-anchor': 'middle' }, String(d.index)),
        ];
      }),
      groups.map((g, row) => {
        const xs = g.devices.filter((i) => at.has(i)).map((i) => GAP + at.get(i) * (C + GAP) + C / 2);
        if (xs.length < 2) return null;
        const y = GAP + C + 10 + row * 18;
        const left = Math.min(...xs), right = Math.max(...xs);
        return [
          s('path', { class: 'linkgroup', d: `M${left} ${y}H${right}${xs.map((x) => `M${x} ${y}v-7`).join('')}` }),
          s('text', { class: 'soft', x: left, y: y + 12, 'font-size': 10 }, g.link),
        ];
      })),
    h('figcaption', {}, h('b', {}, node.name), node.state && node.state !== 'ready' ? ` (${node.state})` : '', words.length ? [': ', words.slice(0, 8).join('; '), words.length > 8 ? ` and ${words.length - 8} more` : ''] : ': kept'));
}

const part = (p) => `${p.index}${p.profile ? ` (${p.profile})` : p.milli && p.milli < 1000 ? ` (${gpus(p.milli)})` : ''}`;

/** key explains the colours of picture. */
export const key = () => h('p', { class: 'note' }, 'Blue with a number: devices of the gang. Pale: free. Grey: held by others. Red: failed. Green lines: devices with a faster link.');

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
      morph(main, h('p', {}, h('a', { href: path('why', namespace, name) }, `Why and when: ${named(why.gang)}`)),
        !why.found ? h('p', { class: 'answer' }, why.text) : [
          h('p', {}, `${placed.length} of ${count(members.length, 'member')} ${placed.length === 1 ? 'has' : 'have'} a place; ${gpus(why.gang.milli)} GPUs, phase ${why.gang.phase}.`),
          placed.length || kept.length ? [kept.length ? h('p', {}, 'No member has a place yet; these nodes are expected or kept for it:') : null, key(), picture(members, all.items, all.levels || [], kept)] :
            h('p', { class: 'answer' }, `No member has a place: ${why.text}`)]);
    },
  };
}
