package query

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// slow is an API server that takes its time to say who a token is, and notes which paths it
// is asked about.
type slow struct {
	gate
	inside chan string
	answer chan struct{}

	mu    sync.Mutex
	paths map[string]int
}

func (s *slow) Who(r *http.Request) user.Info {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer slow") {
		s.inside <- r.RemoteAddr
		<-s.answer
		return nil
	}
	if r.Header.Get("Authorization") == "" {
		return &user.DefaultInfo{Name: "certificate"}
	}
	return s.gate.Who(r)
}

func (s *slow) MayGet(ctx context.Context, who user.Info, path string) (bool, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[path]++
	return who.GetName() != "eve", "", nil
}

// TestUnknownCallers: unknown tokens are checked few at a time, fewer of one
// address, and who has a certificate is answered meanwhile.
func TestUnknownCallers(t *testing.T) {
	access := &slow{inside: make(chan string, 1000), answer: make(chan struct{}), paths: map[string]int{}}
	s := New(Options{Access: access})
	s.table["/query/v1/test"] = &Question{Method: http.MethodGet, Answer: func(context.Context, Caller, *Request) (any, *apiquery.Error) { return "ok", nil }}
	handler := s.Handler()
	ask := func(from, token string) int {
		r := httptest.NewRequest(http.MethodGet, "/query/v1/test", nil)
		r.RemoteAddr = from + ":1234"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	var wg sync.WaitGroup
	statuses := make(chan int, 1000)
	for i := range knocksMost { // of so many addresses that none has too many
		wg.Go(func() { statuses <- ask(fmt.Sprint("10.0.0.", i%8), fmt.Sprint("slow-", i)) })
	}
	for range knocksMost {
		<-access.inside
	}
	if status := ask("10.0.1.1", "bob"); status != http.StatusTooManyRequests {
		t.Errorf("one more token: %d", status)
	}
	if status := ask("10.0.1.1", ""); status != http.StatusOK {
		t.Errorf("a certificate: %d", status)
	}
	close(access.answer)
	wg.Wait()
	if status := ask("10.0.1.1", "bob"); status != http.StatusOK {
		t.Errorf("afterwards: %d", status)
	}
	// One address leaves room for others.
	access.answer = make(chan struct{})
	for i := range knocksEach {
		wg.Go(func() { statuses <- ask("10.0.0.1", fmt.Sprint("slow-", i)) })
	}
	for range knocksEach {
		<-access.inside
	}
	if status := ask("10.0.0.1", "bob"); status != http.StatusTooManyRequests {
		t.Errorf("one more of one address: %d", status)
	}
	if status := ask("10.0.0.2", "bob"); status != http.StatusOK {
		t.Errorf("of another address: %d", status)
	}
	close(access.answer)
	wg.Wait()
	if len(s.porch.from) != 0 || len(s.porch.free) != 0 {
		t.Errorf("left: %v, %d", s.porch.from, len(s.porch.free))
	}
}

// TestInventedPaths: the API server is not asked about each path that a caller invents.
func TestInventedPaths(t *testing.T) {
	access := &slow{paths: map[string]int{}}
	handler := New(Options{Access: access}).Handler()
	for i := range 20 {
		for who, want := range map[string]int{"eve": 403, "bob": 404} {
			r := httptest.NewRequest(http.MethodGet, fmt.Sprint("/query/v1/invented-", i), nil)
			r.Header.Set("Authorization", "Bearer "+who)
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s: %d, want %d", who, w.Code, want)
			}
		}
	}
	if len(access.paths) != 1 {
		t.Errorf("asked about %v", access.paths)
	}
}

// TestStreams: one connection has few requests open.
func TestStreams(t *testing.T) {
	p := &Port{Listen: "127.0.0.1:0"}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	const requests = 2*maxStreams + 1
	inside, hold := make(chan string, requests), make(chan struct{})
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- p.Serve(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				inside <- fmt.Sprint(r.Proto, " ", r.RemoteAddr)
				<-hold
			}
		}))
	}()
	e := p.Endpoint("")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(e.CA))
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: e.ServerName}}}
	get := func(path string) {
		if answer, err := client.Get("https://" + e.Address + path); err == nil {
			answer.Body.Close()
		}
	}
	get("/first")
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() { get("/hold") })
	}
	open := map[string]int{}
	for range requests {
		open[<-inside]++
	}
	for connection, n := range open {
		if n > maxStreams || !strings.HasPrefix(connection, "HTTP/2") {
			t.Errorf("%d requests of %s", n, connection)
		}
	}
	close(hold)
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestShelf: answers that are not read are bounded, of all callers and of one beside its
// first.
func TestShelf(t *testing.T) {
	s := newShelf()
	put := func(user string, size int, want bool) func() {
		t.Helper()
		take, ok := s.put(user, size)
		if ok != want {
			t.Fatalf("%s puts %d: %v", user, size, ok)
		}
		return take
	}
	first := put("system:serviceaccount:a:x", 40<<20, true)
	second := put("system:serviceaccount:a:y", heldEach, true)
	if !s.full("system:serviceaccount:a:z") || s.full("bob") {
		t.Error("full")
	}
	put("system:serviceaccount:a:z", 1, false)
	other := put("bob", heldMost-40<<20-heldEach, true)
	put("carol", 1, false)
	other()
	put("carol", 1, true)()
	second()
	put("system:serviceaccount:a:z", heldEach, true)()
	first()
	if s.held != 0 || len(s.by) != 0 {
		t.Errorf("left: %d, %v", s.held, s.by)
	}
}

// TestSlowReaders: who does not read what they are sent gets 429 beyond the bound, and others
// are answered. Compressed answers count as they are sent.
func TestSlowReaders(t *testing.T) {
	large := strings.Repeat("x", heldEach)
	s := serve(t, &gate{}, Options{}, &Question{Method: http.MethodGet, Answer: func(context.Context, Caller, *Request) (any, *apiquery.Error) { return large, nil }})
	host := strings.TrimPrefix(s.URL, "http://")
	send := func(more string) net.Conn { // nothing is read
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /query/v1/test HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob\r\n%s\r\n", more)
		return c
	}
	begun := func(c net.Conn) { // the answer is being sent
		if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		c := send("Accept-Encoding: gzip\r\n") // small: it is sent at once
		begun(c)
		c.Close()
	}
	first := send("")
	begun(first)
	defer first.Close()
	request := func(who string) int {
		r, _ := http.NewRequest(http.MethodGet, s.URL+"/query/v1/test", nil)
		r.Header.Set("Authorization", "Bearer "+who)
		r.Header.Set("Accept-Encoding", "identity")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	if status := request("bob"); status != http.StatusTooManyRequests { // a little above 16 MiB
		t.Errorf("another large answer: %d", status)
	}
	if status := request("carol"); status != http.StatusOK {
		t.Errorf("another caller: %d", status)
	}
	zipped := send("Accept-Encoding: gzip\r\nConnection: close\r\n")
	defer zipped.Close()
	all, err := io.ReadAll(zipped)
	_, body, _ := strings.Cut(string(all), "\r\n\r\n")
	z, bad := gzip.NewReader(strings.NewReader(body))
	if err != nil || bad != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200") {
		t.Fatalf("%v %v %.100s", err, bad, all)
	}
	if text, err := io.ReadAll(z); err != nil || len(text) != len(large)+3 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestToll: a caller has a tenth of the lock's time, after a burst.
func TestToll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newToll()
		held, asked, began := time.Duration(0), 0, time.Now()
		for time.Since(began) < time.Minute {
			if !l.wait(t.Context(), "system:serviceaccount:a:x") {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			asked++
			held += 10 * time.Millisecond
			l.charge("system:serviceaccount:a:x", 10*time.Millisecond)
			if asked == 100 && !l.wait(t.Context(), "bob") {
				t.Error("another caller waits")
			}
		}
		if most := (time.Minute + lockBurst) / lockShare; held > most+20*time.Millisecond || held < most/2 {
			t.Errorf("held for %s, may for %s", held, most)
		}
		l.charge("system:serviceaccount:a:y", time.Second)
		if l.wait(t.Context(), "system:serviceaccount:a:x") {
			t.Error("waits long")
		}
		time.Sleep(lockShare*time.Second + lockBurst)
		if !l.wait(t.Context(), "system:serviceaccount:a:x") {
			t.Error("never forgiven")
		}
	})
}

// TestCharged: who held the lock for long is refused what takes it, and nothing else.
func TestCharged(t *testing.T) {
	g := &gate{}
	answer := func(_ context.Context, c Caller, _ *Request) (any, *apiquery.Error) {
		c.(interface{ Charge(_, held time.Duration) }).Charge(0, time.Minute)
		return "ok", nil
	}
	o := Options{Access: g}
	s := New(o)
	s.table["/query/v1/locks"] = &Question{Method: http.MethodGet, Answer: answer, Locks: true}
	s.table["/query/v1/other"] = &Question{Method: http.MethodGet, Answer: answer}
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	for _, c := range []struct {
		path, who string
		want      int
	}{{"locks", "bob", 200}, {"locks", "bob", 429}, {"other", "bob", 200}, {"locks", "alice", 200}} {
		if status, _, text := ask(t, server, "GET", "/query/v1/"+c.path, c.who, nil); status != c.want {
			t.Errorf("%+v: %d %s", c, status, text)
		}
	}
	for _, q := range Table() {
		if locks := q.Path == apiquery.PathWhy || q.Path == apiquery.PathExplain; q.Locks != locks {
			t.Errorf("%s: locks %v", q.Path, q.Locks)
		}
	}
}

// TestRightsAtOnce: what an answer in words needs is asked for at once, and once.
func TestRightsAtOnce(t *testing.T) {
	const all = 4
	r := &together{want: all, all: make(chan struct{})}
	c := newCaller(t.Context(), &user.DefaultInfo{Name: "bob"}, r)
	if c.askAhead()(); r.n != all {
		t.Errorf("asked %d times", r.n)
	}
	if !c.MayListPods("a") || !c.MayListNodes() || !c.MayListQueues() || r.n != all {
		t.Errorf("asked %d times", r.n)
	}
}

// together answers when all questions are there.
type together struct {
	mu      sync.Mutex
	n, want int
	all     chan struct{}
}

func (r *together) MayList(context.Context, user.Info, string, string, string) (bool, error) {
	r.mu.Lock()
	if r.n++; r.n == r.want {
		close(r.all)
	}
	r.mu.Unlock()
	select {
	case <-r.all:
		return true, nil
	case <-time.After(20 * time.Second):
		return false, fmt.Errorf("one after the other")
	}
}
