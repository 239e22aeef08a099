package dialect

import (
	"errors"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// longExponent is one that no amount needs. Reading 1e-999999999 takes Kubernetes' parser
// minutes: a tenant could stop the scheduler with an annotation.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}`)

// maxQuantity is the longest text of a quantity.
const maxQuantity = 64

// ParseQuantity reads a quantity of text that others wrote.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > maxQuantity || longExponent.MatchString(text) {
		return resource.Quantity{}, errors.New("a quantity has at most 64 characters, and an exponent of at most 2 digits")
	}
	return resource.ParseQuantity(text)
}
