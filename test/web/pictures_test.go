package web

import (
	"bytes"
	"image"
	"image/color"
	_ "image/png" // what a browser's pictures are
	"os"
	"path/filepath"

	"github.com/chromedp/chromedp"
)

// imgDir is where the pictures of the documentation are.
var imgDir = filepath.Join("..", "..", "docs", "img")

// pictured are the pictures: web-NAME.png shows a view in a window of that size. Those of
// phones have two pixels to one of CSS.
var pictured = []struct {
	name, hash, scheme string
	width, height      int
	before             string // JavaScript: what a person does before, true once it is done
}{
	{"fleet-light", "#/fleet?by=queue", "light", 1280, 900, pickSlices},
	{"fleet-dark", "#/fleet", "dark", 1280, 900, pickSlices},
	{"fleet-phone", "#/fleet?by=queue", "light", 360, 740, `scrollTo(0, 300) || scrollY > 0`},
	{"queues-light", "#/queues/vision", "light", 1280, 860, ""},
	{"queues-dark", "#/queues/vision", "dark", 1280, 860, ""},
	{"queues-phone", "#/queues/vision", "dark", 360, 740, ""},
	{"pending-light", "#/pending", "light", 1280, 640, ""},
	{"why-light", "#/why/" + mine.String(), "light", 1280, 860, ""},
	{"why-dark", "#/why/" + mine.String(), "dark", 1280, 860, ""},
	{"why-phone", "#/why/" + mine.String(), "light", 360, 740, ""},
	{"plan-light", "#/plan/vision/stereo", "light", 1280, 520, ""},
	{"plan-dark", "#/plan/" + mine.String(), "dark", 1280, 460, ""},
	{"plan-phone", "#/plan/vision/stereo", "dark", 360, 740, ""},
}

// pickSlices moves over the map until it is on a device with slices of several pods.
const pickSlices = `(() => {
	const canvas = document.querySelector('.map canvas');
	const box = canvas.getBoundingClientRect();
	for (let y = box.top; y < box.bottom; y += 6) for (let x = box.left; x < box.right; x += 6) {
		canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true }));
		if ((document.querySelector('#detail').innerText.match(/MIG /g) || []).length > 1) return true;
	}
	return false; // not drawn yet
})()`

// pictures takes all pictures and looks whether there is something to be seen; write puts
// them into the documentation. Otherwise those stay: times and names of pods differ between
// any two runs.
func (v *visitor) pictures(url string, write bool) {
	v.t.Helper()
	for _, p := range pictured {
		ratio := 1.0
		if p.width < 600 {
			ratio = 2
		}
		v.resize(p.width, p.height, ratio)
		v.prefers(p.scheme)
		v.open("about:blank")
		v.open(url + "/" + p.hash)
		v.shown()
		if p.before != "" {
			v.until(p.before)
		}
		eval[any](v, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
		png := run(v, chromedp.CaptureScreenshot())
		if problem := blank(png, p.scheme == "dark"); problem != "" {
			v.t.Errorf("picture %s: %s", p.name, problem)
		}
		if write {
			if err := os.WriteFile(filepath.Join(imgDir, "web-"+p.name+".png"), png, 0o644); err != nil {
				v.t.Fatal(err)
			}
		}
	}
	v.resize(1280, 900, 1)
	v.prefers("light")
}

// blank says what is wrong with a picture: too few colours, too little on the ground, or a
// ground of the other scheme.
func blank(png []byte, dark bool) string {
	img, _, err := image.Decode(bytes.NewReader(png))
	if err != nil {
		return err.Error()
	}
	counts, box, n := map[color.Color]int{}, img.Bounds(), 0
	for y := box.Min.Y; y < box.Max.Y; y += 3 {
		for x := box.Min.X; x < box.Max.X; x += 3 {
			counts[img.At(x, y)]++
			n++
		}
	}
	most, ground := 0, color.Color(color.White)
	for c, count := range counts {
		if count > most {
			most, ground = count, c
		}
	}
	r, g, b, _ := ground.RGBA()
	switch {
	case len(counts) < 20:
		return "it has less than 20 colours"
	case most > n*95/100:
		return "there is next to nothing on it"
	case dark != (r+g+b < 3*0x8000):
		return "its ground is not of the scheme that was asked for"
	}
	return ""
}
