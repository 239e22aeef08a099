package monitoring

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// promtool runs a command of promtool in a folder and returns what it printed.
func promtool(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(cluster.Programs(t, "promtool"), "promtool"), args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A prometheus is a server that answers queries.
type prometheus struct{ url string }

// parser is a Prometheus that scrapes nothing, for its parser. All tests share one.
var parser struct {
	sync.Mutex
	prometheus
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if parser.stop != nil {
		parser.stop()
	}
	os.Exit(code)
}

func theParser(t *testing.T) prometheus {
	t.Helper()
	bin := cluster.Programs(t, "prometheus")
	parser.Lock()
	defer parser.Unlock()
	if parser.stop != nil {
		return parser.prometheus
	}
	dir, err := os.MkdirTemp("", "prometheus-") // outlives this test
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	cmd := exec.Command(filepath.Join(bin, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	parser.url = "http://" + address
	parser.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	eventually(t, "Prometheus answers", 30*time.Second, func() error {
		_, err := parser.get(t.Context(), "/-/ready")
		return err
	})
	return parser.prometheus
}

// get returns the body of a path that answers 200.
func (p prometheus) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return body, err
}

// api asks one of Prometheus' APIs and decodes the field data of the answer.
func (p prometheus) api(ctx context.Context, path string, values url.Values, into any) error {
	body, err := p.get(ctx, "/api/v1/"+path+"?"+values.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct {
		Data any `json:"data"`
	}{into})
}

// sample is one series of an answer, with its newest value.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"` // seconds, number as text
}

// query evaluates an expression now.
func (p prometheus) query(ctx context.Context, expr string) ([]sample, error) {
	var answer struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := p.api(ctx, "query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, err
	}
	if answer.ResultType != "vector" {
		return nil, fmt.Errorf("%s: is a %s, want a vector", expr, answer.ResultType)
	}
	var out []sample
	return out, json.Unmarshal(answer.Result, &out)
}

// eventually asks until there is no error, or fails with the last one.
func eventually(t *testing.T, what string, limit time.Duration, ask func() error) {
	t.Helper()
	limit *= 4 // the machine may run other tests, or others' work
	deadline := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// trusting accepts every certificate: of interest is what a server says, not who it is.
func trusting() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true} //nolint:gosec // as above
}
