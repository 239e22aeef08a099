package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/core/measure"
)

// priceFile is a table of prices as people write it.
type priceFile struct {
	// Currency is what prices are in.
	Currency string `json:"currency"`
	// PerGPUHour is the price of an hour of one GPU, by model in any spelling. Of several
	// that match a device the one that says more counts: "A100 80GB" before "A100".
	PerGPUHour map[string]float64 `json:"perGPUHour"`
}

// parsePrices reads a table of prices. Errors name the field.
func parsePrices(text []byte) (measure.Prices, error) {
	var f priceFile
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return measure.Prices{}, err
	}
	micro := map[string]int64{}
	for name, v := range f.PerGPUHour {
		if math.IsNaN(v) || v < 0 || v*1e6 > float64(measure.MaxPrice) {
			return measure.Prices{}, fmt.Errorf("perGPUHour[%s]: %g, must be 0 to %d", name, v, measure.MaxPrice/1_000_000)
		}
		micro[name] = int64(math.Round(v * 1e6))
	}
	return measure.NewPrices(f.Currency, micro)
}

const (
	// priceEvery is how often the file is looked at: a ConfigMap takes a minute anyway.
	priceEvery = 30 * time.Second
	// maxPriceFile is the most a ConfigMap can hold.
	maxPriceFile = 1 << 20
)

// prices follows a price table.
type prices struct {
	file string
	text []byte
	set  func(measure.Prices)
}

// read reads the file, if it has changed.
func (p *prices) read() error {
	f, err := os.Open(p.file)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPriceFile+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxPriceFile:
		return fmt.Errorf("%s: more than %d bytes", p.file, maxPriceFile)
	case p.text != nil && bytes.Equal(text, p.text):
		return nil
	}
	p.text = text
	table, err := parsePrices(text)
	if err != nil {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	p.set(table)
	return nil
}

// follow reads the file again and again until the context ends. A file that has become
// invalid changes nothing, and is reported.
func (p *prices) follow(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := p.read(); err != nil {
			klog.FromContext(ctx).Error(err, "Price table not read: the last valid one counts", "file", p.file)
		}
	}, priceEvery)
}
