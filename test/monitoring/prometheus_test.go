package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// promtool runs a command of promtool in a folder and returns what it printed.
func promtool(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	r := cluster.Commands{Bin: cluster.Programs(t, "promtool"), Dir: folder}.Run("promtool", args...)
	if r.Code != 0 {
		return r.Out + r.Err, fmt.Errorf("promtool %s: exit code %d", args[0], r.Code)
	}
	return r.Out + r.Err, nil
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
func (p prometheus) get(ctx context.Context, path string) (string, error) {
	answer, err := cluster.Asker{Client: http.DefaultClient, Base: p.url}.Try(ctx, http.MethodGet, path, nil)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d: %s", path, answer.Status, answer.Text)
	}
	return answer.Text, err
}

// api asks one of Prometheus' APIs and decodes the field data of the answer.
func (p prometheus) api(ctx context.Context, path string, values url.Values, into any) error {
	body, err := p.get(ctx, "/api/v1/"+path+"?"+values.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), &struct {
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
func eventually(t testing.TB, what string, limit time.Duration, ask func() error) {
	t.Helper()
	await.Complete(t, what, limit*await.Patience, func() string {
		if err := ask(); err != nil {
			return err.Error()
		}
		return ""
	})
}
