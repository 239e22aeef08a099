package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminGroup may do everything: the API server binds it to cluster-admin.
const adminGroup = "system:masters"

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// RESTConfig returns a new configuration for the administrator, without a client
// side rate limit. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// KubeconfigFor writes a kubeconfig with a client certificate for user and groups, so
// that RBAC applies to its clients, and returns its path. The same identity always
// gives the same path.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	pair, err := c.authority.issue(identity{user: user, groups: groups, client: true}, time.Now())
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.dir, "kubeconfigs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// The digest keeps identities apart that spell the same as a file name.
	sum := sha256.Sum256([]byte(user + "\x00" + strings.Join(groups, "\x00")))
	path := filepath.Join(dir, fileName(user)+"-"+hex.EncodeToString(sum[:4])+".kubeconfig")
	return path, c.writeKubeconfig(path, user, &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key})
}

// tokenSeconds is how long tokens are valid: longer than a local cluster runs, since nothing
// renews them.
const tokenSeconds = 30 * 24 * 3600

// Token is a token of a service account; bound, if not nil, is the object that it ends with.
func (c *Cluster) Token(ctx context.Context, namespace, account string, bound *authenticationv1.BoundObjectReference) (string, error) {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return "", err
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: bound}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", namespace, account, err)
	}
	return answer.Status.Token, nil
}

// WriteTokenKubeconfig writes a kubeconfig for clients that authenticate with a token.
func (c *Cluster) WriteTokenKubeconfig(path, user, token string) error {
	return c.writeKubeconfig(path, user, &clientcmdapi.AuthInfo{Token: token})
}

func fileName(user string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, user)
}

func (c *Cluster) writeKubeconfig(path, user string, identity *clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["tangram"] = &clientcmdapi.Cluster{Server: c.server, CertificateAuthorityData: c.authorityPEM()}
	config.AuthInfos[user] = identity
	config.Contexts["tangram"] = &clientcmdapi.Context{Cluster: "tangram", AuthInfo: user}
	config.CurrentContext = "tangram"
	if err := replaceKubeconfig(config, path); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return nil
}

// replaceKubeconfig writes a file in one step: another may be reading the one before, or
// writing it for the same user.
func replaceKubeconfig(config *clientcmdapi.Config, path string) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(data); err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (c *Cluster) authorityPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.authority.cert.Raw})
}

// useAdmin creates the administrator's identity, for users and for the cluster's own
// requests.
func (c *Cluster) useAdmin(now time.Time) error {
	pair, err := c.authority.issue(identity{user: "tangram-admin", groups: []string{adminGroup}, client: true}, now)
	if err != nil {
		return err
	}
	c.admin = &rest.Config{
		Host:  c.server,
		QPS:   -1, // the API server's own limits are enough
		Burst: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.authorityPEM(), CertData: pair.cert, KeyData: pair.key,
		},
	}
	return c.writeKubeconfig(c.Kubeconfig(), "tangram-admin", &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key})
}
