package pack

import "testing"

// TestClassValidate names the field.
func TestClassValidate(t *testing.T) {
	tests := []struct {
		name  string
		class Class
		want  string
	}{
		{"whole", Class{GPUs: 8, Milli: Whole}, ""},
		{"no GPU", Class{CPU: 1}, ""},
		{"negative CPU", Class{CPU: -1}, "class: CPU -1 is negative"},
		{"negative memory", Class{Memory: -1}, "class: memory -1 is negative"},
		{"too many", Class{GPUs: 17, Milli: Whole}, "class: 17 GPUs, at most 16"},
		{"milli of nothing", Class{Milli: 5}, "class: 5 milli of no GPU"},
		{"nothing of a GPU", Class{GPUs: 1}, "class: 0 milli per GPU, want 1..1000"},
		{"two shares", Class{GPUs: 2, Milli: 500}, "class: 500 milli of each of 2 GPUs: only one GPU can be shared"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.class.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
