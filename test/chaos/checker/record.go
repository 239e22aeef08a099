package checker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// AnnotationRecord is the pod annotation that holds the record.
const AnnotationRecord = "tangram.dev/devices"

// Record is a decoded record: which devices of which node each container holds.
type Record struct {
	Version    int               `json:"version"`
	Node       string            `json:"node"`
	Containers []RecordContainer `json:"containers"`
}

// RecordContainer is what one container holds.
type RecordContainer struct {
	Name     string   `json:"name"`
	Resource string   `json:"resource"`
	Devices  []Holder `json:"devices"`
}

// Holder is one device of a container, whole or in part.
type Holder struct {
	Index        int    `json:"index"`
	UUID         string `json:"uuid,omitempty"`
	MemoryMiB    int64  `json:"memoryMiB,omitempty"`
	ComputeMilli int    `json:"computeMilli,omitempty"`
	Turn         int    `json:"turn,omitempty"`
	MIG          string `json:"mig,omitempty"`
	Start        int    `json:"start,omitempty"`
}

// isShare says whether the holder shares the device in software.
func (h Holder) isShare() bool { return h.MemoryMiB > 0 || h.ComputeMilli > 0 || h.Turn > 0 }

// DecodeRecord reads a record. Fields that the format does not have are an error, as
// the format demands of its readers.
func DecodeRecord(text string) (Record, error) {
	var r Record
	if text == "" {
		return r, errors.New("no record")
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("record: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("record: text after the record")
	}
	if r.Version != 1 {
		return r, fmt.Errorf("record: version %d", r.Version)
	}
	if r.Node == "" || len(r.Containers) == 0 {
		return r, errors.New("record: no node or no containers")
	}
	for _, c := range r.Containers {
		if c.Name == "" || len(c.Devices) == 0 {
			return r, errors.New("record: a container without a name or devices")
		}
		for _, h := range c.Devices {
			if h.MIG != "" && h.isShare() {
				return r, fmt.Errorf("record: device %d of %s is a share and a slice", h.Index, c.Name)
			}
		}
	}
	return r, nil
}
