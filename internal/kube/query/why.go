package query

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validation"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// why answers about an object of a namespace whose pods the caller may list. Whether there
// is an object in another namespace is not told.
func (s *Server) why(ctx context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	namespace, name, wrong := object(c, r)
	if wrong != nil {
		return nil, wrong
	}
	kind := r.Get(apiquery.ParamKind)
	if len(kind) > maxKind {
		return nil, Invalid(apiquery.ParamKind, "%q is not a kind", shorten(kind))
	}
	return s.source.Why(ctx, kind, namespace, name, c, s.options.FindPod), nil
}

const maxKind = 253 // bounds a kind's name

// object reads which object a question is about, and checks that the caller may list the
// pods of its namespace.
func object(c Caller, r *Request) (namespace, name string, wrong *apiquery.Error) {
	namespace, name = r.Get(apiquery.ParamNamespace), r.Get(apiquery.ParamName)
	if problems := validation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
		return "", "", Invalid(apiquery.ParamNamespace, "%q is not a namespace: %s", shorten(namespace), problems[0])
	}
	if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
		return "", "", Invalid(apiquery.ParamName, "%q is not a name: %s", shorten(name), problems[0])
	}
	if !c.MayListPods(namespace) {
		return "", "", NotFound("there is no %s in namespace %s, or you may not list its pods", name, namespace)
	}
	return namespace, name, nil
}
