// Health: nodes and devices that are out of service or near it.
import { ask } from './api.js';
import { h, morph, table } from './dom.js';
import { gangLink, tiles } from './fleet.js';
import { count, plain } from './format.js';
import { domain, used } from './map.js';
import { optionalNodes } from './plan.js';

const ROWS = 200;

export function health() {
  let main = null;
  return {
    title: 'Health', every: 5000,
    mount: (el) => { main = el; },
    load: async (signal) => {
      const [sums, all] = await Promise.all([ask('fleet', {}, { signal }), optionalNodes(signal)]);
      return { sums, all, at: sums.at };
    },
    show: (answer) => {
      if (!answer) return;
      const { sums, all } = answer;
      const level = used(all.levels, all.items).at(-1) || '';
      const nodes = [], devices = [], hot = [];
      for (const node of all.items.values()) {
        if (node.state !== 'ready') nodes.push(node);
        for (const d of node.devices) {
          if (d.health !== 'healthy' || d.state === 'failed' || d.state === 'cordoned' || d.state === 'degraded') devices.push([node, d]);
          if (d.temperature !== undefined) hot.push([node, d]);
        }
      }
      hot.sort((a, b) => b[1].temperature - a[1].temperature);
      const where = (node) => (level ? domain(node, level) : '');
      const holders = (d) => [(d.holders || []).map((o, i) => [i ? ', ' : '', gangLink(o.gang)]), d.hidden ? ` ${count(d.hidden, 'hidden holder')}` : ''];
      morph(main, tiles(sums), h('p', {}, `Scheduler: ${sums.scheduler.holder || 'unknown'}, version ${sums.scheduler.version || 'unknown'}${sums.scheduler.suspended ? '; it cannot reach the API server' : ''}.`),
        all.hidden ? h('p', { class: 'note' }, `You may not list nodes: ${count(all.hidden, 'node')} appear only in the sums.`) : [
          h('h2', {}, 'Nodes out of service'),
          table(count(nodes.length, 'node'), [['Node'], [level || 'Group', 'wide'], ['State'], ['Devices', 'num']],
            nodes.slice(0, ROWS).map((n) => ({ key: n.name, cells: [n.name, where(n), h('span', { class: `state-${n.state}` }, n.state), plain(n.devices.length)] })), 'All nodes are ready.'),
          h('h2', {}, 'Devices out of service or degraded'),
          table(`${count(devices.length, 'device')}${devices.length > ROWS ? `, the first ${ROWS} shown` : ''}`, [['Node'], ['Device', 'num'], ['Model', 'wide'], ['State'], ['Health'], ['Seen'], ['Held by', 'wide']],
            devices.slice(0, ROWS).map(([n, d]) => ({ key: `${n.name} ${d.index}`, cells: [n.name, d.index, d.model, h('span', { class: `state-${d.state}` }, d.state), h('span', { class: `state-${d.health}` }, d.health), d.detail || '', holders(d)] })), 'All devices are healthy.'),
          hot.length ? [h('h2', {}, 'Hottest devices'), table('The ten hottest', [['Node'], ['Device', 'num'], ['Model', 'wide'], ['°C', 'num'], ['Busy, %', 'num']],
            hot.slice(0, 10).map(([n, d]) => ({ key: `${n.name} ${d.index}`, cells: [n.name, d.index, d.model, d.temperature, d.utilization ?? ''] })))] : null]);
    },
  };
}
