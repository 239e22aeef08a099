package podrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// accountDir is where clients in a pod look for their token.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// mounts say which path of a container is which path of this machine.
type mounts []mount

type mount struct{ container, here string }

// translate turns a path, or the path of --flag=path, into that of this machine.
func (m mounts) translate(text string) string {
	before, value := "", text
	if flag, rest, ok := strings.Cut(text, "="); ok && strings.HasPrefix(flag, "-") {
		before, value = flag+"=", rest
	}
	best := mount{}
	for _, each := range m {
		if (value == each.container || strings.HasPrefix(value, each.container+"/")) && len(each.container) > len(best.container) {
			best = each
		}
	}
	if best.container == "" {
		return text
	}
	return before + best.here + strings.TrimPrefix(value, best.container)
}

// mount makes the container's volumes.
func (p *pod) mount(ctx context.Context, c *v1.Container) (mounts, error) {
	var list mounts
	for _, m := range c.VolumeMounts {
		if m.MountPath == accountDir {
			continue // see identity
		}
		for i := range p.object.Spec.Volumes {
			volume := &p.object.Spec.Volumes[i]
			if volume.Name != m.Name {
				continue
			}
			here, err := p.volume(ctx, volume)
			if err != nil {
				return nil, fmt.Errorf("volume %s: %w", volume.Name, err)
			}
			list = append(list, mount{strings.TrimSuffix(m.MountPath, "/"), filepath.Join(here, m.SubPath)})
		}
	}
	return list, nil
}

// volume is the path of this machine that a volume is at.
func (p *pod) volume(ctx context.Context, v *v1.Volume) (string, error) {
	dir := filepath.Join(p.dir, "volumes", v.Name)
	switch {
	case v.ConfigMap != nil:
		object, err := p.node.client.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return "", missing(err, v.ConfigMap.Optional)
		}
		files := map[string][]byte{}
		for name, text := range object.Data {
			files[name] = []byte(text)
		}
		return dir, write(dir, files)
	case v.Secret != nil:
		object, err := p.node.client.CoreV1().Secrets(p.object.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return "", missing(err, v.Secret.Optional)
		}
		return dir, write(dir, object.Data)
	case v.HostPath != nil:
		dir = filepath.Join(p.node.Root(), v.HostPath.Path)
		return dir, os.MkdirAll(dir, 0o700)
	case v.EmptyDir != nil:
		return dir, os.MkdirAll(dir, 0o700)
	}
	return "", errors.New("only configMap, secret, hostPath and emptyDir are known here")
}

// missing lets an optional object be absent.
func missing(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// identity writes a kubeconfig with a token of the pod's ServiceAccount that is bound to
// the pod, as the one in a real pod is, and returns its path.
func (p *pod) identity(ctx context.Context) (string, error) {
	account := p.object.Spec.ServiceAccountName
	token, err := p.node.o.Cluster.Token(ctx, p.object.Namespace, account,
		&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.object.Name, UID: p.object.UID})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(p.dir, "kubeconfig")
	return file, p.node.o.Cluster.WriteTokenKubeconfig(file, account, token)
}
