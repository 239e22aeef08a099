// Why a pod is where it is: the score of its node term by term, and the runners-up.
import { ask } from './api.js';
import { facts, h, morph, table } from './dom.js';
import { gangLink } from './fleet.js';
import { count, moment, named, plain } from './format.js';

export function explain({ args: [namespace, name] }) {
  let main = null;
  return {
    title: `Why here: ${namespace}/${name}`, every: 15_000,
    mount: (el) => { main = el; },
    load: (signal) => ask('explain', { namespace, name }, { signal }),
    show: (e) => {
      if (!e) return;
      const terms = e.terms || [];
      const score = (r, term) => plain((r.terms || []).find((t) => t.name === term)?.score ?? 0);
      morph(main, h('p', {}, 'Pod ', h('b', {}, named(e.pod)), ' of ', gangLink(e.gang), ` is on ${e.node}.`),
        facts([['Score', `${plain(e.total)} of 100`], ['Decided', e.decided ? moment(e.decided) : ''], ['Devices', (e.devices || []).map((d) => d.index).join(', ')]]),
        h('p', { class: 'note' }, 'Scores are as found now with the pod taken out: what was true then is not kept.'),
        table('Objectives', [['Objective'], ['Score', 'num'], ['Weight', 'num']], terms.map((t) => ({ key: t.name, cells: [t.name, plain(t.score), plain(t.weight)] }))),
        table('This node and the runners-up', [['Node'], ['Total', 'num'], ...terms.map((t) => [t.name, 'num wide'])],
          [{ node: e.node, total: e.total, terms }, ...(e.runnersUp || [])].map((r) => ({ key: r.node, cells: [r.node, plain(r.total), ...terms.map((t) => score(r, t.name))] }))),
        e.note ? h('p', {}, e.note) : null,
        e.hidden ? h('p', { class: 'note' }, `and ${count(e.hidden, 'node')} that you may not see.`) : null,
        e.refused?.length ? table('Nodes that cannot take it', [['Nodes', 'num'], ['Cause']], e.refused.map((n) => ({ key: `${n.code} ${n.detail || ''}`, cells: [plain(n.nodes), n.text || n.code] }))) : null);
    },
  };
}
