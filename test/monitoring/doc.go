// Package monitoring tests the alerts and dashboards of the folder monitoring with the real
// Prometheus: that the rules load; that each alert fires when it should and is silent when
// it should be; that each has a page for those it wakes up; that no rule, dashboard or page
// names a metric that nothing exports; and that every picture shows something on a local
// cluster under load (live_test.go).
//
// Reading order: prometheus_test.go (the programs), metrics_test.go (which metrics exist),
// alerts_test.go, dashboards_test.go, runbooks_test.go, live_test.go.
package monitoring
