// Package migrate compares the configuration and the manifests of other schedulers with
// what Tangram offers.
//
// Translate reads configurations (volcano-scheduler.conf, KAI's SchedulingShard, Config and
// ConfigMap, HAMi's Helm values and ConfigMaps, Kueue's queues) and returns a row for every
// action, plugin, argument and field: its counterpart, or that there is none and what to do.
// What has a counterpart is also returned as a KubeSchedulerConfiguration, as values of the
// chart and as Queue objects (output.go).
//
// Check reads manifests and lists the words that Tangram does not know. Which words it knows
// is internal/dialect's to say (dialect.Words, dialect.KnownKinds); this package has only
// advice about words that are not there (advice.go).
//
// Nothing here talks to a cluster: internal/cli hands over files or objects. Input that is
// malformed, or that no table knows, is a Problem with file, line and field; nothing is left
// out in silence.
//
// Reading order: input.go, report.go, rules.go, then the tables with what they cannot say in
// volcano.go, kai.go, hami.go, kueue.go, kueuequota.go; translate.go, output.go; check.go,
// checkpod.go, near.go, scope.go, advice.go.
package migrate
