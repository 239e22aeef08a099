package demand

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func member(n string) Member { return Member{Namespace: "a", Name: n, UID: n} }

// TestRoundTrip: what was written is read back.
func TestRoundTrip(t *testing.T) {
	d := &Document{At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Kept: []string{"n1"}, Gangs: []Gang{
		{Name: "a/g", Members: []Member{member("p")}, Within: map[string]string{"rack": "r1"}},
		{Name: "a/h", Members: []Member{member("q")}, New: &New{Label: "rack", Not: []string{"r1"}}},
		{Name: "a/i", Members: []Member{member("r")}, OneNode: true},
	}}
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestHostile: bad documents are refused by the field's name.
func TestHostile(t *testing.T) {
	one := `{"namespace":"a","name":"p","uid":"u"}`
	for text, want := range map[string]string{
		``:                 "EOF",
		`null x`:           "text after the document",
		`{} {}`:            "text after the document",
		`{"kept":[""]}`:    "kept[0]: empty",
		`{"more":1}`:       "unknown field",
		`{"gangs":[{}]}`:   "gangs[0].members: none",
		`{"kept":"all"}`:   "cannot unmarshal string",
		`{"at":"tuesday"}`: "parsing time",
		`{"gangs":[{"members":[{"name":"p"}],"oneNode":true}]}`:                                      "gangs[0].members[0]: namespace, name or uid is empty",
		`{"gangs":[{"members":[` + one + `]}]}`:                                                      "exactly one of",
		`{"gangs":[{"members":[` + one + `],"oneNode":true,"within":{"a":"b"}}]}`:                    "exactly one of",
		`{"gangs":[{"members":[` + one + `],"new":{}}]}`:                                             "gangs[0].new.label: empty",
		`{"gangs":[{"members":[` + one + `],"within":{"a":""}}]}`:                                    "gangs[0].within[a]: empty",
		`{"kept":[` + strings.Repeat(`"n",`, MaxKept) + `"n"]}`:                                      "kept: 5001 nodes",
		`{"gangs":[{"oneNode":true,"members":[` + strings.Repeat(one+",", MaxMembers) + one + `]}]}`: "gangs: 4001 members",
		strings.Repeat(" ", maxBytes+1):                                                              "at most 1048576",
	} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", text, err, want)
		}
	}
}
