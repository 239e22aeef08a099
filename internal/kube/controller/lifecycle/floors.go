package lifecycle

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// What a status remembers, as keys of its controlledResources. A floor is the version
// below which pods of the job, of a task or of a slot count no more.
const (
	floorOfJob   = "restarted"
	floorOfTask  = "restarted/task/"
	floorOfPod   = "restarted/pod/"
	lastCommand  = "command"   // UID of the command that was carried out last
	evictions    = "evictions" // how many restarts followed evictions; retryCount has the others
	floorOfSlotF = floorOfPod + "%s/%d"
)

// floor is the lowest version that counts in a slot.
func floor(st *batch.JobStatus, s Slot) int32 {
	return max(note(st, floorOfJob), note(st, floorOfTask+s.Task), note(st, fmt.Sprintf(floorOfSlotF, s.Task, s.Index)))
}

// note reads a number from the status; what is not one counts as absent.
func note(st *batch.JobStatus, key string) int32 {
	n, err := strconv.ParseInt(st.ControlledResources[key], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func setNote(st *batch.JobStatus, key, value string) {
	if st.ControlledResources == nil {
		st.ControlledResources = map[string]string{}
	}
	st.ControlledResources[key] = value
}

// raise makes all pods of the job stale, or those of some tasks and slots only.
// There are as many entries as pods were restarted alone since the last restart of all.
func raise(st *batch.JobStatus, targets []target) {
	st.Version++
	version := strconv.Itoa(int(st.Version))
	for _, t := range targets {
		switch {
		case t.slot != nil:
			setNote(st, fmt.Sprintf(floorOfSlotF, t.slot.Task, t.slot.Index), version)
		case t.task != "":
			setNote(st, floorOfTask+t.task, version)
		default: // covers all the others
			maps.DeleteFunc(st.ControlledResources, func(key, _ string) bool {
				return strings.HasPrefix(key, floorOfTask) || strings.HasPrefix(key, floorOfPod)
			})
			setNote(st, floorOfJob, version)
		}
	}
}

// target is what a restart is about: the job, a task, or one slot.
type target struct {
	task string
	slot *Slot
}
