package explain

import "fmt"

// queueRemedies are those of causes about queues, quotas, and what is kept for others.
func queueRemedies(c Code) []remedy {
	switch c {
	case NoQueue:
		return []remedy{
			{Owner, "Name a queue that exists (label tangram.dev/queue).", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Name a queue that exists instead of %q (label tangram.dev/queue).", c.Reason.Queue), "kubectl get queues.scheduling.volcano.sh"
			}},
			{Administrator, "Create the queue.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Create the queue %q.", c.Reason.Queue),
					command(`kubectl create -f - <<< '{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"%s"},"spec":{"weight":1}}'`, c.Reason.Queue)
			}},
		}
	case InnerQueue:
		return []remedy{
			{Owner, "Name a queue below it.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Name a queue below %q (label tangram.dev/queue).", c.Reason.Queue), "kubectl get queues.scheduling.volcano.sh -o custom-columns=NAME:.metadata.name,PARENT:.spec.parent"
			}},
		}
	case QueueForbidden:
		return []remedy{
			{Owner, "Name a queue that takes pods of the namespace.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Name a queue that takes pods of namespace %q.", c.Reason.Namespace), ""
			}},
			{Administrator, "Add the namespace to the queue's annotation tangram.dev/namespaces.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Add %q to the annotation tangram.dev/namespaces of queue %q.", c.Reason.Namespace, c.Reason.Queue), command("kubectl edit queues.scheduling.volcano.sh %s", c.Reason.Queue)
			}},
		}
	case QueueClosed:
		return []remedy{
			{Administrator, "Open the queue.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Open the queue %q.", c.Reason.Queue),
					command(`kubectl patch queues.scheduling.volcano.sh %s --subresource=status --type=merge -p '{"status":{"state":"Open"}}'`, c.Reason.Queue)
			}},
			{Owner, "Name a queue that is open.", nil},
		}
	case OverQuota:
		return []remedy{
			{Passage, "It starts when pods of the namespace end.", release("the namespace")},
			{Administrator, "Raise the namespace's quota.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				text := fmt.Sprintf("Raise the quota of namespace %s from %s to %s.", r.Namespace, Quantity(r.Resource, r.Limit), Quantity(r.Resource, r.enough()))
				if name, quantity, ok := c.spelt(r.Resource, r.enough()); ok {
					text += fmt.Sprintf(" In its annotation tangram.dev/quota that is %s=%s.", name, quantity)
				}
				return text, command("kubectl get namespace %s -o jsonpath='{.metadata.annotations.tangram\\.dev/quota}'", r.Namespace)
			}},
			{Owner, "Ask for no more than the quota has left.", smaller},
		}
	case OverCapability:
		return []remedy{
			{Passage, "It starts when jobs of the queue end.", release("the queue")},
			{Administrator, "Raise the queue's capability.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				text, do := fmt.Sprintf("Raise the capability of queue %s from %s to %s.", r.Queue, Quantity(r.Resource, r.Limit), Quantity(r.Resource, r.enough())), ""
				if name, quantity, ok := c.spelt(r.Resource, r.enough()); ok {
					do = command(`kubectl patch queues.scheduling.volcano.sh %s --type=merge -p '{"spec":{"capability":{"%s":"%s"}}}'`, r.Queue, name, quantity)
				}
				return text, do
			}},
			{Owner, "Ask for no more than the queue has left, or use another queue.", smaller},
		}
	case QuotaKept:
		return []remedy{
			{Passage, "It starts when the gangs have started for which the quota is kept.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("It starts when %s started for which the quota is kept.", haveNoun(c.Reason.Ahead, "job")), ""
			}},
			{Owner, "Declare how long it runs: it may end before.", declare},
		}
	case Guaranteed:
		return []remedy{
			{Passage, "It starts when others end that use what is not guaranteed.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("It starts when jobs that use %s beyond guarantees end.", Quantity(r.Resource, r.excess())) + c.ends(), ""
			}},
			{Owner, "Use the queue that has the guarantee.", nil},
			{Administrator, "Lower guarantees of other queues, or add nodes.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("Lower guarantees of other queues by %s, or add nodes with as much.", Quantity(r.Resource, r.excess())),
					"kubectl get queues.scheduling.volcano.sh -o custom-columns=NAME:.metadata.name,GUARANTEE:.spec.guarantee.resource"
			}},
		}
	case OverTotal:
		return []remedy{
			{Passage, "It starts when others end.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("It starts when jobs that use %s end.", Quantity(r.Resource, r.excess())) + c.ends(), ""
			}},
			{Owner, "Submit it with a higher priority, which may evict others of the queue.", priority},
			{Administrator, "Add nodes.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("Add nodes with %s.", Quantity(r.Resource, r.excess())), ""
			}},
		}
	case NodesKept:
		return []remedy{
			{Passage, "It starts when the gangs have started for which nodes are kept.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("It starts when %s started for which nodes are kept, or sooner elsewhere.", haveNoun(c.Reason.Ahead, "job")), ""
			}},
			{Owner, "Declare how long it runs: it may end before.", declare},
		}
	}
	return nil
}
