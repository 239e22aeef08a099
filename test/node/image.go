package node

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
)

// Image is the image of every container of the tests: the inspect program alone.
const Image = "docker.io/tangram/inspect:1"

// writeImage writes an OCI image archive whose one layer is that program.
func writeImage(archive, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	plain := &bytes.Buffer{}
	layer := tar.NewWriter(plain)
	for _, folder := range []string{"dev/", "etc/", "proc/", "sys/", "tmp/"} {
		if err := layer.WriteHeader(&tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := addFile(layer, "inspect", 0o755, binary); err != nil {
		return err
	}
	if err := layer.Close(); err != nil {
		return err
	}
	packed := &bytes.Buffer{}
	zip, err := gzip.NewWriterLevel(packed, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := zip.Write(plain.Bytes()); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}

	blobs := map[string][]byte{}
	add := func(mediaType string, data []byte) map[string]any {
		blobs["blobs/sha256/"+digest(data)] = data
		return map[string]any{"mediaType": mediaType, "digest": "sha256:" + digest(data), "size": len(data)}
	}
	addJSON := func(mediaType string, value any) map[string]any {
		data, err := json.Marshal(value)
		if err != nil {
			panic(err) // maps of strings and numbers
		}
		return add(mediaType, data)
	}
	config := addJSON("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/inspect"}, "Cmd": []string{"sleep"}, "Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(plain.Bytes())}},
	})
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest := addJSON(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config,
		"layers": []any{add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())},
	})
	manifest["annotations"] = map[string]string{"io.containerd.image.name": Image}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	if err != nil {
		return err
	}

	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	out := tar.NewWriter(file)
	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	blobs["index.json"] = index
	for name, data := range blobs {
		if err := addFile(out, name, 0o644, data); err != nil {
			return err
		}
	}
	return out.Close()
}

func addFile(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
