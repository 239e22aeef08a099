// How elements are made and brought up to date. Data becomes text nodes and attributes,
// never markup: there is no innerHTML anywhere, and the Content-Security-Policy
// (require-trusted-types-for) would refuse it.

const SVG = 'http://www.w3.org/2000/svg';
const HANDLERS = ['onclick', 'oninput', 'onchange', 'onsubmit', 'onkeydown', 'ontoggle'];

/** h makes an HTML element. Properties that start with "on" are handlers, "style" is an
 *  object, null and false leave an attribute out. Children are nodes, strings, numbers or
 *  arrays of these. A property "key" names the element among its siblings for morph. */
export const h = (tag, props, ...children) => make(document.createElement(tag), props, children);

/** s is h for SVG. */
export const s = (tag, props, ...children) => make(document.createElementNS(SVG, tag), props, children);

function make(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) el[name] = value;
    else if (name === 'style') for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
    else if (name === 'key') el.setAttribute('data-key', value);
    else el.setAttribute(name, value === true ? '' : value);
  }
  append(el, children);
  return el;
}

function append(el, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(el, child);
    else el.append(child);
  }
}

/** morph makes the children of an element like those given, keeping what is the same: the
 *  focus, what was typed, an opened detail and the scroll position survive an update. An
 *  element with the attribute data-own is left to its owner. */
export function morph(el, ...children) {
  const next = document.createDocumentFragment();
  append(next, children);
  morphChildren(el, next);
}

function morphChildren(old, next) {
  const keyed = new Map();
  for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let at = old.firstChild;
  for (const want of [...next.childNodes]) {
    const key = want.nodeType === 1 ? want.getAttribute('data-key') : null;
    let have = key ? keyed.get(key) : at;
    if (!key) while (have && have.nodeType === 1 && have.dataset.key) have = have.nextSibling;
    if (have && alike(have, want)) {
      if (have === at) at = at.nextSibling;
      else old.insertBefore(have, at);
      morphNode(have, want);
    } else old.insertBefore(want, at);
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
  (a.nodeType !== 1 || (a.id === b.id && (a.getAttribute('data-key') === b.getAttribute('data-key'))));

function morphNode(have, want) {
  if (have.nodeType !== 1) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  if (have.hasAttribute('data-own')) return;
  for (const { name } of [...have.attributes]) {
    if (!want.hasAttribute(name) && !(name === 'open' && have.nodeName === 'DETAILS')) have.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  for (const name of HANDLERS) have[name] = want[name];
  if (have.nodeName !== 'TEXTAREA') morphChildren(have, want);
}

/** table is a table in a region that scrolls sideways and can be scrolled by keyboard.
 *  Columns are [heading, class]; class "num" is for numbers, "wide" is left out on phones. */
export function table(caption, columns, rows, empty) {
  return h('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0' },
    h('table', {},
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, columns.map(([name, cls]) => h('th', { scope: 'col', class: cls }, name)))),
      h('tbody', {}, rows.length ? rows.map((row) => h('tr', { key: row.key }, row.cells.map((cell, i) => h('td', { class: columns[i][1] }, cell)))) :
        h('tr', {}, h('td', { colspan: columns.length }, empty || 'None.')))));
}

/** field is a control with its label. */
export const field = (label, control) => h('label', { class: 'field' }, h('span', {}, label), control);

/** choice is a select. Options are [value, text]. */
export const choice = (label, options, chosen, onchange) => {
  const select = h('select', { onchange: (e) => onchange(e.target.value) },
    options.map(([value, text]) => h('option', { value, selected: value === chosen }, text)));
  return field(label, select);
};

/** facts is a list of names and values; those without a value are left out. */
export const facts = (pairs) => h('dl', { class: 'facts' }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== false)
  .map(([k, v]) => h('div', { key: k }, h('dt', {}, k), h('dd', {}, v))));
