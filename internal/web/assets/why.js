// Why one gang waits: the reason with its numbers, what would help, when it starts.
import { ask } from './api.js';
import { bar } from './chart.js';
import { facts, h, morph, table } from './dom.js';
import { gangLink } from './fleet.js';
import { ago, count, expected, gpus, lasting, moment, named, path, plain, sentence } from './format.js';

const WHO = { owner: 'you can', administrator: 'an administrator can', time: 'time' };

export function why({ args: [namespace, name], say }) {
  let main = null, last = '';
  return {
    title: `Why: ${namespace}/${name}`, every: 3000,
    mount: (el) => { main = el; },
    load: (signal) => ask('why', { namespace, name }, { signal }),
    show: (w) => {
      if (!w) return;
      if (last && last !== w.text) say(w.text);
      last = w.text;
      morph(main, answer(w, say));
    },
  };
}

function answer(w, say) {
  if (!w.found) return [h('div', { class: 'answer' }, h('p', { id: 'answer' }, w.text)), helps(w.helps, say)];
  const g = w.gang;
  const waits = g.phase === 'Waiting' || g.phase === 'Partial';
  const [when, how] = waits ? expected(w.start) : [g.phase, ''];
  return [
    h('div', { class: 'verdict' },
      h('div', { class: waits ? 'answer' : 'answer well' }, h('span', { class: 'label' }, waits ? 'Why it waits' : 'What it does'), h('p', { id: 'answer' }, own(w))),
      h('div', { class: 'when', id: 'when' }, h('span', { class: 'label' }, waits ? 'Expected start' : 'Phase'), h('b', {}, when), how ? h('span', {}, how) : null, waits && w.start.because ? h('p', {}, sentence(w.start.because)) : null)),
    h('div', { class: 'columns' },
      h('div', {},
        waits || w.helps?.length ? [h('h2', {}, 'What would help'), helps(w.helps, say)] : null,
        waits && w.reason?.code ? reason(w.reason) : null,
        h('h2', {}, 'Members'), memberTable(g.members || [])),
      h('aside', { 'aria-label': 'The gang and its queue' },
        h('h2', {}, 'The gang'),
        facts([['Phase', g.phase], ['GPUs', gpus(g.milli)], ['Members', `${plain(g.placed)} of ${plain(g.need)} placed${g.exist === g.need ? '' : `, ${plain(g.exist)} exist`}`],
          ['Turn', g.position ? plain(g.position) : ''], ['Priority', plain(g.priority)], ['Submitted', `${ago(g.submitted)} ago, ${moment(g.submitted)}`], ['Kind', g.owner ? `${g.kind} ${g.owner}` : g.kind],
          ['User', g.user], ['Expected runtime', g.runtimeSeconds ? `${lasting(g.runtimeSeconds)}${g.learned ? ', learned' : ''}` : ''],
          ['Plan', h('a', { href: path('plan', g.namespace, g.name) }, 'as a picture')]]),
        w.queue ? [h('h2', {}, 'Its queue'), queue(w.queue)] : null,
        waits ? [h('h2', {}, 'Ahead of it'), ahead(w)] : null)),
  ];
}

// own is the answer without the name, which stands above it.
function own(w) {
  const name = `${named(w.gang)}: `;
  return sentence(w.text.startsWith(name) ? w.text.slice(name.length) : w.text);
}

/** helps is a list of query.Help. */
export function helps(list, say) {
  if (!list?.length) return h('p', { class: 'note' }, 'Nothing that the scheduler knows of.');
  return h('ol', { class: 'helps', id: 'helps' }, list.map((help) => h('li', {}, h('span', { class: 'who' }, WHO[help.who] || help.who), help.text, help.command ? command(help.command, say) : null)));
}

function command(text, say) {
  return h('div', { class: 'command' }, h('pre', {}, h('code', {}, text)), h('button', {
    type: 'button', 'aria-label': `Copy command: ${text}`,
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        say('Copied.');
      } catch {
        say('The browser did not allow copying.');
      }
    },
  }, 'Copy'));
}

/** reason is query.Reason with all its numbers. */
export function reason(r) {
  return [h('h2', {}, 'The reason in numbers'),
    facts([['Code', r.code], ['Class', r.class], ['Needs', r.need ? count(r.need, 'member') : ''], ['Exist', r.exist ? plain(r.exist) : ''], ['Could be placed', r.need ? plain(r.placed || 0) : ''], ['Role', r.role], ['Subgroup', r.subgroup],
      ['Level', r.level], ['Queue', r.queue], ['Namespace', r.namespace], ['Resource', r.resource], ['Wants', r.want ? plain(r.want) : ''], ['Limit', r.want || r.limit ? plain(r.limit || 0) : ''], ['Used', r.want || r.used ? plain(r.used || 0) : ''],
      ['Ahead', r.ahead ? plain(r.ahead) : ''], ['Nodes that fit', r.nodes?.length ? plain(r.fit) : ''], ['Detail', r.detail], ['Could ever start', r.never ? 'no' : '']]),
    r.nodes?.length ? table('Nodes that cannot take a member, by cause', [['Nodes', 'num'], ['Cause'], ['Needs', 'num'], ['Best', 'num'], ['For example', 'wide']],
      r.nodes.map((n) => ({ key: `${n.code} ${n.detail || ''}`, cells: [plain(n.nodes), n.text || n.code, n.need ? plain(n.need) : '', n.need ? plain(n.best) : '', (n.examples || []).join(', ')] }))) : null];
}

function queue(q) {
  return [bar(q.gpus, Math.max(q.gpus.entitled, q.gpus.used, q.gpus.capability || 0)),
    h('p', {}, h('a', { href: path('queues', q.name) }, q.name), ` uses ${gpus(q.gpus.used)} GPUs of a share of ${gpus(q.gpus.entitled)}${q.gpus.capability !== undefined ? `, limit ${gpus(q.gpus.capability)}` : ''}; ${plain(q.running)} running, ${plain(q.waiting)} waiting.`)];
}

function ahead(w) {
  const list = w.ahead || [];
  const hidden = w.aheadHidden || 0;
  if (!list.length && !hidden) return h('p', {}, 'Nothing starts before it.');
  return [list.length ? h('ol', { id: 'ahead' }, list.map((ref) => h('li', { key: named(ref) }, gangLink(ref)))) : null,
    hidden ? h('p', { class: 'note' }, `${list.length ? 'and ' : ''}${count(hidden, 'gang')} more.`) : null];
}

/** memberTable lists query.Member. */
export function memberTable(members) {
  const SHOWN = 200;
  const columns = [['Pod'], ['Role', 'wide'], ['State'], ['Node'], ['Devices'], ['Asks for', 'wide']];
  const rows = members.slice(0, SHOWN).map((m) => ({
    key: named(m.pod),
    cells: [m.node && m.state === 'bound' ? h('a', { href: path('explain', m.pod.namespace, m.pod.name), 'aria-label': `Why ${m.pod.name} is where it is` }, m.pod.name) : m.pod.name, [m.role, m.subgroup].filter(Boolean).join(' / '), m.state, m.node || '',
      (m.devices || []).map((d) => `${d.index}${d.profile ? ` ${d.profile}` : d.milli && d.milli < 1000 ? ` (${gpus(d.milli)})` : ''}`).join(', '), (m.asks || []).map((a) => `${a.amount} ${a.resource}`).join(', ')],
  }));
  // A column in which nothing stands says nothing.
  const filled = columns.map((_, i) => !rows.length || rows.some((row) => row.cells[i] !== ''));
  return table(`${count(members.length, 'member')}${members.length > SHOWN ? `, the first ${SHOWN} shown` : ''}`, columns.filter((_, i) => filled[i]),
    rows.map((row) => ({ key: row.key, cells: row.cells.filter((_, i) => filled[i]) })));
}
