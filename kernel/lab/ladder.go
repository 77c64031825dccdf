package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

// Measured is what programs that build on each other reached on a GPU that was there
// once, beside something known. Lessons read it from a file of their data.
type Measured struct {
	What   string // "f16 product, 4096 × 4096 × 4096"
	GPU    string
	Commit string // of what was measured
	Unit   string
	Peer   string // what Rate of the rows is compared with
	Rate   float64
	Rows   []MeasuredRow
}

// MeasuredRow is one program of it.
type MeasuredRow struct {
	Name string
	Adds string // what it adds to the one before
	Rate float64
}

// maxMeasured is the largest file of measured rates, in bytes.
const maxMeasured = 1 << 20

// ReadMeasured reads a file of such numbers, of at most 1 MiB.
func ReadMeasured(path string) (*Measured, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMeasured+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("lab: %w", err)
	case len(data) > maxMeasured:
		return nil, fmt.Errorf("lab: %s has more than %d bytes and is no file of measured rates, such as notebooks/data/matmul-h200.json", path, maxMeasured)
	}
	m := &Measured{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("lab: %s: %w", path, err)
	}
	if len(m.Rows) == 0 || !(m.Rate > 0) {
		return nil, fmt.Errorf("lab: %s holds no measured rates", path)
	}
	return m, nil
}

// Picture draws the rows as bars, with a mark where the peer is.
func (m *Measured) Picture() (layoutviz.Picture, error) {
	var rungs []timeline.Rung
	for _, r := range m.Rows {
		rungs = append(rungs, timeline.Rung{Name: r.Name, Adds: r.Adds, Rate: r.Rate, Ratio: r.Rate / m.Rate})
	}
	return timeline.Ladder(rungs, m.Unit, m.Peer, m.What, fmt.Sprintf("Measured on an %s with the programs of commit %.7s; %s reached %.0f %s.", m.GPU, m.Commit, m.Peer, m.Rate, m.Unit), layoutviz.Options{})
}
