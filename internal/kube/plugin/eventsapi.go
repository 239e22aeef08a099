package plugin

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

// eventsServed is a client to which events.k8s.io/v1 is always served. client-go's broadcaster asks
// once, at the start, and writes core events for good when the API server does not answer then:
// the scheduler may not, so a process that starts during an outage would tell no pod anything.
// Every supported version of Kubernetes serves events.k8s.io/v1.
type eventsServed struct{ kubernetes.Interface }

// Discovery is what the broadcaster asks.
func (c eventsServed) Discovery() discovery.DiscoveryInterface {
	return servedWithoutAsking{c.Interface.Discovery()}
}

type servedWithoutAsking struct{ discovery.DiscoveryInterface }

// ServerResourcesForGroupVersion says that a group is served.
func (servedWithoutAsking) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{GroupVersion: version}, nil
}
