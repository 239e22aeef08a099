package await

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntil: an answer is noticed within a fifth of a second of its coming, and what never
// comes is given up when the time is over, with the last word.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		ok, seen := Until(time.Minute, func() (bool, string) {
			asked++
			return time.Since(began) >= 10*time.Second, fmt.Sprint(asked)
		})
		if took := time.Since(began); !ok || took > 10*time.Second+longest || asked > 60 || seen != fmt.Sprint(asked) {
			t.Errorf("%v %q after %s and %d questions", ok, seen, took, asked)
		}
		began = time.Now()
		ok, seen = Until(time.Minute, func() (bool, string) { return false, "no" })
		if took := time.Since(began); ok || seen != "no" || took < time.Minute || took > time.Minute+longest {
			t.Errorf("%v %q after %s", ok, seen, took)
		}
		if ok, _ = Until(0, func() (bool, string) { return true, "" }); !ok {
			t.Error("not even asked once")
		}
	})
}
