package cluster

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// As is the configuration for clients of a user of some groups, with a client certificate:
// it may do what RBAC says, without a rate limit.
func (c *Cluster) As(user string, groups ...string) (*rest.Config, error) {
	path, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	settings, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	settings.QPS, settings.Burst = -1, -1
	return settings, nil
}
