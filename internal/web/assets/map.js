// The map of the fleet: every device as a cell of its node, nodes in blocks by domain.
// One canvas as large as the window is drawn again when something changes or is scrolled;
// the cost follows what can be seen, not how many nodes there are.
import { colour, category } from './theme.js';
import { h } from './dom.js';

const order = new Intl.Collator('en', { numeric: true }).compare;
const HEAD = 24;  // px above a block's nodes, for its name
const PAD = 8;    // px between a block's border and its nodes
const GUTTER = 12; // px between blocks
const FONT = '12px system-ui, sans-serif';
const number = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
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
      const start = holder.start || 0;
      out.push([start * 125, Math.min(1000, (start + holder.size) * 125), holder]);
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
 *  pointer or the keyboard is on a device; opened(node, device) by a double click or Enter. */
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
    this.canvas.onclick = (e) => this.point(e, false); // a finger does not hover
    this.canvas.ondblclick = (e) => this.point(e, true);
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
    const groups = new Map();
    for (const node of this.items.values()) {
      const name = domain(node, this.level);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(node);
    }
    const lists = [...groups.keys()].sort(order).map((name) => [name, groups.get(name).sort((a, b) => order(a.name, b.name))]);
    // Devices are as large as lets the whole fleet be seen at once, and never too small to
    // be pointed at.
    const high = width < 600 ? 640 : Math.max(320, innerHeight * 0.52);
    for (const cell of sizes(this.items.size, width)) {
      this.arrange(lists, width, cell);
      if (this.height <= high) break;
    }
    this.el.style.setProperty('height', `${Math.max(this.height, 40)}px`);
    this.request();
  }

  // arrange places the blocks in rows; lists are [name, nodes].
  arrange(lists, width, cell) {
    this.cell = cell;
    this.label = cell >= 15 ? 14 : 0; // names of nodes only where they can be read
    this.blocks = [];
    this.tiles = [];
    this.byName = new Map();
    let x = 0, y = 0, tall = 0;
    for (const [name, list] of lists) {
      const most = Math.max(1, ...list.map((node) => node.devices.length));
      const cols = most <= 4 ? most : most <= 8 ? 4 : 8;
      const w = cols * (cell + 1) + 8;
      const tileH = Math.ceil(most / cols) * (cell + 1) + 7 + this.label;
      const across = columns(list.length, Math.max(1, Math.floor((width - 2 * PAD) / w)), lists.length === 1);
      const blockW = Math.max(across * w + 2 * PAD - 4, 72);
      const blockH = HEAD + Math.ceil(list.length / across) * tileH + PAD - (this.label ? 4 : 1);
      if (x && x + blockW > width) {
        x = 0;
        y += tall + GUTTER;
        tall = 0;
      }
      this.blocks.push({ name, x, y, w: blockW, h: blockH, first: this.tiles.length, count: list.length });
      list.forEach((node, i) => {
        const tile = { node, x: x + PAD + (i % across) * w, y: y + HEAD + Math.floor(i / across) * tileH, w, h: tileH, cols, block: this.blocks.length - 1, paint: null };
        this.byName.set(node.name, tile);
        this.tiles.push(tile);
      });
      x += blockW + GUTTER;
      tall = Math.max(tall, blockH);
    }
    this.height = y + tall + 2;
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
    g.font = FONT;
    g.textBaseline = 'alphabetic';
    for (const block of this.blocks) {
      if (this.visible(block.y, block.h, height)) this.drawBlock(g, block);
    }
    for (const tile of this.tiles) if (this.visible(tile.y, tile.h, height)) this.drawTile(g, tile);
    this.drawChosen(g);
    performance.measure('fleet-draw', { start: begin });
  }

  visible(y, tall, height) { return y + tall >= this.top && y <= this.top + height; }

  drawBlock(g, block) {
    g.beginPath();
    g.roundRect(block.x + 0.5, block.y + 0.5, block.w - 1, block.h - 1, 7);
    g.fillStyle = colour('panel');
    g.fill();
    g.strokeStyle = colour('line');
    g.lineWidth = 1;
    g.stroke();
    let free = 0;
    for (let i = block.first; i < block.first + block.count; i++) free += this.paint(this.tiles[i]).free;
    const text = `${number.format(free / 1000)} free`;
    const room = block.w - 2 * PAD;
    const wide = g.measureText(text).width;
    const both = g.measureText(block.name).width + wide + 10 <= room;
    g.fillStyle = colour('soft');
    if (both) g.fillText(text, block.x + block.w - PAD - wide, block.y + 16);
    g.font = '600 12px system-ui, sans-serif';
    g.fillStyle = colour('text');
    g.fillText(fitted(g, block.name, both ? room - wide - 8 : room), block.x + PAD, block.y + 16);
    g.font = FONT;
  }

  // paint is how a node's devices are drawn, and what of them is free; kept until it changes.
  paint(tile) {
    if (!tile.paint) {
      tile.paint = tile.node.devices.map((device) => parts(device, this.by).map(([from, to, key]) => [from, to, key, colour(tint(key, this.by))]));
      tile.free = tile.node.devices.reduce((sum, d) => sum + (d.state === 'free' ? 1000 : d.state === 'allocated' || d.state === 'idle_allocated' ? Math.max(0, 1000 - d.heldMilli) : 0), 0);
    }
    return tile;
  }

  drawTile(g, tile) {
    const { node } = tile;
    this.paint(tile);
    const faded = !this.find(node);
    const c = this.cell;
    if (node.state !== 'ready') {
      this.outline(g, tile, node.state === 'lost' ? 'failed' : 'cordoned', []);
    } else if (node.kept) {
      this.outline(g, tile, 'text', [3, 2]);
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
      g.font = FONT;
    }
  }

  // outline is a frame around the devices of a node that is not as others are.
  outline(g, tile, name, dash) {
    const rows = Math.ceil(Math.max(1, tile.node.devices.length) / tile.cols);
    g.strokeStyle = colour(name);
    g.lineWidth = dash.length ? 1 : 2;
    g.setLineDash(dash);
    g.strokeRect(tile.x - 0.5, tile.y - 0.5, tile.cols * (this.cell + 1) + 4, rows * (this.cell + 1) + 4);
    g.setLineDash([]);
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

  point(e, open) {
    const x = e.offsetX;
    const y = e.offsetY + this.top;
    const n = this.tiles.findIndex((t) => x >= t.x && x < t.x + t.w && y >= t.y && y < t.y + t.h);
    if (n < 0) return;
    const tile = this.tiles[n];
    const step = this.cell + 1;
    const col = Math.min(tile.cols - 1, Math.max(0, Math.floor((x - tile.x - 2) / step)));
    const i = Math.min(tile.node.devices.length - 1, col + tile.cols * Math.max(0, Math.floor((y - tile.y - 2) / step)));
    if (i < 0 || (!open && this.at && this.at[0] === n && this.at[1] === i)) return;
    this.at = [n, i];
    this.request();
    this.picked(tile.node, tile.node.devices[i]);
    if (open) this.opened(tile.node, tile.node.devices[i]);
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

// sizes are the widths of a device to try, px, the largest first.
function sizes(nodes, width) {
  if (nodes > 400) return [10];
  if (nodes > 120) return width < 600 ? [13] : [18, 15, 13];
  return width < 600 ? [18, 16, 15] : [34, 30, 26, 22, 18];
}

// columns is how many of n nodes are side by side in a block: wider than high, with no node
// left over where that is possible.
function columns(n, fit, alone) {
  if (alone) return Math.min(n, fit);
  const ideal = Math.sqrt(n * 1.5);
  let best = Math.min(n, fit), least = Infinity;
  for (let c = Math.max(1, Math.floor(ideal / 1.6)); c <= Math.min(n, fit, Math.ceil(ideal * 1.6)); c++) {
    const cost = ((c - (n % c)) % c) + Math.abs(c - ideal) / 2;
    if (cost < least) [best, least] = [c, cost];
  }
  return best;
}

/** domain is where a node is at a level; without a level, or without a label, all are one. */
export const domain = (node, level) => (level ? node.domains?.[level] || `no ${level}` : 'all nodes');

/** used are the levels, of those that the scheduler knows, at which some node has a place. */
export const used = (levels, items) => (levels || []).filter((level) => {
  for (const node of items.values()) if (node.domains?.[level]) return true;
  return false;
});
