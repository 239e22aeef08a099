package scenario

import "testing"

// files are the stories.
const files = "../scenarios"

// TestScenarios tells every story to every engine. All must give the bytes in the
// file, so they agree with each other.
func TestScenarios(t *testing.T) {
	t.Run("core", func(t *testing.T) { Run(t, files, NewCore()) })
	t.Run("plugin", func(t *testing.T) { Run(t, files, NewPlugin(t)) })
	t.Run("cluster", func(t *testing.T) { Run(t, files, NewCluster(t)) })
}
