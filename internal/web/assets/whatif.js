// What if: what would become of a manifest, on a copy of the scheduler's state.
import { ask } from './api.js';
import { facts, field, h, morph, table } from './dom.js';
import { gangLink } from './fleet.js';
import { count, gpus, lasting, named, sentence, start } from './format.js';
import { message } from './live.js';
import { key, optionalNodes, picture } from './plan.js';
import { helps, memberTable, reason } from './why.js';

const LARGEST = 1 << 20; // query.MaxBody

export function whatif({ say, refused }) {
  let main = null, text = '', answer = null, all = null, error = '', busy = false;

  async function submit(e) {
    e.preventDefault();
    text = main.querySelector('#manifest').value;
    error = '';
    if (!text.trim()) error = 'Paste a manifest first.';
    else if (new Blob([text]).size > LARGEST) error = 'The manifest is larger than 1 MiB.';
    if (error) return show();
    busy = true;
    show();
    try {
      [answer, all] = await Promise.all([ask('whatif', {}, { body: text }), optionalNodes()]);
    } catch (failure) {
      if (failure.status === 401) return refused(failure);
      answer = null;
      error = message(failure);
    }
    busy = false;
    show();
    say(error || `Answered: ${count(answer.gangs?.length || 0, 'gang')}.`);
  }

  function outcome(o) {
    return h('section', { key: named(o.gang), 'aria-label': named(o.gang) },
      h('h2', {}, `${named(o.gang)}: ${count(o.members?.length || 0, 'pod')}, ${gpus(o.gang.milli)} GPUs`),
      h('div', { class: 'answer' }, h('p', {}, h('b', {}, 'Would start: '), start(o.start), o.start.because ? `: ${o.start.because}` : '', o.reason?.text ? `. ${sentence(o.reason.text)}` : '.')),
      facts([['Queue', o.gang.queue], ['Priority', String(o.gang.priority)], ['Nodes', (o.start.nodes || []).join(', ')]]),
      o.displaces?.length || o.displacesHidden ? h('p', {}, h('b', {}, 'It would evict: '), (o.displaces || []).map((ref, i) => [i ? ', ' : '', gangLink(ref)]), o.displacesHidden ? ` and ${count(o.displacesHidden, 'gang')} that you may not see` : '') : h('p', {}, 'It would evict nothing.'),
      o.delays?.length || o.delaysHidden ? h('div', {}, h('b', {}, 'It would delay:'), h('ul', {}, (o.delays || []).map((d) => h('li', {}, gangLink(d.gang), ` by ${lasting(d.seconds)}`))), o.delaysHidden ? `and ${count(o.delaysHidden, 'gang')} that you may not see` : '') : null,
      o.helps?.length ? [h('h3', {}, 'What would help'), helps(o.helps, say)] : null,
      o.members?.some((m) => m.node) ? [key(), picture(o.members, all.items, all.levels || [])] : null,
      o.reason?.code ? reason(o.reason) : null,
      memberTable(o.members || []));
  }

  function show() {
    if (!main) return;
    morph(main, h('form', { onsubmit: submit },
      field('Manifest (YAML or JSON; nothing is created)', h('textarea', { id: 'manifest', spellcheck: 'false', autocomplete: 'off', placeholder: 'apiVersion: batch/v1\nkind: Job\n...' })),
      h('div', { class: 'controls' }, h('button', { type: 'submit', disabled: busy, id: 'ask' }, busy ? 'Asking' : 'Ask'))),
    h('div', { id: 'outcome' }, error ? h('p', { class: 'error', role: 'alert' }, error) : null,
      answer ? [(answer.assumed || []).map((line) => h('p', { class: 'note' }, line)),
        answer.refused?.length ? table('Objects that no pods come of', [['Object'], ['Field'], ['Why']], answer.refused.map((r) => ({ key: `${r.object} ${r.field || ''}`, cells: [r.object, r.field || '', r.message] }))) : null,
        (answer.gangs || []).map(outcome)] : null));
  }

  return {
    title: 'What if', every: 0,
    mount: (el) => {
      main = el;
      show();
    },
    // Whether the visitor may ask at all is known before a manifest is written.
    load: (signal) => ask('fleet', {}, { signal }),
    show: () => {},
  };
}
