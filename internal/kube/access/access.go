// Package access lets only those through whom the API server knows and allows: what
// kube-scheduler does for its own metrics, for our other programs. Tokens are shown to the
// API server (TokenReview), client certificates are checked against the cluster's own
// authorities, and the API server is asked what their user may do (SubjectAccessReview);
// its answers are kept for a while.
package access

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// authenticatedFor is how long it is kept who a token's owner is, as kube-scheduler keeps
// it; timeout is of a question to the API server.
const (
	authenticatedFor = 10 * time.Second
	timeout          = 10 * time.Second
)

// Guard knows who asks, and what they may do. It is safe for concurrent use.
type Guard struct {
	authenticate authenticator.Request
	verdicts     *verdicts
	authorities  *dynamiccertificates.ConfigMapCAController // of client certificates; nil: none are accepted
}

// Options of a Guard.
type Options struct {
	Client kubernetes.Interface
	// Certificates: client certificates of the cluster's own authorities are accepted too.
	// Run follows them.
	Certificates bool
}

// New returns a guard that asks the API server.
func New(o Options) (*Guard, error) {
	retry := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}
	g := &Guard{}
	who := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: o.Client.AuthenticationV1(), TokenAccessReviewTimeout: timeout, WebhookRetryBackoff: retry, CacheTTL: authenticatedFor,
	}
	var err error
	if o.Certificates {
		if g.authorities, err = dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", "kube-system", "extension-apiserver-authentication", "client-ca-file", o.Client); err != nil {
			return nil, fmt.Errorf("authorities of client certificates: %w", err)
		}
		who.ClientCertificateCAContentProvider = g.authorities
	}
	if g.authenticate, _, err = who.New(); err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	// It keeps nothing (times of 0): verdicts does.
	ask, err := (authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: o.Client.AuthorizationV1(), WebhookRetryBackoff: retry}).New()
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	g.verdicts = newVerdicts(ask)
	return g, nil
}

// Run follows the authorities of client certificates until the context ends.
func (g *Guard) Run(ctx context.Context) {
	if g.authorities != nil {
		// What cannot be read now is read later; until then certificates are refused.
		_ = g.authorities.RunOnce(ctx)
		g.authorities.Run(ctx, 1)
	}
}

// Who says who asks; nil for who has neither a valid token nor a valid certificate.
func (g *Guard) Who(r *http.Request) user.Info {
	who, ok, err := g.authenticate.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil
	}
	return who.User
}

// May asks whether the attributes' user may do what they say, and why not. An error means
// that the API server could not be asked.
func (g *Guard) May(ctx context.Context, what authorizer.AttributesRecord) (may bool, why string, err error) {
	return g.verdicts.may(ctx, &what)
}

// MayGet asks whether a user may get a path that is no resource.
func (g *Guard) MayGet(ctx context.Context, who user.Info, path string) (may bool, why string, err error) {
	return g.May(ctx, authorizer.AttributesRecord{User: who, Verb: "get", Path: path})
}

// MayList asks whether a user may list a resource; an empty namespace means in all.
func (g *Guard) MayList(ctx context.Context, who user.Info, group, resource, namespace string) (bool, error) {
	may, _, err := g.May(ctx, authorizer.AttributesRecord{User: who, Verb: "list", APIGroup: group, APIVersion: "*", Resource: resource, Namespace: namespace, ResourceRequest: true})
	return may, err
}

// Protect returns a handler that answers 401 to who has no valid token, 403 to who may not
// get the path, and else calls next.
func Protect(client kubernetes.Interface, next http.Handler) (http.Handler, error) {
	guard, err := New(Options{Client: client})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := guard.Who(r)
		if who == nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		may, why, err := guard.MayGet(r.Context(), who, r.URL.Path)
		if err != nil {
			http.Error(w, "the API server could not be asked", http.StatusInternalServerError)
			return
		}
		if !may {
			http.Error(w, fmt.Sprintf("Forbidden: user %q may not get %s. %s", who.GetName(), r.URL.Path, why), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
