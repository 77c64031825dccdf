package probe

import (
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// proxyCases are the cases of a row of the asynchronous proxy or of clusters; rows
// that later machines have have none.
func proxyCases(op code.Op) []Case {
	row := op.Row()
	switch {
	case row.Since > 90:
		return nil
	case row.InPlace:
		return productCases(op)
	case strings.HasPrefix(row.Name, "tensor."):
		return tensorCases(op)
	}
	return nil
}
