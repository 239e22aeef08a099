// Light and dark: the system's setting, or the visitor's.
const KEY = 'tangram.theme';
const NEXT = { auto: 'light', light: 'dark', dark: 'auto' };

let mode = 'auto';

/** themes wires the switch, and calls changed whenever colours change. */
export function themes(button, changed) {
  const saved = localStorage.getItem(KEY);
  if (saved in NEXT) mode = saved;
  const apply = () => {
    if (mode === 'auto') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.dataset.theme = mode;
    button.textContent = `Theme: ${mode}`;
    names.clear();
    changed();
  };
  button.onclick = () => {
    mode = NEXT[mode];
    localStorage.setItem(KEY, mode);
    apply();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}

const names = new Map();
let probe;

/** colour is the value of a colour of style.css in the theme that is shown, for canvas. */
export function colour(name) {
  let value = names.get(name);
  if (!value) {
    if (!probe) {
      probe = document.createElement('i');
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.setProperty('color', `var(--${name})`);
    value = getComputedStyle(probe).color;
    names.set(name, value);
  }
  return value;
}

const KINDS = 12; // --c0 .. --c11 of style.css
const given = new Map();

/** category is the colour of a name (a namespace, a queue): the same as long as the page is
 *  open. There are twelve; more names share them. */
export function category(name) {
  if (!given.has(name)) given.set(name, given.size % KINDS);
  return `c${given.get(name)}`;
}
