package query

import "time"

// WhatIf is what would become of a manifest, on a copy of the state: nothing is changed.
type WhatIf struct {
	At    time.Time `json:"at"`
	Gangs []Outcome `json:"gangs"`
	// Refused are objects of the manifest that no gang comes of, with the field that is
	// wrong; a kind whose operator makes the pods says which pods were assumed.
	Refused []Refused `json:"refused,omitempty"`
	Assumed []string  `json:"assumed,omitempty"`
}

// Outcome is what becomes of one gang of the manifest.
type Outcome struct {
	Gang  Gang  `json:"gang"`
	Start Start `json:"start"`
	// Members have the places that they would get.
	Members []Member `json:"members"`
	// Displaces are gangs that would be evicted for it; DisplacesHidden those that the caller may not see.
	Displaces       []GangRef `json:"displaces,omitempty"`
	DisplacesHidden int       `json:"displacesHidden,omitempty"`
	// Delays are waiting gangs that would start later than without it.
	Delays       []Delay `json:"delays,omitempty"`
	DelaysHidden int     `json:"delaysHidden,omitempty"`
	// Reason is why it would not start now.
	Reason *Reason `json:"reason,omitempty"`
	Helps  []Help  `json:"helps,omitempty"`
}

// Delay is a gang that would start later.
type Delay struct {
	Gang    GangRef `json:"gang"`
	Seconds int64   `json:"seconds"`
}

// Refused is an object that is wrong.
type Refused struct {
	Object  string `json:"object"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}
