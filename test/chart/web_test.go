package chart

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/cluster"
)

// pageFlags turn the web page on, with the certificate of a Secret.
func pageFlags(secret string) []string {
	return []string{"--set", "web.enabled=true,web.tlsSecret=" + secret}
}

// visitors: the rights of viewer are those of the two commands of docs/guides/web.md.
var visitors = cluster.Accounts(
	cluster.Account{Namespace: "default", Name: "viewer", Everywhere: []string{"tangram-viewer"}, Own: []string{"view"}},
	cluster.Account{Namespace: "default", Name: "stranger"},
)

// throughPage opens the web page at every pod behind its Service, as a visitor's browser
// does: the page itself is for all, answers need a token that may ask. Pod too-large of
// namespace default must wait.
func (w *world) throughPage() {
	t := w.T
	t.Helper()
	w.Apply(string(visitors))
	tokens := map[string]string{"no token": "", "a wrong token": "wrong", "viewer": w.Token("default", "viewer"), "stranger": w.Token("default", "stranger")}
	client := cluster.HTTPClient(w.RESTConfig().CAData, "localhost") // the Secret's certificate
	defer client.CloseIdleConnections()
	get := func(url, token string) cluster.Answer {
		return cluster.Asker{Client: client, Base: url}.Bearer(token).Do(t, http.MethodGet, "", nil)
	}

	for _, url := range w.behind("gpu-web") {
		page := get(url+"/", "")
		if policy := page.Header.Get("Content-Security-Policy"); page.Status != http.StatusOK || !strings.Contains(page.Text, "<title>Tangram</title>") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("the page at %s: %d, policy %q", url, page.Status, policy)
		}
		for who, want := range map[string]int{"no token": 401, "a wrong token": 401, "stranger": 403, "viewer": 200} {
			if a := get(url+query.PathFleet, tokens[who]); a.Status != want || want != 200 && strings.Contains(a.Text, "nodes") {
				t.Errorf("the fleet at %s with %s: %d %.200s, want %d", url, who, a.Status, a.Text, want)
			}
		}
		answer := get(url+query.PathWhy+"?namespace=default&name=too-large", tokens["viewer"])
		if why := cluster.Decode[query.Why](t, answer.Text); !why.Found || why.Reason.Code == "" || len(why.Helps) == 0 {
			t.Errorf("why at %s: %.300s", url, answer.Text)
		}
		// A visitor that may list pods of one namespace learns no names of nodes or of other pods.
		if a := get(url+query.PathNodes, tokens["viewer"]); strings.Contains(a.Text, "a100-0") || !strings.Contains(a.Text, `"hidden"`) {
			t.Errorf("nodes at %s for a visitor that may not list them: %.300s", url, a.Text)
		}
	}
}

// behind are the addresses that a Service of the release sends its visitors to.
func (w *world) behind(name string) (urls []string) {
	t := w.T
	t.Helper()
	service, err := w.Client.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	w.Must(err)
	for _, p := range w.Within(namespace).Pods(labels.SelectorFromSet(service.Spec.Selector).String()) {
		for _, port := range p.Spec.Containers[0].Ports {
			if port.Name == service.Spec.Ports[0].TargetPort.StrVal {
				urls = append(urls, "https://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(port.ContainerPort))))
			}
		}
	}
	if len(urls) != 2 {
		t.Fatalf("Service %s sends visitors to %v, want two pods of the controller", name, urls)
	}
	return urls
}
