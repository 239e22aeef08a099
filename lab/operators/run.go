package operators

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/lab/local"
)

// Options say how to run an operator.
type Options struct {
	// Cluster is where it runs; it needs a controller manager.
	Cluster *local.Cluster
	// Bin is the folder of programs, as make operators leaves it: operators are in
	// Bin/operators.
	Bin string
	// Config is YAML that is merged into the operator's configuration file, for those that
	// have one: maps are merged, everything else replaces what was there.
	Config string
	// Args are further arguments, after the usual ones; Env as "KEY=value" likewise.
	Args, Env []string
}

// Samples is the folder with an operator's own sample manifests.
func Samples(bin, name string) string { return filepath.Join(bin, "operators", name+".samples") }

// Require returns an error that names what cannot be run, and the remedy.
func Require(bin string, names ...string) error {
	var missing []string
	for _, name := range names {
		if _, ok := find(name); !ok {
			return fmt.Errorf("no operator %q; there are: %s", name, strings.Join(Names(), ", "))
		}
		for _, file := range []string{name, name + ".crds.yaml"} {
			if info, err := os.Stat(filepath.Join(bin, "operators", file)); err != nil || !info.Mode().IsRegular() {
				missing = append(missing, file)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks %s: run make operators, which builds them, or name the folder that has them with --bin",
			filepath.Join(bin, "operators"), strings.Join(missing, ", "))
	}
	return nil
}

// Run installs an operator's CRDs, Namespaces and webhooks and starts it; it returns once
// the operator is ready and its webhooks answer. It is restarted when it crashes, and ends
// with the cluster or with the process that is returned.
func Run(ctx context.Context, name string, o Options) (*local.Process, error) {
	if err := Require(o.Bin, name); err != nil {
		return nil, err
	}
	row, _ := find(name)
	s, err := o.serving(name)
	if err != nil {
		return nil, err
	}
	if row.webhooks == byURL {
		if err := o.Cluster.WriteServingCertificate(s.certs); err != nil {
			return nil, err
		}
	}
	docs, err := os.ReadFile(filepath.Join(s.bin, name+".crds.yaml"))
	if err != nil {
		return nil, err
	}
	if docs, s.paths, err = definitions(docs, row.webhooks, s.webhook, o.Cluster.Authority()); err != nil {
		return nil, fmt.Errorf("%s.crds.yaml: %w", name, err)
	}
	if row.webhooks == byService { // it fills the Secret, and does not start without one
		namespace, secret, _ := strings.Cut(row.secret, "/")
		docs = fmt.Appendf(docs, "---\n{apiVersion: v1, kind: Secret, metadata: {namespace: %s, name: %s}}\n", namespace, secret)
	}
	if err := o.Cluster.ApplyManifests(ctx, docs); err != nil {
		return nil, fmt.Errorf("operator %s: %w", name, err)
	}
	program, err := o.program(row, s)
	if err != nil {
		return nil, err
	}
	return o.Cluster.Run(ctx, program)
}

// serving chooses ports and folders for a run.
func (o Options) serving(name string) (serving, error) {
	dir := filepath.Join(o.Cluster.Dir(), "operators", name)
	s := serving{temp: filepath.Join(dir, "tmp"), bin: filepath.Join(o.Bin, "operators")}
	// Where controller-runtime looks for certificates when it is not told.
	s.certs = filepath.Join(s.temp, "k8s-webhook-server", "serving-certs")
	for _, port := range []*int{&s.health, &s.metrics, &s.webhook} {
		var err error
		if *port, err = local.FreePort(); err != nil {
			return s, err
		}
	}
	return s, os.MkdirAll(s.certs, 0o700)
}

// program is the operator's as a child process.
func (o Options) program(row operator, s serving) (local.Program, error) {
	kubeconfig, err := o.Cluster.KubeconfigFor("operator-"+row.name, "system:masters")
	if err != nil {
		return local.Program{}, err
	}
	client, err := kubernetes.NewForConfig(o.Cluster.RESTConfig())
	if err != nil {
		return local.Program{}, err
	}
	p := local.Program{
		Name: "operator-" + row.name, Path: filepath.Join(s.bin, row.name), Restart: true,
		Env:   []string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + s.temp},
		Ready: func(ctx context.Context) error { return row.ready(ctx, s, client) },
	}
	if row.args != nil {
		p.Args = row.args(s)
	}
	if row.env != nil {
		p.Env = append(p.Env, row.env(s)...)
	}
	switch {
	case row.config != nil:
		file := filepath.Join(filepath.Dir(s.temp), "config.yaml")
		if err := writeConfig(file, row.config(s), o.Config); err != nil {
			return p, fmt.Errorf("configuration of operator %s: %w", row.name, err)
		}
		p.Args = append(p.Args, "--config="+file)
	case o.Config != "":
		return p, fmt.Errorf("operator %s takes no configuration file", row.name)
	}
	p.Args, p.Env = append(p.Args, o.Args...), append(p.Env, o.Env...)
	return p, nil
}

// writeConfig merges changes into a configuration and writes it.
func writeConfig(file string, config object, changes string) error {
	change := object{}
	if err := yaml.UnmarshalStrict([]byte(changes), &change); err != nil {
		return err
	}
	merge(config, change)
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// merge puts what change says into o.
func merge(o, change object) {
	for key, value := range change {
		into, isMap := o[key].(object)
		more, both := value.(object)
		if isMap && both {
			merge(into, more)
			continue
		}
		o[key] = value
	}
}

// ready says whether the operator serves. It also gives it the certificates it has made,
// as a volume of its Secret would.
func (o operator) ready(ctx context.Context, s serving, client kubernetes.Interface) error {
	if o.webhooks == byService {
		if err := mount(ctx, client, o.secret, s.certs, hardCoded); err != nil {
			return err
		}
	}
	path := o.health
	if path == "" {
		path = "/readyz"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at(s.health)+path, nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	for _, path := range s.paths {
		if err := serves(ctx, "https://"+at(s.webhook)+path); err != nil {
			return err
		}
	}
	return nil
}

// serves says whether a webhook answers: operators say that they are ready, and listen,
// before all their webhooks are registered.
func serves(ctx context.Context, url string) error {
	// Whether its certificate is right is for the API server to say.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("POST %s: %s", url, response.Status)
	}
	return nil
}

// hardCoded is where training-operator waits for certificates to appear, whatever it is
// told. It reads those in $TMPDIR, so these only have to exist.
const hardCoded = "/tmp/k8s-webhook-server/serving-certs"

// mount writes a Secret to folders, as far as it exists and is not written yet.
func mount(ctx context.Context, client kubernetes.Interface, secret string, folders ...string) error {
	namespace, name, _ := strings.Cut(secret, "/")
	found, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && len(found.Data["tls.crt"]) == 0 {
		return fmt.Errorf("secret %s has no certificate yet", secret)
	}
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		for key, data := range found.Data {
			if !filepath.IsLocal(key) {
				return fmt.Errorf("secret %s: key %q is no file name", secret, key)
			}
			path := filepath.Join(folder, key)
			old, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil && (string(old) == string(data) || folder == hardCoded) {
				continue
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
