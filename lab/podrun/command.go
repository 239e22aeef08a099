package podrun

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
)

// program is what a container says to start: the image's program with the container's
// arguments and environment, and the identity of the pod.
func (p *pod) program(ctx context.Context, i int) (local.Program, error) {
	c := &p.object.Spec.Containers[i]
	name := programOf(c.Image)
	if err := local.RequirePrograms(p.node.o.Bin, name); err != nil {
		return local.Program{}, fmt.Errorf("image %s: %w", c.Image, err)
	}
	mounts, err := p.mount(ctx, c)
	if err != nil {
		return local.Program{}, err
	}
	env, err := p.environment(c)
	if err != nil {
		return local.Program{}, err
	}
	kubeconfig, err := p.identity(ctx)
	if err != nil {
		return local.Program{}, err
	}
	program := local.Program{Path: filepath.Join(p.node.o.Bin, name)}
	for _, arg := range c.Args {
		program.Args = append(program.Args, mounts.translate(expand(arg, env)))
	}
	program.Args = append(program.Args, "--kubeconfig="+kubeconfig)
	if name == "gpu-scheduler" { // it authenticates readers of its metrics with kubeconfigs of their own
		program.Args = append(program.Args, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	}
	for key, value := range env {
		program.Env = append(program.Env, key+"="+mounts.translate(value))
	}
	return program, nil
}

// programOf is the last name of an image: registry:5000/path/name:tag@digest.
func programOf(image string) string {
	name, _, _ := strings.Cut(path.Base(image), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// environment is the container's, fields of the pod included.
func (p *pod) environment(c *v1.Container) (map[string]string, error) {
	env := map[string]string{}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			env[e.Name] = expand(e.Value, env)
			continue
		}
		if e.ValueFrom.FieldRef == nil {
			return nil, fmt.Errorf("container %s: env %s: only values and fieldRef are known here", c.Name, e.Name)
		}
		switch field := e.ValueFrom.FieldRef.FieldPath; field {
		case "status.podIP":
			env[e.Name] = p.address
		case "spec.nodeName":
			env[e.Name] = p.node.o.Name
		case "metadata.name":
			env[e.Name] = p.object.Name
		case "metadata.namespace":
			env[e.Name] = p.object.Namespace
		case "metadata.uid":
			env[e.Name] = string(p.object.UID)
		default:
			return nil, fmt.Errorf("container %s: env %s: field %s is not known here", c.Name, e.Name, field)
		}
	}
	return env, nil
}

var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// expand replaces $(NAME) as kubelet does: unknown names stay, $$ is a dollar.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := env[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}
