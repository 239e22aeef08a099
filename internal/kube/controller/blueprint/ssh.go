package blueprint

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// The files of a job's key, as ssh looks for them.
const (
	privateKeyFile = "id_rsa"
	publicKeyFile  = "id_rsa.pub"
	authorizedFile = "authorized_keys"
	sshConfigFile  = "config"
)

const sshKeyBits = 2048 // what ssh-keygen made for years; jobs live for days

const sshFileMode = 0o600 // ssh refuses a private key that others can read

// ssh lets the pods of a job log in to each other: one key for all, in a Secret.
type ssh struct {
	job             *batch.Job
	spec            *lifecycle.Spec
	folder          string
	private, public string
}

func newSSH(job *batch.Job, spec *lifecycle.Spec, args []string) (Plugin, error) {
	p := &ssh{job: job, spec: spec}
	f := flags()
	f.StringVar(&p.folder, "ssh-key-file-path", "/root/.ssh", "where the key is mounted")
	f.StringVar(&p.private, "ssh-private-key", "", "private key to use instead of a new one")
	f.StringVar(&p.public, "ssh-public-key", "", "public key that goes with it")
	f.Bool("no-root", false, "accepted; set --ssh-key-file-path to the user's own folder")
	if err := parse(f, args); err != nil {
		return nil, err
	}
	if (p.private == "") != (p.public == "") {
		return nil, errors.New("--ssh-private-key and --ssh-public-key: both or none")
	}
	if !path.IsAbs(p.folder) {
		return nil, fmt.Errorf("--ssh-key-file-path=%s is not an absolute path", p.folder)
	}
	return p, nil
}

func (p *ssh) secretName() string { return p.job.Name + "-ssh" }

func (p *ssh) Objects() []Object {
	secret := &v1.Secret{ObjectMeta: meta(p.job, p.secretName()), Data: map[string][]byte{sshConfigFile: []byte(p.config())}}
	return []Object{{Want: secret, Once: func() error {
		private, public := []byte(p.private), []byte(p.public)
		if p.private == "" {
			var err error
			if private, public, err = newKeyPair(); err != nil {
				return err
			}
		}
		secret.Data[privateKeyFile], secret.Data[publicKeyFile], secret.Data[authorizedFile] = private, public, public
		return nil
	}}}
}

// config names every pod of the job. Host keys are not checked: pods are new hosts each
// time, and their keys cannot be known in advance.
func (p *ssh) config() string {
	var b strings.Builder
	b.WriteString("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")
	for i := range p.spec.Tasks {
		t := &p.spec.Tasks[i]
		for index := range t.Replicas {
			fmt.Fprintf(&b, "Host %s\n  HostName %s\n", hostname(p.job, t, index), domain(p.job, t, index))
		}
	}
	return b.String()
}

func (p *ssh) Change(pod *v1.Pod, _ lifecycle.Slot) {
	mode := int32(sshFileMode)
	addVolume(&pod.Spec, v1.Volume{Name: p.secretName(), VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{
		SecretName: p.secretName(), DefaultMode: &mode,
	}}}, p.folder)
}

// newKeyPair makes an RSA key: PEM for the private half, one line of authorized_keys
// for the public one.
func newKeyPair() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, sshKeyBits)
	if err != nil {
		return nil, nil, fmt.Errorf("make an ssh key: %w", err)
	}
	private = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	const algorithm = "ssh-rsa"
	var wire []byte // RFC 4253, section 6.6
	for _, field := range [][]byte{[]byte(algorithm), mpint(big.NewInt(int64(key.E))), mpint(key.N)} {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(field)))
		wire = append(wire, field...)
	}
	return private, fmt.Appendf(nil, "%s %s\n", algorithm, base64.StdEncoding.EncodeToString(wire)), nil
}

// mpint is a positive number in ssh's form: a leading zero keeps the sign bit clear.
func mpint(n *big.Int) []byte {
	b := n.Bytes()
	if len(b) > 0 && b[0]&0x80 != 0 {
		b = append([]byte{0}, b...)
	}
	return b
}
