package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/test/web/fake"
)

// js is a string as JavaScript.
func js(s string) string {
	data, _ := json.Marshal(s) // a string always encodes
	return string(data)
}

var views = []string{"#/fleet", "#/fleet?as=table&by=queue", "#/pending", "#/queues/batch", "#/timeline", "#/health", "#/whatif", "#/why/research/llama", "#/plan/research/train-0", "#/explain/research/llama-0", "#/nothing"}

// TestAccessible: on every view in both themes every control has a name, headings and
// landmarks are there, and text has the contrast that WCAG AA asks for.
func TestAccessible(t *testing.T) {
	t.Parallel()
	url := site(t, fake.New(64, false), true)
	v := visit(t)
	for _, scheme := range []string{"light", "dark"} {
		v.prefers(scheme)
		for _, hash := range views {
			v.open(url + "/" + hash)
			v.until(`document.querySelector('h1') && document.getElementById('status').dataset.kind !== 'loading' || document.title.startsWith('Not found')`)
			name := scheme + " " + hash
			counts := map[string]int{}
			for _, thing := range v.things() {
				counts[thing.role]++
				if thing.name == "" && (thing.focusable && thing.role != "RootWebArea" && thing.role != "main" || slices.Contains([]string{"image", "button", "link", "textbox", "combobox", "table", "region"}, thing.role)) {
					t.Errorf("%s: a %s has no name", name, thing.role)
				}
			}
			for _, landmark := range []string{"banner", "navigation", "main", "status"} {
				if counts[landmark] != 1 {
					t.Errorf("%s: %d of landmark %s, want 1", name, counts[landmark], landmark)
				}
			}
			for _, problem := range eval[[]string](v, auditScript) {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
}

// auditScript finds text with too little contrast, headings that skip a level, IDs that are
// there twice, tables without headings and controls that are too small for a finger.
const auditScript = `(() => {
	const out = [];
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { rgb: m.slice(0, 3), a: m[3] ?? 1 }; };
	const lum = (rgb) => { const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (el) => { for (let e = el; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > 0.99) return c.rgb; } return [255, 255, 255]; };
	const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const seen = new Set();
	while (walker.nextNode()) {
		const el = walker.currentNode.parentElement;
		if (!walker.currentNode.data.trim() || el.closest('script, noscript, .unseen, .skip') || !el.checkVisibility()) continue;
		const style = getComputedStyle(el);
		const svg = el.closest('svg');
		const front = parse(svg ? style.fill : style.color).rgb;
		let back = behind(svg || el);
		if (svg && el.classList.contains('on')) { const box = el.previousElementSibling; if (box) back = parse(getComputedStyle(box).fill).rgb; }
		const r = ratio(front, back);
		const big = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
		const key = front + '|' + back;
		if (r < (big ? 3 : 4.5) && !seen.has(key)) { seen.add(key); out.push('contrast ' + r.toFixed(2) + ' of "' + walker.currentNode.data.trim().slice(0, 40) + '"'); }
	}
	for (const el of document.querySelectorAll('button, input, select, textarea')) {
		if (!el.checkVisibility()) continue;
		const style = getComputedStyle(el);
		const r = ratio(parse(style.borderTopColor).rgb, behind(el.parentElement));
		if (r < 3) out.push('contrast ' + r.toFixed(2) + ' of the border of ' + (el.textContent || el.id));
		const box = el.getBoundingClientRect();
		if (box.height < 24 || box.width < 24) out.push('too small: ' + (el.textContent || el.id) + ' ' + box.width + 'x' + box.height);
	}
	let level = 0;
	for (const el of document.querySelectorAll('h1, h2, h3, h4')) {
		const n = Number(el.tagName[1]);
		if (n > level + 1) out.push('heading ' + el.textContent + ' skips a level');
		level = n;
	}
	if (document.querySelectorAll('h1').length !== 1) out.push('not one h1');
	const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
	for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) out.push('id ' + id + ' is there twice');
	for (const el of document.querySelectorAll('[aria-describedby], [aria-labelledby]')) for (const id of (el.getAttribute('aria-describedby') || el.getAttribute('aria-labelledby')).split(' ')) if (!document.getElementById(id)) out.push('no element ' + id);
	for (const el of document.querySelectorAll('table')) if (!el.querySelector('th[scope]') || !el.caption) out.push('a table without headings or caption');
	if (!document.documentElement.lang) out.push('no language');
	if (!document.title.endsWith(' - Tangram')) out.push('title ' + document.title);
	return out;
})()`

// TestPhone: at 360 pixels nothing but tables scrolls sideways, on no view.
func TestPhone(t *testing.T) {
	t.Parallel()
	url := site(t, fake.New(1000, true), true)
	v := visit(t)
	v.resize(360, 740, 2)
	for _, hash := range views {
		v.open(url + "/" + hash)
		v.until(`document.querySelector('h1') && document.getElementById('status').dataset.kind !== 'loading' || document.title.startsWith('Not found')`)
		wide := eval[string](v, `(() => {
			if (document.documentElement.scrollWidth <= innerWidth) return '';
			const out = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll') && e.checkVisibility());
			return document.documentElement.scrollWidth + ': ' + out.slice(0, 5).map((e) => e.tagName + '.' + e.className + '#' + e.id).join(' ');
		})()`)
		if wide != "" {
			t.Errorf("%s is wider than a phone: %s", hash, wide)
		}
	}
	v.open(url + "/#/fleet")
	v.shown()
	v.click(".map canvas")
	v.until(`document.querySelector('#detail b')?.textContent.startsWith('node-')`)
}

// TestKeyboard: Tab reaches everything in the order of the page and back, the focus can be
// seen, and updates do not take it away.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	fleet := fake.New(64, false)
	url := site(t, fleet, true)
	v := visit(t)
	for _, hash := range []string{"#/fleet", "#/pending", "#/queues/batch", "#/whatif", "#/why/research/llama"} {
		v.open("about:blank") // a page of its own: the last one is paused
		v.open(url + "/" + hash)
		v.shown()
		v.click("#pause") // the order is compared while nothing changes
		eval[any](v, `document.activeElement.blur(); window.getSelection().removeAllRanges(); document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')`)
		want := eval[int](v, `[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((e) => !e.disabled && e.checkVisibility()).length`)
		seen := map[string]bool{}
		for range want + 3 {
			v.press("Tab")
			got := eval[string](v, `(() => { const e = document.activeElement; if (e === document.body) return ''; const all = [...document.querySelectorAll('*')]; return all.indexOf(e) + ' ' + e.tagName + ' ' + (getComputedStyle(e).outlineStyle !== 'none' && e.matches(':focus-visible')); })()`)
			if strings.HasSuffix(got, "false") {
				t.Errorf("%s: the focus on %s cannot be seen", hash, got)
			}
			if got != "" {
				seen[got] = true
			}
		}
		if len(seen) < want {
			t.Errorf("%s: Tab reaches %d of %d controls", hash, len(seen), want)
		}
	}
	// The map by keys, with what a screen reader says.
	v.open("about:blank")
	v.open(url + "/#/fleet")
	v.shown()
	eval[any](v, `document.querySelector('.map').focus()`)
	v.until(`document.querySelector('#detail b')?.textContent === 'node-0000, device 0'`)
	v.press("ArrowRight", "ArrowDown")
	v.until(`document.querySelector('#detail b')?.textContent === 'node-0001, device 1'`)
	v.press("PageDown")
	v.until(`document.querySelector('#detail b')?.textContent === 'node-0016, device 1'`)
	v.press("End", "ArrowRight", "ArrowRight", "Home")
	v.until(`document.querySelector('#detail b')?.textContent === 'node-0000, device 0'`)
	fleet.Step(30)
	n := fmt.Sprint(eval[float64](v, `performance.getEntriesByName('fleet-show').length`))
	v.until(`performance.getEntriesByName('fleet-show').length > ` + n + ` + 1`)
	if got := eval[string](v, `document.activeElement.className`); got != "map" {
		t.Errorf("an update moved the focus to %q", got)
	}
	v.press("Enter")
	v.until(`location.hash.startsWith('#/why/')`)
	v.until(`document.activeElement.id === 'title'`)
	// Typing in a field survives updates.
	v.open(url + "/#/fleet?as=table")
	v.shown()
	v.fill("#find", "node-0003")
	v.until(`document.querySelectorAll('tbody tr[data-key^="node-0003 "]').length === 8`)
	n = fmt.Sprint(eval[float64](v, `performance.getEntriesByName('fleet-show').length`))
	v.until(`performance.getEntriesByName('fleet-show').length > ` + n)
	if got := eval[string](v, `document.activeElement.id + document.activeElement.value`); got != "findnode-0003" {
		t.Errorf("an update changed the field: %q", got)
	}
}

// TestThemes: the system's scheme is followed, the switch goes before it and is kept.
func TestThemes(t *testing.T) {
	t.Parallel()
	url := site(t, fake.New(16, false), true)
	v := visit(t)
	background := func() string {
		return eval[string](v, `getComputedStyle(document.body).backgroundColor`)
	}
	v.prefers("dark")
	v.open(url)
	v.shown()
	dark := background()
	v.prefers("light")
	v.until(`getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'`)
	if dark == background() {
		t.Errorf("light and dark are both %s", dark)
	}
	v.click("#theme")
	v.click("#theme")
	v.until(`document.getElementById('theme').textContent === 'Theme: dark'`)
	if background() != dark {
		t.Error("the switch does not make it dark")
	}
	v.open(url + "/#/queues")
	v.shown()
	if background() != dark {
		t.Error("the choice is not kept")
	}
}
