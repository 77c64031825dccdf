package layout

import (
	"slices"
	"testing"
	"time"
)

// Printing searches over chains; the largest number of digits must stay quick.
func TestWorstCasesAreQuick(t *testing.T) {
	start := time.Now()
	l := Layout{}
	for i := range 12 {
		shape := ones(MaxRank)
		shape[i] = 2
		l = l.Spatial(shape...)
		shape[i], shape[31-i] = 1, 2
		l = l.ColumnLocal(shape...)
	}
	if !parse(t, l.String()).Equal(l) {
		t.Error("does not read back")
	}
	var replicas Layout
	for range 12 {
		replicas = replicas.Replicated(2, slices.Concat(ones(31), []int{1})...).Spatial(slices.Concat([]int{2}, ones(31))...)
	}
	if !parse(t, replicas.String()).Equal(replicas) {
		t.Error("replicas do not read back")
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}
