package chart

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/api/query"
)

// pageFlags turn the web page on, with the certificate of a Secret.
func pageFlags(secret string) []string {
	return []string{"--set", "web.enabled=true,web.tlsSecret=" + secret}
}

// throughPage opens the web page at every pod behind its Service, as a visitor's browser
// does: the page itself is for all, answers are for who has a token that may ask. Pod
// too-large of namespace default must wait.
func (w *world) throughPage() {
	t := w.t
	t.Helper()
	ctx := t.Context()
	tokens := map[string]string{"no token": "", "a wrong token": "wrong"}
	for _, name := range []string{"viewer", "stranger"} {
		if _, err := w.Client.CoreV1().ServiceAccounts("default").Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := w.Token(ctx, "default", name)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
	}
	// The two commands of docs/guides/web.md.
	viewer := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "viewer"}}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	if _, err := w.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer-tangram"}, RoleRef: role("tangram-viewer"), Subjects: viewer}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer-pods"}, RoleRef: role("view"), Subjects: viewer}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.RESTConfig().CAData)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}} // the Secret's certificate
	defer client.CloseIdleConnections()
	get := func(url, token string) (int, http.Header, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header, string(text)
	}

	for _, url := range w.behind("gpu-web") {
		status, header, text := get(url+"/", "")
		if status != http.StatusOK || !strings.Contains(text, "<title>Tangram</title>") || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("the page at %s: %d, policy %q", url, status, header.Get("Content-Security-Policy"))
		}
		for who, want := range map[string]int{"no token": 401, "a wrong token": 401, "stranger": 403, "viewer": 200} {
			status, _, text := get(url+query.PathFleet, tokens[who])
			if status != want || want != 200 && strings.Contains(text, "nodes") {
				t.Errorf("the fleet at %s with %s: %d %.200s, want %d", url, who, status, text, want)
			}
		}
		why := query.Why{}
		_, _, text = get(url+query.PathWhy+"?namespace=default&name=too-large", tokens["viewer"])
		if err := json.Unmarshal([]byte(text), &why); err != nil || !why.Found || why.Reason.Code == "" || len(why.Helps) == 0 {
			t.Errorf("why at %s: %.300s, error %v", url, text, err)
		}
		// Who may list pods of one namespace learns no names of nodes or of others' pods.
		if _, _, text := get(url+query.PathNodes, tokens["viewer"]); strings.Contains(text, "a100-0") || !strings.Contains(text, `"hidden"`) {
			t.Errorf("nodes at %s for who may not list them: %.300s", url, text)
		}
	}
}

// behind are the addresses that a Service of the release sends its visitors to.
func (w *world) behind(name string) (urls []string) {
	t := w.t
	t.Helper()
	service, err := w.Client.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := w.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
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
