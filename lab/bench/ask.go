package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
)

// Ask is a question that is asked while pods are bound.
type Ask struct {
	// Why is how often per second "why" is asked; 0: not at all.
	Why float64
}

// String is how the flag is written.
func (a *Ask) String() string {
	if a.Why == 0 {
		return ""
	}
	return fmt.Sprintf("why=%g", a.Why)
}

// Type is the flag's type, for its help.
func (a *Ask) Type() string { return "QUESTION=RATE" }

// Set reads the flag.
func (a *Ask) Set(text string) error {
	question, rate, ok := strings.Cut(text, "=")
	n, err := strconv.ParseFloat(rate, 64)
	if !ok || question != "why" || err != nil || !(n > 0 && n <= maxAsk) {
		return fmt.Errorf("%q is not why=RATE, with a rate above 0 and up to %d per second", text, maxAsk)
	}
	a.Why = n
	return nil
}

// maxAsk is the highest rate of questions.
const maxAsk = 1000

// askers is how many questions are under way at once: an answer that is late delays no
// other question. One caller may have two computed at the same time.
const askers = 2

// Asked is what came of the questions of a trial.
type Asked struct {
	Answers int `json:"answers"`
	// Failed are questions that were not answered.
	Failed int `json:"failed"`
	// Took is from sending the question to the last byte of the answer.
	Took Latency `json:"tookMs"`
	// Served is the part that the scheduler says it spent (Server-Timing): the rest is the
	// way, and waiting for a processor on both sides.
	Served Latency `json:"servedMs"`
	// Slowest is what the scheduler says about the answer that took longest.
	Slowest string `json:"slowest,omitempty"`
	// OfUnasked is the ratio of pods per second to that of the same scheduler without
	// questions in the same round; nil if that did not run.
	OfUnasked *float64 `json:"ofUnasked,omitempty"`
}

// asker asks one scheduler.
type asker struct {
	client *http.Client
	base   string

	mu     sync.Mutex
	took   []time.Duration
	served []time.Duration
	// slowest is what the scheduler says of the answer that took longest.
	slowest string
	failed  int
	first   error
}

// newAsker finds where the scheduler answers, in its Lease, and asks with the
// administrator's certificate.
func (t *trial) newAsker(ctx context.Context) (*asker, error) {
	var e query.Endpoint
	for {
		lease, err := t.client.CoordinationV1().Leases("kube-system").Get(ctx, "gpu-scheduler", metav1.GetOptions{})
		if err == nil && json.Unmarshal([]byte(lease.Annotations[query.AnnotationEndpoint]), &e) == nil && e.Address != "" {
			break
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the scheduler does not say where it answers: %w", err)
		}
	}
	admin := t.cluster.RESTConfig()
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return nil, fmt.Errorf("the administrator's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(e.CA))
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, ServerName: e.ServerName, Certificates: []tls.Certificate{pair}},
		MaxIdleConnsPerHost: askers,
	}
	return &asker{client: &http.Client{Transport: transport, Timeout: 10 * time.Second}, base: "https://" + e.Address}, nil
}

// begin asks until what it returns is called, which may happen twice. A nil asker asks
// nothing.
func (a *asker) begin(ctx context.Context, c *Config, counted *cohort) (end func()) {
	if a == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx, c, counted)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// run asks at a rate until the context ends: about pods that wait, one after the other, or
// about those that are being bound where none waits.
func (a *asker) run(ctx context.Context, c *Config, counted *cohort) {
	every := time.Duration(float64(time.Second) / c.Ask.Why)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	questions := make(chan int)
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for i := range questions {
				// Neighbours in the list are not alike, and a stride that is prime meets all.
				if c.Pending > 0 {
					a.ask(ctx, pendingNamespace, fmt.Sprintf("waits-%06d", i*7919%c.Pending))
				} else {
					a.ask(ctx, namespace, counted.podName(i*7919%counted.size()))
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-ctx.Done():
		case <-ticks.C:
			select {
			case questions <- i:
			case <-ctx.Done():
			}
		}
	}
	close(questions)
	wg.Wait()
}

// ask asks once.
func (a *asker) ask(ctx context.Context, namespace, name string) {
	params := url.Values{query.ParamNamespace: {namespace}, query.ParamName: {name}, query.ParamKind: {"Pod"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+query.PathWhy+"?"+params.Encode(), nil)
	if err != nil {
		a.note(0, "", err)
		return
	}
	began := time.Now()
	said := ""
	answer, err := a.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", answer.Status)
		}
		said = answer.Header.Get("Server-Timing")
	}
	if ctx.Err() == nil {
		a.note(time.Since(began), said, err)
	}
}

// servedIn is how long the scheduler says that an answer took, in a Server-Timing header.
func servedIn(said string) time.Duration {
	_, total, _ := strings.Cut(said, "total;dur=")
	ms, err := strconv.ParseFloat(total, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

func (a *asker) note(took time.Duration, said string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed++
		if a.first == nil {
			a.first = err
		}
		return
	}
	if len(a.took) == 0 || took > slices.Max(a.took) {
		a.slowest = said
	}
	a.took = append(a.took, took)
	a.served = append(a.served, servedIn(said))
}

// result sums up; a problem when not one question was answered.
func (a *asker) result() (*Asked, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &Asked{Answers: len(a.took), Failed: a.failed, Took: latencyOf(slices.Clone(a.took)), Served: latencyOf(slices.Clone(a.served)), Slowest: a.slowest}
	if a.failed > 0 {
		return out, fmt.Sprintf("%d of %d questions were not answered: %v", a.failed, a.failed+len(a.took), a.first)
	}
	return out, ""
}

// askedRows are the rows of the table of questions.
func askedRows(summary []Result) [][]string {
	rows := [][]string{{"contender", "answers", "p50 ms", "p95 ms", "p99 ms", "max ms", "served p99 ms", "max ms", "pods/s of unasked"}}
	for i := range summary {
		if r := &summary[i]; r.Asked != nil {
			row := []string{rowName(r), strconv.Itoa(r.Asked.Answers)}
			for _, ms := range []float64{r.Asked.Took.P50, r.Asked.Took.P95, r.Asked.Took.P99, r.Asked.Took.Max, r.Asked.Served.P99, r.Asked.Served.Max} {
				row = append(row, fmt.Sprintf("%.1f", ms))
			}
			rows = append(rows, append(row, ratio3(r.Asked.OfUnasked)))
		}
	}
	return rows
}

// ratio3 has three digits: what questions cost is a few hundredths.
func ratio3(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

// medianAsked is the median over rounds; nil when nothing was asked.
func medianAsked(trials []Result) *Asked {
	var asked []Asked
	var ratios []float64
	for i := range trials {
		if a := trials[i].Asked; a != nil {
			asked = append(asked, *a)
			if a.OfUnasked != nil {
				ratios = append(ratios, *a.OfUnasked)
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	out := &Asked{
		Answers: int(medianOf(asked, func(a *Asked) float64 { return float64(a.Answers) })),
		Failed:  int(medianOf(asked, func(a *Asked) float64 { return float64(a.Failed) })),
		Took:    medianLatency(asked, func(a *Asked) Latency { return a.Took }),
		Served:  medianLatency(asked, func(a *Asked) Latency { return a.Served }),
	}
	out.Slowest = slices.MaxFunc(asked, func(a, b Asked) int { return cmp.Compare(a.Took.Max, b.Took.Max) }).Slowest
	if len(ratios) > 0 {
		m := median(ratios)
		out.OfUnasked = &m
	}
	return out
}
