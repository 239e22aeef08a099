// The nodes as this page knows them: all at first, then what changed.
import { ask } from './api.js';

const known = { version: 0, at: '', items: new Map(), levels: [], hidden: 0 };

/** forget is for another visitor: what the last one saw is gone. */
export function forget() {
  Object.assign(known, { version: 0, at: '', items: new Map(), levels: [], hidden: 0 });
}

/** nodes asks what changed and returns {items: Map by name, levels, hidden, at, changed:
 *  names or null for all}. The value is shared: only this function changes it. */
export async function nodes(signal) {
  const since = known.version;
  const answer = await ask('nodes', since ? { since } : {}, { signal });
  known.version = answer.version;
  known.at = answer.at;
  known.hidden = answer.hidden || 0;
  known.levels = answer.levels || known.levels;
  let changed = null;
  if (answer.partial && since) {
    changed = [];
    for (const node of answer.items || []) {
      known.items.set(node.name, node);
      changed.push(node.name);
    }
    for (const name of answer.removed || []) {
      known.items.delete(name);
      changed = null;
    }
  } else known.items = new Map((answer.items || []).map((node) => [node.name, node]));
  return { ...known, changed };
}
