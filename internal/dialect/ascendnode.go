package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// ascendRegister begins the node annotations in which HAMi's device plugin registers
// Huawei's cards, one for each kind: hami.io/node-register-Ascend310P.
const ascendRegister = "hami.io/node-register-Ascend"

// ascendDevices reads a node's cards: those that HAMi's plugin registers, then those published as resources only.
func ascendDevices(node *v1.Node) (*registration, error) {
	reg := &registration{}
	registered := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if !strings.HasPrefix(key, ascendRegister) {
			continue
		}
		card := strings.TrimPrefix(key, "hami.io/node-register-")
		devices, err := registeredCards(node, key, card)
		if err != nil {
			return nil, err
		}
		registered[strings.ToLower(card)] = true
		reg.devices = append(reg.devices, devices...)
	}
	for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		rest, ok := cutPrefixFold(string(name), ascendPrefix)
		card := "Ascend" + rest
		if !ok || registered[strings.ToLower(card)] || strings.HasSuffix(card, ascendMemory) || strings.HasSuffix(card, ascendPercent) {
			continue
		}
		registered[strings.ToLower(card)] = true
		reg.devices = append(reg.devices, publishedCards(node, name, card)...)
	}
	if cores := quantity(node.Status.Allocatable, ascendCore); cores > 0 && !registered[strings.ToLower(ascend310P)] {
		chip := ascendChipOf(ascend310P)
		for range min(cores/int64(chip.cores), maxCount) {
			// Every template takes an AI CPU, so a card has as many parts at most.
			reg.devices = append(reg.devices, model.Device{Vendor: model.Ascend, Model: ascendModel(chip.name), Memory: chip.memory, NUMA: model.NUMAUnknown, Tenants: chip.cpus})
		}
	}
	if len(reg.devices) > maxCount {
		return nil, fmt.Errorf("status.allocatable: %d Ascend cards, at most %d", len(reg.devices), maxCount)
	}
	number(reg.devices)
	reg.sellable = len(reg.devices)
	return reg, nil
}

// number gives devices different indexes: where kinds of cards collide, which are counted from 0 each, all in order.
func number(devices []model.Device) {
	seen := map[int]bool{}
	for i := range devices {
		seen[devices[i].Index] = true
	}
	for i := range devices {
		if len(seen) < len(devices) {
			devices[i].Index = i
		}
	}
}

// publishedCards are cards of which only the number is known, and perhaps the memory of all of them.
func publishedCards(node *v1.Node, name v1.ResourceName, card string) []model.Device {
	n := quantity(node.Status.Allocatable, name)
	if n == 0 || n > maxCount {
		return nil
	}
	memory := model.MiB(quantity(node.Status.Allocatable, name+ascendMemory) / n)
	if chip := ascendChipOf(card); chip != nil && memory == 0 {
		memory = chip.memory
	}
	out := equalDevices(node, model.Ascend, int(n), memory).devices
	for i := range out {
		out[i].Model = ascendModel(card)
	}
	return out
}

// registeredCards reads what HAMi's plugin registers of one kind of card: a JSON array,
// or in older versions "uuid,count,MiB,core,type,numa,health[,index,mode]:" of each.
func registeredCards(node *v1.Node, key, card string) ([]model.Device, error) {
	text := node.Annotations[key]
	var cards []hamiCard
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &cards); err != nil {
			return nil, fmt.Errorf("%s: %w", annotation(key), err)
		}
	} else {
		for i, entry := range split(text, ":") {
			c, err := legacyCard(entry, i)
			if err != nil {
				return nil, fmt.Errorf("%s: entry %d: %w", annotation(key), i, err)
			}
			cards = append(cards, c)
		}
	}
	devices, err := hamiCards(node, key, cards)
	for i := range devices {
		devices[i].Vendor, devices[i].Model = model.Ascend, ascendModel(card)
	}
	return devices, err
}

// legacyCard reads the older form of one card; at is its place in the list.
func legacyCard(entry string, at int) (hamiCard, error) {
	f := strings.Split(entry, ",")
	if len(f) != 7 && len(f) != 9 {
		return hamiCard{}, fmt.Errorf("%d fields, needs 7 or 9", len(f))
	}
	c := hamiCard{ID: f[0], Index: at, Type: f[4], Healthy: f[6] == "true"}
	var bad error
	number := func(i int) int {
		n, err := strconv.ParseInt(f[i], 10, 32)
		if err != nil && bad == nil {
			bad = fmt.Errorf("%q is not a number", f[i])
		}
		return int(n)
	}
	c.Count, c.Memory, c.NUMA = number(1), int64(number(2)), number(5)
	if len(f) == 9 {
		c.Index = number(7)
	}
	return c, bad
}
