// Package access lets only those through whom the API server knows and allows: what
// kube-scheduler does for its own metrics, for our other programs. Tokens are shown to the
// API server (TokenReview), and it is asked whether their user may get the path
// (SubjectAccessReview); both answers are kept for a while.
package access

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
)

// How long answers of the API server are kept: as kube-scheduler keeps them.
const (
	authenticatedFor = 10 * time.Second
	allowedFor       = 10 * time.Second
	deniedFor        = 10 * time.Second
	timeout          = 10 * time.Second
)

// Protect returns a handler that answers 401 to who has no valid token, 403 to who may not
// get the path, and else calls next.
func Protect(client kubernetes.Interface, next http.Handler) (http.Handler, error) {
	retry := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}
	authenticate, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: timeout, WebhookRetryBackoff: retry, CacheTTL: authenticatedFor,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	authorize, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: allowedFor, DenyCacheTTL: deniedFor, WebhookRetryBackoff: retry,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := authenticate.AuthenticateRequest(r)
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		verdict, why, err := authorize.Authorize(r.Context(), authorizer.AttributesRecord{User: who.User, Verb: "get", Path: r.URL.Path})
		if err != nil {
			http.Error(w, "the API server could not be asked", http.StatusInternalServerError)
			return
		}
		if verdict != authorizer.DecisionAllow {
			http.Error(w, fmt.Sprintf("Forbidden: user %q may not get %s. %s", who.User.GetName(), r.URL.Path, why), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
