// The page: which view is shown, by the address behind #; what all views have in common.
import { token } from './api.js';
import { h, morph } from './dom.js';
import { explain } from './explain.js';
import { fleet } from './fleet.js';
import { health } from './health.js';
import { Live, message } from './live.js';
import { login } from './login.js';
import { forget } from './nodes.js';
import { pending } from './pending.js';
import { plan } from './plan.js';
import { queues } from './queues.js';
import { themes } from './theme.js';
import { timeline } from './timeline.js';
import { whatif } from './whatif.js';
import { why } from './why.js';

// A view: how many parts its address has at least, and the entry of the menu it belongs to.
const VIEWS = {
  fleet: { make: fleet }, pending: { make: pending }, queues: { make: queues }, timeline: { make: timeline }, health: { make: health }, whatif: { make: whatif },
  why: { make: why, parts: 2, under: 'pending' }, plan: { make: plan, parts: 2, under: 'pending' }, explain: { make: explain, parts: 2, under: 'pending' },
};

const main = document.getElementById('main');
const said = document.getElementById('said');
const logout = document.getElementById('logout');
let view = null;
let opened = false;

const live = new Live(document.getElementById('status'), refused);

/** say tells a reader of the screen what changed. */
const say = (text) => { said.textContent = text; };

const go = (hash) => { location.hash = hash; };

function refused(refusal) {
  view?.close?.();
  view = null;
  forget();
  logout.hidden = true;
  document.title = 'Log in - Tangram';
  login(main, refusal, () => open());
}

function address() {
  const [where, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
  let parts;
  try {
    parts = where.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = ['?'];
  }
  return { name: parts[0] || 'fleet', args: parts.slice(1), query: new URLSearchParams(query || '') };
}

function open() {
  const { name, args, query } = address();
  const known = Object.hasOwn(VIEWS, name) && args.length >= (VIEWS[name].parts || 0) ? VIEWS[name] : null;
  view?.close?.();
  view = null;
  logout.hidden = !token.get();
  for (const link of document.querySelectorAll('#nav a')) {
    if (known && link.hash === `#/${known.under || name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (!known) {
    live.stop();
    document.title = 'Not found - Tangram';
    morph(main, h('h1', { tabindex: '-1', id: 'title' }, 'There is no such view'), h('p', {}, h('a', { href: '#/fleet' }, 'Fleet')));
    return;
  }
  const next = known.make({ args, query, go, say, refused });
  view = next;
  document.title = `${next.title} - Tangram`;
  const content = h('div', { id: 'view' });
  const trouble = h('div', { id: 'trouble' });
  main.replaceChildren(h('h1', { tabindex: '-1', id: 'title' }, next.title), trouble, content);
  // A change of view is announced by the focus; the first is not, the page itself is.
  if (opened) main.querySelector('h1').focus({ preventScroll: false });
  if (opened) scrollTo(0, 0);
  opened = true;
  next.mount(content, () => live.again());
  live.start({
    every: next.every, load: next.load,
    show: (answer, error) => {
      morph(trouble, error ? h('p', { class: 'error', role: 'alert' }, message(error)) : null);
      next.show(answer, error);
    },
  });
}

addEventListener('hashchange', open);
let resizing = 0;
addEventListener('resize', () => {
  resizing ||= requestAnimationFrame(() => {
    resizing = 0;
    view?.resized?.();
  });
});
document.querySelector('.skip').onclick = (e) => {
  e.preventDefault();
  main.focus();
};
document.getElementById('pause').onclick = (e) => {
  const on = e.target.getAttribute('aria-pressed') !== 'true';
  e.target.setAttribute('aria-pressed', String(on));
  live.pause(on);
};
logout.onclick = () => {
  token.clear();
  forget();
  live.stop();
  open();
};
themes(document.getElementById('theme'), () => view?.restyle?.());
open();
