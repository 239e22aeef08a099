package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// stage is one row of the table at the end: commands, or one go test.
type stage struct {
	name  string
	about string
	// needs are stages that must have passed: they run before, also when only this one is
	// asked for.
	needs []string
	// lane: stages of different lanes run at the same time, those without one alone.
	lane     string
	commands [][]string
	tests    *tests
}

// tests is what a stage gives to go test.
type tests struct {
	packages []string
	// race: with the race detector, where there is a C compiler.
	race bool
	// again: a test that fails runs once more.
	again bool
	// cluster: the tests start programs, of which Go's cache of results knows nothing.
	cluster bool
	// only and except choose among the top-level tests by regular expressions of names.
	only, except string
	flags        []string
}

// measuring are tests that measure shares or compare times, or have leases so short that a
// busy machine ends them: they run when little else does.
const measuring = "TestFairShares|TestFairSharesInATree|TestGangPreemptionKilled|TestHoleNoNodeMatches|TestHoleOtherResources|TestRestartKeepsShares"

// holes are the tests of faults that were found in the scheduler from outside. They are many
// and long, and what they guard is in the way of the other tests too.
const holes = "TestHole.*"

// stages are all stages, in the order in which they run.
func stages() []stage {
	return []stage{
		{name: "lint", about: "gofmt, the dependency rule, go vet, staticcheck",
			commands: [][]string{{"hack/build.sh", "linters"}, {"hack/lint.sh"}}},
		{name: "build", about: "the control plane and our programs, as far as they changed",
			commands: [][]string{{"hack/build.sh", "controlplane"}, {"hack/build.sh", "tangram"}}},

		// Packages without goroutines need no race detector: core must not have any
		// (test/archtest), and the others are values. Some tests of publish are too long for it.
		{name: "unit", lane: "units", about: "packages without goroutines, and properties", tests: &tests{packages: []string{
			"./api/...", "./core/...", "./config/...", "./examples/...", "./hack/...", "./lab/sim/...",
			"./internal/agent/publish", "./test/archtest/...", "./test/await", "./test/cluster", "./test/property/..."}}},
		{name: "race", lane: "units", about: "packages with goroutines, under the race detector", tests: &tests{
			packages: []string{"./internal/...", "./lab/bench/...", "./lab/cli/...", "./lab/fleet/...", "./lab/local/...",
				"./lab/operators/...", "./lab/podrun/...", "./lab/simulated/...", "./lab/starts/..."}, race: true, again: true}},

		// End-to-end tests mostly wait, so they run beside the units, and more of them at once than
		// there are processors. They drive programs and ask from outside: the race detector would
		// see only the tests. Those that run the scheduler's code in the test itself have it.
		{name: "scenario", lane: "clusters", about: "test/scenarios on core, on kube-scheduler's framework and on a cluster",
			needs: []string{"build"}, tests: &tests{packages: []string{"./test/scenario/..."}, race: true, again: true, cluster: true, flags: []string{"-timeout=15m"}}},
		{name: "e2e", lane: "clusters", about: "scheduler, controller and questions on a real control plane", needs: []string{"build"}, tests: &tests{
			packages: []string{"./test/e2e/...", "./test/state/...", "./test/query/...", "./test/why/...", "./test/whatif/...", "./test/cli/...", "./test/diagnose/..."},
			except:   measuring + "|" + holes, again: true, cluster: true, flags: []string{"-p=3", "-parallel=3", "-timeout=20m"}}},

		{name: "golangci", about: "more linters", commands: [][]string{{"hack/build.sh", "golangci"}, {"bin/golangci-lint", "run", "./..."}}},
		{name: "build-all", about: "kubelet, containerd, Prometheus, helm, operators, a browser", commands: [][]string{
			{"hack/build.sh", "node"}, {"hack/build.sh", "monitoring"}, {"hack/build.sh", "helm"}, {"hack/build.sh", "operators"}, {"hack/build.sh", "browser"}}},
		// Alone: their limits of time are not for a machine that runs another cluster.
		{name: "measured", about: "tests that measure shares or times", needs: []string{"build"}, tests: &tests{
			packages: []string{"./test/e2e/...", "./test/state/..."}, only: measuring, again: true, cluster: true, flags: []string{"-p=2", "-timeout=15m"}}},
		{name: "chaos", about: "load and faults; kubelet's device manager", needs: []string{"build"}, tests: &tests{
			packages: []string{"./test/chaos/...", "./test/devicemanager/..."}, again: true, cluster: true, flags: []string{"-p=1", "-timeout=10m"}}},
		{name: "holes", lane: "holes", about: "faults found from outside, on a real control plane", needs: []string{"build"}, tests: &tests{
			packages: []string{"./test/e2e/..."}, only: holes, except: measuring, again: true, cluster: true, flags: []string{"-parallel=2", "-timeout=25m"}}},
		{name: "others", lane: "others", about: "with kubelet, containerd, Prometheus, helm, operators and a browser; features beside the heart",
			needs: []string{"build", "build-all"}, tests: &tests{
				// The longest first.
				packages: []string{"./test/node/...", "./test/agent/...", "./test/autoscale/...", "./test/dra/...", "./test/examples/...",
					"./test/kubeflow/...", "./test/kueue/...", "./test/multikueue/...", "./test/operators/...", "./test/words/...",
					"./test/chart/...", "./test/metrics/...", "./test/monitoring/...", "./test/recovery/...", "./test/tenants/...", "./test/web/..."},
				again: true, cluster: true, flags: []string{"-p=3", "-parallel=3", "-timeout=30m"}}},
	}
}

// sets are names for several stages. make test is for a person: it needs nothing beyond the
// control plane.
func sets() map[string][]string {
	return map[string][]string{
		"test":     {"lint", "build", "unit", "race", "scenario", "e2e"},
		"test-all": {"golangci", "build-all", "measured", "chaos", "holes", "others"},
	}
}

// choose returns the stages that are named and those that they need, in the order in which
// they run. With -run among the flags of go test the stages' own choice of tests is dropped,
// and a package runs in the first stage that has it.
func choose(names, flags []string) ([]stage, error) {
	all := stages()
	wanted := map[string]bool{}
	var want func(name string) error
	want = func(name string) error {
		if members, ok := sets()[name]; ok {
			for _, m := range members {
				if err := want(m); err != nil {
					return err
				}
			}
			return nil
		}
		i := slices.IndexFunc(all, func(s stage) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("there is no stage or set %q; testrun -list shows them", name)
		}
		wanted[name] = true
		for _, need := range all[i].needs {
			if err := want(need); err != nil {
				return err
			}
		}
		return nil
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no stage is named; testrun -list shows them")
	}
	for _, name := range names {
		if err := want(name); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(s stage) bool { return !wanted[s.name] })
	if len(withoutRun(flags)) == len(flags) {
		return all, nil
	}
	seen := map[string]bool{}
	for _, s := range all {
		if s.tests != nil {
			s.tests.only, s.tests.except = "", ""
			s.tests.packages = slices.DeleteFunc(s.tests.packages, func(p string) bool { return seen[p] })
			for _, p := range s.tests.packages {
				seen[p] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(s stage) bool { return s.tests != nil && len(s.tests.packages) == 0 }), nil
}

// list prints sets and stages.
func list(w io.Writer) {
	for _, s := range stages() {
		in := ""
		for _, set := range []string{"test", "test-all"} {
			if slices.Contains(sets()[set], s.name) {
				in = set
			}
		}
		fmt.Fprintf(w, "%-9s %-10s %s\n", in, s.name, s.about)
		if s.tests != nil {
			fmt.Fprintf(w, "%20s %s\n", "", strings.Join(s.tests.packages, " "))
		}
	}
}
