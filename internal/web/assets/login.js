// The form for a bearer token, where the page is not served by `tangram web`.
import { token } from './api.js';
import { field, h, morph } from './dom.js';

/** login asks for a token and calls done once there is one. */
export function login(main, refusal, done) {
  const had = Boolean(token.get());
  const form = h('form', {
    id: 'login',
    onsubmit: (e) => {
      e.preventDefault();
      const value = form.querySelector('#token').value.trim().replace(/^Bearer\s+/i, '');
      // A header holds visible ASCII only; the browser would refuse anything else.
      if (!/^[\x21-\x7e]+$/.test(value)) {
        form.querySelector('#problem').textContent = 'A token is one word of letters, digits and signs.';
        return;
      }
      token.set(value);
      done();
    },
  },
  h('p', { class: 'error', id: 'problem', role: 'alert' }, had ? `This token was refused: ${refusal.message}` : ''),
  h('p', {}, 'The API server decides what you may see. Paste a token that it knows, for example of a ServiceAccount:'),
  h('pre', {}, h('code', {}, 'kubectl create token NAME -n NAMESPACE')),
  field('Bearer token', h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true })),
  h('div', { class: 'controls' }, h('button', { type: 'submit' }, 'Log in')),
  h('p', { class: 'note' }, 'It is kept in this tab alone until it is closed. With a kubeconfig no token is needed: run ', h('code', {}, 'tangram web'), '.'));
  form.querySelector('#problem').hidden = !had;
  token.clear();
  morph(main, h('h1', { tabindex: '-1', id: 'title' }, 'Log in'), form);
  form.querySelector('#token').focus();
}
