package tune

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Row is one line of tests/record/timings.json: what was timed, on what.
type Row struct {
	What       string  `json:"what"` // "timing"
	Name       string  `json:"name"`
	Hash       string  `json:"hash"`   // see [Hash]
	Result     string  `json:"result"` // "equal", "close", "unchecked", or an error
	RelError   float64 `json:"rel_error,omitempty"`
	MedianUs   float64 `json:"median_us"`
	MinUs      float64 `json:"min_us"`
	MaxUs      float64 `json:"max_us"`
	Bytes      int64   `json:"bytes"`
	GBps       float64 `json:"gb_s"`
	ReadUs     float64 `json:"read_us,omitempty"` // the read kernel over as many bytes, in the same run
	Ratio      float64 `json:"ratio,omitempty"`   // median_us / read_us
	Sets       int     `json:"sets"`
	WorkingSet int64   `json:"working_set"`
	Launches   int     `json:"launches"` // per replay of the graph
	Replays    int     `json:"replays"`
	CompileMs  float64 `json:"compile_ms"` // text to PTX
	JITMs      float64 `json:"jit_ms"`     // PTX to machine code
	PTXBytes   int     `json:"ptx_bytes,omitempty"`
	Grid       [3]int  `json:"grid"`
	Threads    int     `json:"threads"`
	Registers  int     `json:"registers"`
	Local      int     `json:"local_bytes"`
	Shared     int     `json:"shared_bytes"`
	PerSM      int     `json:"blocks_per_sm"`
	*Clocks            // of the cases that ask for them
	GPU        string  `json:"gpu"`
	Driver     string  `json:"driver"`
	Target     string  `json:"target"`
	Commit     string  `json:"commit"`
	Binary     string  `json:"binary_sha256"`
	Written    string  `json:"utc"`
}

// Origin is what the rows of one run have in common: GPU, driver, binary, time
// and commit, which is taken from the binary if the caller does not know it.
func Origin(g *GPU, commit string) Row {
	r := Row{What: "timing", GPU: g.Title, Driver: g.Driver, Target: g.Target, Commit: commit, Written: time.Now().UTC().Format(time.RFC3339)}
	if exe, err := os.Executable(); err == nil {
		if data, err := os.ReadFile(exe); err == nil {
			r.Binary = fmt.Sprintf("%x", sha256.Sum256(data))
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Commit = s.Value
			}
		}
	}
	return r
}

// Row is the origin's row for a measurement that gave t and err.
func (origin Row) Row(name, hash string, t Timing, err error) Row {
	r := origin
	r.Name, r.Hash = name, hash
	switch {
	case err != nil:
		r.Result = err.Error()
	case !t.Checked:
		r.Result = "unchecked"
	case t.RelError > 0:
		r.Result = "close"
	default:
		r.Result = "equal"
	}
	r.RelError, r.MedianUs, r.MinUs, r.MaxUs, r.Bytes, r.GBps = t.RelError, t.Median, t.Min, t.Max, t.Bytes, t.GBps
	r.ReadUs, r.Ratio = t.ReadUs, t.Ratio()
	r.Sets, r.WorkingSet, r.Launches, r.Replays = t.Sets, t.WorkingSet, t.Launches, len(t.Samples)
	r.CompileMs, r.JITMs, r.PTXBytes = t.CompileMs, t.JITMs, t.PTXBytes
	r.Grid, r.Threads, r.Registers, r.Local, r.Shared, r.PerSM = t.Grid, t.Threads, t.Registers, t.LocalBytes, t.SharedBytes, t.BlocksPerSM
	r.Clocks = t.Clocks
	return r
}

// Complete says whether the row holds all that a reader of it relies on.
func (r Row) Complete() bool {
	return r.What == "timing" && r.Name != "" && r.Hash != "" && r.Result != "" && r.MedianUs > 0 && r.MinUs <= r.MedianUs && r.MedianUs <= r.MaxUs &&
		r.Bytes > 0 && r.Sets > 0 && r.Launches > 0 && r.Replays >= 7 && r.GPU != "" && r.Driver != "" && r.Target != "" && r.Commit != "" && r.Binary != "" && r.Written != ""
}

// Hash names what a row is about: the program's text, and what is said about
// the arguments. Inputs are random, so their values do not belong to it.
func Hash(p *ir.Program, arguments ...string) string {
	h := sha256.New()
	io.WriteString(h, text.Format(p))
	for _, a := range arguments {
		fmt.Fprintf(h, "%d %s\n", len(a), a)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// WriteRows writes a record file.
func WriteRows(path string, rows []Row) error {
	data, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// maxRecord is the largest record file, in bytes.
const maxRecord = 16 << 20

// ReadRows reads a record file of at most 16 MiB.
func ReadRows(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	defer f.Close()
	rows, err := readRows(f)
	if err != nil {
		return nil, fmt.Errorf("tune: %s: %w", path, err)
	}
	return rows, nil
}

func readRows(r io.Reader) ([]Row, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxRecord {
		return nil, fmt.Errorf("a record has at most %d bytes, this file has more", maxRecord)
	}
	var rows []Row
	return rows, json.Unmarshal(data, &rows)
}
