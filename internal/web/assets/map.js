// The map of the fleet: every device as a cell of its node, nodes in blocks by domain.
// One canvas as large as the window is drawn again when something changes or is scrolled;
// the cost follows what can be seen, not how many nodes there are.
import { colour, category } from './theme.js';
import { h } from './dom.js';

const order = new Intl.Collator('en', { numeric: true }).compare;
const HEAD = 20; // px above a block, for its name
const STATES = ['free', 'allocated', 'idle_allocated', 'degraded', 'cordoned', 'failed'];

/** parts are the pieces of a device as they are coloured: [from, to, key] in thousandths of
 *  its width. by is state, namespace or queue; the key of what nobody named is hidden. */
export function parts(device, by) {
  if (by === 'state') {
    const held = device.state === 'allocated' || device.state === 'idle_allocated';
    if (!held || device.heldMilli >= 1000 || device.mode === 'whole') return [[0, 1000, device.state]];
    return [...slots(device).map(([a, b]) => [a, b, device.state]), ...rest(device, 'free')];
  }
  const key = (holder) => (by === 'queue' ? holder.queue : holder.gang.namespace) || '(none)';
  const named = slots(device).map(([a, b, holder]) => [a, b, holder ? key(holder) : 'hidden']);
  if (!named.length) return [[0, 1000, STATES.includes(device.state) ? device.state : 'free']];
  return [...named, ...rest(device, 'free')];
}

// slots are where a device's holders are, [from, to, holder]; what is held by pods that the
// visitor may not see comes last, without a holder.
function slots(device) {
  const out = [];
  let at = 0;
  for (const holder of device.holders || []) {
    if (holder.size) { // a MIG slice has a place of its own, in eighths
      out.push([holder.start * 125, Math.min(1000, (holder.start + holder.size) * 125), holder]);
      at = Math.max(at, out.at(-1)[1]);
      continue;
    }
    const wide = device.mode === 'whole' ? 1000 : holder.milli || 50;
    out.push([at, Math.min(1000, at + wide), holder]);
    at = Math.min(1000, at + wide);
  }
  if (device.hidden || (!out.length && device.heldMilli > 0)) {
    const seen = (device.holders || []).reduce((sum, holder) => sum + holder.milli, 0);
    const wide = Math.max(60, device.heldMilli - seen);
    out.push([at, Math.min(1000, at + wide), null]);
  }
  return out;
}

function rest(device, key) {
  const held = slots(device).sort((a, b) => a[0] - b[0]);
  const out = [];
  let at = 0;
  for (const [from, to] of held) {
    if (from > at) out.push([at, from, key]);
    at = Math.max(at, to);
  }
  if (at < 1000) out.push([at, 1000, key]);
  return out;
}

/** tint is the name of the colour of a key of parts. */
export const tint = (key, by) => (by === 'state' || STATES.includes(key) || key === 'hidden' ? key : category(key));

/** FleetMap draws nodes into an element of its own. picked(node, device) is called when the
 *  pointer or the keyboard is on a device; opened(node, device) when it is chosen. */
export class FleetMap {
  constructor({ picked, opened }) {
    this.picked = picked;
    this.opened = opened;
    this.by = 'state';
    this.only = '';   // key that is not dimmed; empty: none is
    this.find = () => true;
    this.blocks = [];
    this.tiles = [];
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.el = h('div', {
      class: 'map', tabindex: '0', role: 'application', 'data-own': true, 'aria-label': 'Map of all devices', 'aria-describedby': 'map-help',
    }, this.canvas);
    this.canvas.onpointermove = (e) => this.point(e, false);
    this.canvas.onclick = (e) => this.point(e, true);
    this.el.onkeydown = (e) => this.key(e);
    this.el.onfocus = () => this.tiles.length && this.choose(this.at || [0, 0]);
    this.onscroll = () => this.request();
    addEventListener('scroll', this.onscroll, { passive: true });
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.el);
  }

  close() {
    removeEventListener('scroll', this.onscroll);
    this.observer.disconnect();
  }

  /** show takes nodes (a Map by name) and the level to group by; changed: names whose
   *  devices changed, or null when nodes came, went or moved. */
  show(items, level, changed) {
    const same = changed && this.level === level && this.items === items;
    this.items = items;
    this.level = level;
    if (!same) return this.layout();
    for (const name of changed) {
      const tile = this.byName.get(name);
      const node = items.get(name);
      if (!tile || tile.node.devices.length !== node.devices.length || domain(tile.node, level) !== domain(node, level)) return this.layout();
      tile.node = node;
      tile.paint = null;
    }
    this.request();
  }

  /** restyle draws anew with other colours. */
  restyle() {
    for (const tile of this.tiles) tile.paint = null;
    this.request();
  }

  layout() {
    if (!this.items || !this.el.isConnected) return;
    const width = this.el.clientWidth || 300;
    const total = this.items.size;
    const cell = total <= 24 ? 28 : total <= 120 ? 18 : total <= 400 ? 13 : 10;
    this.cell = cell;
    this.label = cell >= 18 ? 14 : 0; // names of nodes only where they can be read
    const groups = new Map();
    for (const node of this.items.values()) {
      const name = domain(node, this.level);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(node);
    }
    this.blocks = [];
    this.tiles = [];
    this.byName = new Map();
    let x = 0, y = 0, tall = 0;
    for (const name of [...groups.keys()].sort(order)) {
      const list = groups.get(name).sort((a, b) => order(a.name, b.name));
      const most = Math.max(1, ...list.map((node) => node.devices.length));
      const cols = most <= 4 ? most : most <= 8 ? 4 : 8;
      const w = cols * (cell + 1) + 6;
      const tileH = Math.ceil(most / cols) * (cell + 1) + 6 + this.label;
      const fit = Math.max(1, Math.floor(width / w));
      const across = Math.min(list.length, fit, groups.size === 1 ? fit : Math.max(2, Math.ceil(Math.sqrt(list.length * 1.5))));
      const blockW = Math.max(across * w, 64);
      const blockH = HEAD + Math.ceil(list.length / across) * tileH + 8;
      if (x && x + blockW > width) {
        x = 0;
        y += tall;
        tall = 0;
      }
      this.blocks.push({ name, x, y, w: blockW, h: blockH, first: this.tiles.length });
      list.forEach((node, i) => {
        const tile = { node, x: x + (i % across) * w, y: y + HEAD + Math.floor(i / across) * tileH, w, h: tileH, cols, block: this.blocks.length - 1, paint: null };
        this.byName.set(node.name, tile);
        this.tiles.push(tile);
      });
      x += blockW + 14;
      tall = Math.max(tall, blockH);
    }
    this.height = y + tall;
    this.el.style.setProperty('height', `${Math.max(this.height, 40)}px`);
    this.request();
  }

  request() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const begin = performance.now();
    const ratio = devicePixelRatio || 1;
    const width = this.el.clientWidth;
    const height = Math.min(innerHeight, this.height || 40);
    const { canvas } = this;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.setProperty('width', `${width}px`);
      canvas.style.setProperty('height', `${height}px`);
    }
    this.top = Math.max(0, Math.min(-this.el.getBoundingClientRect().top, this.height - height));
    const g = canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.translate(0, -this.top);
    g.font = '12px system-ui, sans-serif';
    g.textBaseline = 'alphabetic';
    for (const block of this.blocks) {
      if (!this.visible(block.y, block.h, height)) continue;
      g.fillStyle = colour('soft');
      g.fillText(fitted(g, block.name, block.w), block.x + 1, block.y + 14);
    }
    for (const tile of this.tiles) if (this.visible(tile.y, tile.h, height)) this.drawTile(g, tile);
    this.drawChosen(g);
    performance.measure('fleet-draw', { start: begin });
  }

  visible(y, tall, height) { return y + tall >= this.top && y <= this.top + height; }

  drawTile(g, tile) {
    const { node } = tile;
    tile.paint ||= node.devices.map((device) => parts(device, this.by).map(([from, to, key]) => [from, to, key, colour(tint(key, this.by))]));
    const faded = !this.find(node);
    const c = this.cell;
    if (node.state !== 'ready') {
      g.strokeStyle = colour(node.state === 'lost' ? 'failed' : 'cordoned');
      g.lineWidth = 2;
      g.strokeRect(tile.x, tile.y, tile.w - 3, tile.h - 3 - this.label);
    } else if (node.kept) {
      g.strokeStyle = colour('control');
      g.lineWidth = 1;
      g.strokeRect(tile.x + 0.5, tile.y + 0.5, tile.w - 4, tile.h - 4 - this.label);
    }
    node.devices.forEach((device, i) => {
      const [x, y] = this.place(tile, i);
      for (const [from, to, key, fill] of tile.paint[i]) {
        g.globalAlpha = faded || (this.only && this.only !== key) ? 0.18 : 1;
        g.fillStyle = fill;
        g.fillRect(x + (from * c) / 1000, y, Math.max(1, ((to - from) * c) / 1000 - (to < 1000 ? 0.5 : 0)), c);
      }
      // Not by colour alone: a cross for failed, a dot for degraded, a bar for cordoned.
      g.globalAlpha = faded ? 0.18 : 1;
      if (device.state === 'failed' || device.state === 'cordoned' || device.state === 'degraded') mark(g, device.state, x, y, c);
      g.globalAlpha = 1;
    });
    if (this.label) {
      g.fillStyle = colour('soft');
      g.font = '10px system-ui, sans-serif';
      g.globalAlpha = faded ? 0.4 : 1;
      g.fillText(fitted(g, node.name, tile.w - 4), tile.x + 2, tile.y + tile.h - 5);
      g.globalAlpha = 1;
      g.font = '12px system-ui, sans-serif';
    }
  }

  place(tile, i) {
    const step = this.cell + 1;
    return [tile.x + 2 + (i % tile.cols) * step, tile.y + 2 + Math.floor(i / tile.cols) * step];
  }

  drawChosen(g) {
    const tile = this.at && this.tiles[this.at[0]];
    if (!tile || !tile.node.devices[this.at[1]]) return;
    const [x, y] = this.place(tile, this.at[1]);
    g.lineWidth = 3;
    g.strokeStyle = colour('focus');
    g.strokeRect(x - 1.5, y - 1.5, this.cell + 3, this.cell + 3);
  }

  point(e, click) {
    const x = e.offsetX;
    const y = e.offsetY + this.top;
    const n = this.tiles.findIndex((t) => x >= t.x && x < t.x + t.w && y >= t.y && y < t.y + t.h);
    if (n < 0) return;
    const tile = this.tiles[n];
    const step = this.cell + 1;
    const col = Math.min(tile.cols - 1, Math.max(0, Math.floor((x - tile.x - 2) / step)));
    const i = Math.min(tile.node.devices.length - 1, col + tile.cols * Math.max(0, Math.floor((y - tile.y - 2) / step)));
    if (i < 0 || (!click && this.at && this.at[0] === n && this.at[1] === i)) return;
    this.at = [n, i];
    this.request();
    this.picked(tile.node, tile.node.devices[i]);
    if (click) this.opened(tile.node, tile.node.devices[i]);
  }

  key(e) {
    if (!this.tiles.length || e.altKey || e.ctrlKey || e.metaKey) return;
    let [n, i] = this.at || [0, 0];
    const last = this.tiles.length - 1;
    const here = this.tiles[n];
    const devices = (k) => Math.max(1, this.tiles[k].node.devices.length);
    switch (e.key) {
      case 'ArrowRight': if (++i >= devices(n)) [n, i] = n < last ? [n + 1, 0] : [n, i - 1]; break;
      case 'ArrowLeft': if (--i < 0) [n, i] = n > 0 ? [n - 1, devices(n - 1) - 1] : [0, 0]; break;
      case 'ArrowDown': n = Math.min(last, n + 1); break;
      case 'ArrowUp': n = Math.max(0, n - 1); break;
      case 'PageDown': n = this.blocks[here.block + 1]?.first ?? last; break;
      case 'PageUp': n = this.blocks[Math.max(0, here.block - 1)].first; break;
      case 'Home': [n, i] = [0, 0]; break;
      case 'End': [n, i] = [last, 0]; break;
      case 'Enter': {
        const device = here.node.devices[i];
        if (device) this.opened(here.node, device);
        e.preventDefault();
        return;
      }
      default: return;
    }
    e.preventDefault();
    this.choose([n, Math.min(i, devices(n) - 1)]);
  }

  choose(at) {
    this.at = at;
    const tile = this.tiles[at[0]];
    if (!tile) return;
    const top = this.el.getBoundingClientRect().top + tile.y;
    if (top < 0 || top + tile.h > innerHeight - 120) scrollBy({ top: top - innerHeight / 3 });
    this.request();
    if (tile.node.devices[at[1]]) this.picked(tile.node, tile.node.devices[at[1]]);
  }
}

function mark(g, state, x, y, c) {
  g.strokeStyle = g.fillStyle = colour('bg');
  g.lineWidth = c > 12 ? 2 : 1.5;
  g.beginPath();
  if (state === 'failed') {
    g.moveTo(x + 2, y + 2);
    g.lineTo(x + c - 2, y + c - 2);
    g.moveTo(x + c - 2, y + 2);
    g.lineTo(x + 2, y + c - 2);
    g.stroke();
  } else if (state === 'cordoned') {
    g.moveTo(x + 2, y + c / 2);
    g.lineTo(x + c - 2, y + c / 2);
    g.stroke();
  } else {
    g.arc(x + c / 2, y + c / 2, c / 5, 0, 7);
    g.fill();
  }
}

function fitted(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && g.measureText(text.slice(0, n) + '…').width > width) n--;
  return text.slice(0, n) + '…';
}

/** domain is where a node is at a level; without a level, or without a label, all are one. */
export const domain = (node, level) => (level ? node.domains?.[level] || `no ${level}` : 'all nodes');
