// Package devicemanager runs kubelet's own device manager, Topology Manager and
// podresources server in the test's process, against the agent's device plugin. It shows
// in volume what a real node shows once: no device is given twice, and every record
// becomes true, whatever is restarted when.
package devicemanager
