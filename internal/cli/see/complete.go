package see

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// completionTimeout is how long a shell waits for names: then the user types on without.
const completionTimeout = 3 * time.Second

// completionLimit is how many names are asked for: more are not read.
const completionLimit = 500

// lister finds names for a shell to complete, some with a description behind a tab.
type lister func(ctx context.Context, c *ask.Client) []string

// complete makes a lister a completion of cobra's. What goes wrong gives no names: a
// message would land in the user's command line.
func (a *asking) complete(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		a.options.Timeout = completionTimeout
		client, err := a.connect()
		if err != nil {
			return nil, directive
		}
		prefix := ""
		if kind, name, ok := strings.Cut(typed, "/"); ok {
			prefix, typed = kind+"/", name
		}
		var out []string
		for _, item := range list(ctx, client) {
			name, about, described := strings.Cut(item, "\t")
			if !strings.HasPrefix(name, typed) || terminal.Clean(name) != name {
				continue
			}
			item = prefix + name
			if described {
				item += "\t" + terminal.Clean(about)
			}
			out = append(out, item)
		}
		return out, directive
	}
}

func namespaces(ctx context.Context, c *ask.Client) []string {
	list, err := c.Kube().CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil
	}
	return named(list.Items, func(n *v1.Namespace) string { return n.Name })
}

func nodes(ctx context.Context, c *ask.Client) []string {
	answer, err := ask.Get[query.Nodes](ctx, c, ask.NodesQuestion(0))
	if err != nil {
		return nil
	}
	return named(answer.Items, func(n *query.Node) string { return n.Name })
}

func queueNames(ctx context.Context, c *ask.Client) []string {
	answer, err := ask.Get[query.Queues](ctx, c, ask.About(query.PathQueues))
	if err != nil {
		return nil
	}
	return named(answer.Items, func(q *query.Queue) string { return q.Name })
}

func pods(ctx context.Context, c *ask.Client) []string {
	list, err := c.Kube().CoreV1().Pods(c.Namespace()).List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil
	}
	return named(list.Items, func(p *v1.Pod) string { return p.Name + "\t" + string(p.Status.Phase) })
}

// completeObjects completes NAME, KIND/NAME and KIND NAME for `why`. Behind a kind come the
// objects of that kind: a pod, a gang, or what owns the pods of a gang.
func (a *asking) completeObjects(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	kind, _, ok := strings.Cut(typed, "/")
	switch {
	case len(args) > 1 || len(args) == 1 && (ok || strings.Contains(args[0], "/")):
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1:
		kind = args[0]
	case !ok:
		return a.complete(gangsAndPods)(cmd, args, typed)
	}
	list := ownersOf(kindOf(kind))
	switch kindOf(kind) {
	case "Pod":
		list = pods
	case "Gang":
		list = gangs
	}
	return a.complete(list)(cmd, args, typed)
}

// gangsBy are gangs of the namespace by a name that they have; empty for those without. A
// name that several have is there once.
func gangsBy(name func(*query.Gang) string) lister {
	return func(ctx context.Context, c *ask.Client) (out []string) {
		answer, err := ask.Get[query.Gangs](ctx, c, ask.GangsQuestion(ask.GangsParams{Namespace: c.Namespace(), Limit: completionLimit}))
		if err != nil {
			return nil
		}
		seen := map[string]bool{"": true}
		for i := range answer.Items {
			g := &answer.Items[i]
			if n := name(g); !seen[n] {
				seen[n] = true
				out = append(out, n+"\t"+g.Kind+", "+g.Phase)
			}
		}
		return out
	}
}

var gangs = gangsBy(func(g *query.Gang) string { return g.Name })

// ownersOf are the objects of a kind that gangs are made by, in any case.
func ownersOf(kind string) lister {
	return gangsBy(func(g *query.Gang) string {
		if strings.EqualFold(g.Kind, kind) || strings.EqualFold(g.Kind+"s", kind) {
			return g.Owner
		}
		return ""
	})
}

// gangsAndPods are what `why` can be asked about: gangs with their phase, then pods.
func gangsAndPods(ctx context.Context, c *ask.Client) []string {
	out := gangs(ctx, c)
	seen := map[string]bool{}
	for _, g := range out {
		name, _, _ := strings.Cut(g, "\t")
		seen[name] = true
	}
	for _, p := range pods(ctx, c) {
		if name, _, _ := strings.Cut(p, "\t"); !seen[name] {
			out = append(out, p)
		}
	}
	return out
}

func (a *asking) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.options.Contexts(), cobra.ShellCompDirectiveNoFileComp
}
