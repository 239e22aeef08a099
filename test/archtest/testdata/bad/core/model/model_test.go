package model_test

import (
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1" // want: imports "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tests may read the clock, and import all of core and rapid; they may not reach
// out of core.
func TestModel(t *testing.T) {
	_ = time.Now()
	_, _, _, _, _ = os.Args, rapid.Check, coretest.Node, ledger.New, model.Age
	_ = metav1.Now
}
