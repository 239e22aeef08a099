package podrun

import "testing"

func TestProgramOf(t *testing.T) {
	for image, want := range map[string]string{
		"gpu-scheduler":                      "gpu-scheduler",
		"local/gpu-scheduler:0.1.0":          "gpu-scheduler",
		"registry:5000/a/b/gpu-agent:v1":     "gpu-agent",
		"registry:5000/gpu-agent@sha256:123": "gpu-agent",
		"registry/gpu-agent:v1@sha256:123":   "gpu-agent",
	} {
		if got := programOf(image); got != want {
			t.Errorf("%s is program %q, want %q", image, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"POD_IP": "127.77.0.1"}
	for text, want := range map[string]string{
		"--bind-address=$(POD_IP)":      "--bind-address=127.77.0.1",
		"--listen=[$(POD_IP)]:8889":     "--listen=[127.77.0.1]:8889",
		"$(UNKNOWN) stays":              "$(UNKNOWN) stays",
		"$$(POD_IP) is no reference":    "$(POD_IP) is no reference",
		"a $dollar and (parentheses)":   "a $dollar and (parentheses)",
		"$(POD_IP)$(POD_IP)":            "127.77.0.1127.77.0.1",
		"--config=/etc/x/$(POD_IP).yml": "--config=/etc/x/127.77.0.1.yml",
	} {
		if got := expand(text, env); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestTranslate(t *testing.T) {
	m := mounts{{"/etc/gpu-scheduler", "/tmp/a"}, {"/etc", "/tmp/b"}, {"/dev", "/tmp/dev"}}
	for text, want := range map[string]string{
		"--config=/etc/gpu-scheduler/config.yaml": "--config=/tmp/a/config.yaml",
		"--config=/etc/other":                     "--config=/tmp/b/other",
		"/dev":                                    "/tmp/dev",
		"/devices":                                "/devices",
		"--nvidia-driver-root=/":                  "--nvidia-driver-root=/",
		"--v=2":                                   "--v=2",
		"key=/etc/x":                              "key=/etc/x", // no flag
	} {
		if got := m.translate(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
