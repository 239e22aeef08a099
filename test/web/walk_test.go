package web

import (
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/web/fake"
)

// TestWalk is the way of a person whose gang waits among 1,000 nodes: log in, find it, see
// why, what would help and when; then it starts, and its plan is a picture. TestCluster is
// the same on a cluster.
func TestWalk(t *testing.T) {
	t.Parallel()
	fleet := fake.New(1000, false)
	url := site(t, fleet, false)
	v := visit(t)
	v.open(url)
	v.login(fake.Admin)
	v.shown()
	v.reads("GPUs allocated")
	v.click("#nav a[href='#/pending']")
	v.shown()
	v.fill("#ns", "research")
	v.fill("#q", "llama")
	v.until(`document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody a')?.textContent === 'research/llama'`)
	v.reads("0/16 nodes fit")
	v.until(`location.hash === '#/pending?ns=research&q=llama'`) // it can be passed on
	v.click("tbody a")
	v.until(`location.hash === '#/why/research/llama'`)
	v.until(`document.activeElement.id === 'title'`)
	for _, part := range []struct{ selector, text string }{
		{"#answer", "needs 4 members in one rack"}, {"#answer", "0/16 nodes fit"}, {"#when", "in 1"}, {"#when", "nodes are reserved"}, {"#helps", "Uncordon a node"}, {"#helps pre", "kubectl uncordon"}, {"#ahead", "research/waits-0"},
	} {
		v.until(`document.querySelector('` + part.selector + `')?.innerText.includes('` + part.text + `')`)
	}
	fleet.Start(query.GangRef{Namespace: "research", Name: "llama"})
	v.until(`document.querySelector('#answer').innerText === 'It runs.'`)
	v.until(`document.querySelector('#said').textContent === 'It runs.'`) // and is said aloud
	v.click("a[href='#/plan/research/llama']")
	v.until(`document.querySelectorAll('.plan figure').length === 4 && document.querySelectorAll('.plan .device.mine').length === 32 && document.querySelectorAll('.plan .linkgroup').length === 4`)
	v.click("#nav a[href='#/whatif']")
	v.fill("#manifest", "kind: Job\nmetadata: {name: trial}\n")
	v.click("#ask")
	v.reads("Would start: now")
	v.reads("batch/sweep-1")
	v.reads("and 1 gang that you may not see")
	v.reads("fractions of a GPU need")
	v.until(`document.querySelectorAll('.plan .device.mine').length === 4`)
	if got := eval[string](v, `document.querySelector('#manifest').value`); !strings.Contains(got, "trial") {
		t.Errorf("the manifest is gone after the answer: %q", got)
	}
	if hosts := v.asked(); len(hosts) != 1 || hosts[url] == 0 {
		t.Errorf("requests went to %v, want only %s", hosts, url)
	}
	expect(v, "401")
}

// TestTokens: without a token nothing is seen, a bad one is refused with a reason, and one
// that may list one namespace shows no names of others.
func TestTokens(t *testing.T) {
	t.Parallel()
	url := site(t, fake.New(64, false), false)
	v := visit(t)
	v.open(url + "/#/pending")
	v.until(`document.querySelector('#token') === document.activeElement`)
	if text := eval[string](v, `document.querySelector('main').innerText`); strings.Contains(text, "research") {
		t.Errorf("a visitor without a token reads %q", text)
	}
	v.login("wrong")
	v.reads("This token was refused: the API server does not know this token")
	v.login("two words")
	v.reads("A token is one word")
	eval[any](v, `document.querySelector('#token').value = ''`)
	v.login("Bearer " + fake.Tenant) // as people copy it
	v.shown()
	v.reads("research/llama")
	v.reads("and 50 gangs that you may not see.")
	v.click("#nav a[href='#/fleet']")
	v.reads("You may not list nodes: 64 nodes appear only as sums.")
	for _, hash := range []string{"#/fleet", "#/pending", "#/queues", "#/timeline", "#/health", "#/why/research/llama", "#/plan/research/llama", "#/why/vision/waits-1"} {
		v.open(url + "/" + hash)
		v.until(`document.getElementById('status').dataset.kind !== 'loading'`)
		text := eval[string](v, `document.body.innerText`)
		for _, other := range []string{"vision/", "speech/", "platform/", "serving/", "node-0001"} {
			if strings.Contains(text, other) && hash != "#/why/vision/waits-1" && hash != "#/why/research/llama" {
				t.Errorf("%s shows %q to a visitor that may not see it", hash, other)
			}
		}
	}
	v.reads("you may not list pods of namespace vision")
	v.click("#logout")
	v.until(`document.querySelector('#token') === document.activeElement`)
	if left := eval[int](v, `sessionStorage.length + [...Array(localStorage.length).keys()].filter((i) => /token/i.test(localStorage.getItem(localStorage.key(i)))).length`); left != 0 {
		t.Errorf("%d tokens are left in the browser after logging out", left)
	}
	expect(v, "401", "403")
}

// TestHostileNames: names with markup are text, wherever they are shown.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	url := site(t, fake.New(32, true), true)
	v := visit(t)
	for _, hash := range []string{
		"#/fleet?by=queue", "#/fleet?by=namespace&as=table", "#/pending", "#/pending?phase=Running", "#/timeline", "#/health", "#/queues",
		"#/why/%3Cimg%20src%3Dx%20onerror%3D%22window.pwned%3D1%22%3E/x", "#/%3Cscript%3E", "#/why/%zz/x", "#/constructor", "#/why/one",
	} {
		v.open(url + "/" + hash)
		v.until(`document.querySelector('h1') && (document.getElementById('status').dataset.kind === 'live' || document.querySelector('h1').textContent.includes('no such view'))`)
	}
	v.open(url + "/#/pending")
	v.shown()
	v.reads(fake.Hostile[0]) // it is shown as it is
	for range 2 {
		v.click("tbody tr:nth-child(2) a")
		v.until(`location.hash.startsWith('#/why/')`)
		v.shown()
		v.reads(fake.Hostile[1])
		v.click("#nav a[href='#/pending']")
		v.shown()
	}
	v.open(url + "/#/fleet")
	v.shown()
	v.click(".map")
	v.until(`document.querySelector('#detail b')`)
	if got := eval[string](v, `String(window.pwned) + document.querySelectorAll('main img, main script').length`); got != "undefined0" {
		t.Errorf("markup in a name was taken for markup: %s", got)
	}
}

// TestLive: changes arrive by themselves and only what changed is asked for; failures are
// said, with less and less frequent attempts; a hidden or paused page asks nothing.
func TestLive(t *testing.T) {
	t.Parallel()
	fleet := fake.New(1000, false)
	url := site(t, fleet, true)
	v := visit(t)
	v.open(url + "/#/fleet?by=namespace")
	v.shown()
	before := eval[string](v, `document.querySelector('.legend').innerText`)
	fleet.Step(200)
	v.until(`document.querySelector('.legend').innerText !== ` + js(before))
	asks := fleet.Asks()
	if asks[query.PathNodes] != 1 || asks[query.PathNodes+"?since"] == 0 {
		t.Errorf("nodes were asked for %d times in full and %d times by change, want once in full", asks[query.PathNodes], asks[query.PathNodes+"?since"])
	}
	fleet.Fail(503)
	v.until(`document.getElementById('status').dataset.kind === 'error'`)
	v.reads("no scheduler leads.")
	v.reads("Next attempt in")
	v.until(`document.querySelector('.legend')`) // the last data stay
	fleet.Fail(0)
	v.until(`document.getElementById('status').dataset.kind === 'live'`)
	v.until(`!document.querySelector('#trouble .error')`)
	v.click("#pause")
	v.until(`document.getElementById('status').dataset.kind === 'paused'`)
	still(t, fleet)
	v.reads("Paused; data ")
	v.click("#pause")
	v.until(`document.getElementById('status').dataset.kind === 'live'`)
	// As when another tab is in front.
	eval[any](v, `Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`)
	still(t, fleet)
	eval[any](v, `delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))`)
	n := fleet.Asks()[query.PathFleet]
	for end := time.Now().Add(patience); fleet.Asks()[query.PathFleet] == n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a page that is shown again asks nothing")
		}
	}
	expect(v, "503")
}

// still fails if the page asks something within two of its intervals.
func still(t *testing.T, fleet *fake.Fleet) {
	t.Helper()
	time.Sleep(300 * time.Millisecond) // what was on its way
	n := fleet.Asks()[query.PathFleet]
	time.Sleep(4200 * time.Millisecond) // that nothing happens has no event to wait for
	if more := fleet.Asks()[query.PathFleet] - n; more != 0 {
		t.Errorf("%d questions from a page that should ask nothing", more)
	}
}
