// Package probe runs each row of the thread-code table on a machine and compares
// what comes back with the row's meaning. It closes the gap between the
// simulator, which executes meanings, and a GPU, which executes the PTX text of
// the same row.
//
// A [Case] is a small generated function with its buffers and with what must
// stand in them afterwards, worked out here without the simulator: for pure rows
// from [code.Row.Meaning], for the others from a definition in this package,
// written a second time. [Run] puts all cases of all rows on a [Machine]. On the
// simulator that tests this package and the simulator against each other; on a
// GPU it tests the templates.
//
// Operands are edge values crossed with each other (zeros, powers of two and
// their neighbours, halfway cases of each narrower format, subnormals,
// infinities, NaNs) and random ones of several shapes. Immediates are all tried
// where they are few and sampled where they are not. Inputs that the template
// lets be constants are also tried as constants. The order in which atomics of
// several threads arrive is open, so their cases compare final values and sorted
// results only. Which NaN double precision gives is kept apart; see nan.go.
package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Case is one function, its launch, and what must come of it.
type Case struct {
	Op   code.Op
	Name string // sets the case apart from others of its row
	Func *code.Func
	Grid [3]int   // blocks; the threads of a block are in Func.Launch
	Bufs [][]byte // one argument for each parameter, all pointers
	Out  []Out
	// Want gives the buffers of Out, in that order, as they must be.
	Want func() [][]byte
	// Measure, if set, replaces the comparison: Want is a reference that the
	// hardware need not meet, and the text says how far away it stayed.
	Measure func(got, want [][]byte) string
}

// Out is a buffer whose elements are compared.
type Out struct {
	Buf    int              // index in Case.Bufs
	Size   int              // bytes of an element: 1, 2, 4 or 8
	Sorted bool             // only the set of elements counts, not their places
	Mask   uint64           // bits of an element that count; 0 for all
	Label  func(int) string // what went into element k; may be nil
	// nan is set where NaNs carry payloads; operands gives what went into element k.
	nan      *nanRow
	operands func(k int) []uint64
	// within is set where the row is an approximation: whether element k is near enough.
	within func(k int, got, want uint64) bool
}

// Row is what a machine did with one row of the table.
type Row struct {
	Name   string
	Hash   string   // of the row's types, templates and documentation
	Tried  int      // results compared
	Differ int      // of them, not as the meaning says
	NaNs   int      // of them, NaN as the meaning says but of another code; see nan.go
	Cases  int      // functions run
	First  []string // differences of up to five cases; failures to compile or run
	Failed int      // functions that did not run
	Notes  []string // measurements
	Ms     float64  // wall time: compiling, copying, running
	nans   nanTally
}

// Equal reports whether everything ran and was as the meaning says, but for the
// codes of NaNs.
func (r *Row) Equal() bool { return r.Differ == 0 && r.Failed == 0 && r.Tried > 0 }

// Options of a run. The zero value tries every row with a good sample of operands.
type Options struct {
	Cross  int               // most crossed edge operands of a case; 0 is 65536
	Random int               // random operands of a case; 0 is 16384
	Only   func(string) bool // rows to probe, by name; nil is all
	Case   func(string) bool // cases to run, by name; nil is all
	Proxy  bool              // the rows of code.ProxyRows that have cases, not the others
	// Undefined adds measurements of what the table leaves open and the simulator
	// refuses: division by zero.
	Undefined bool
}

func (o Options) cross() int {
	if o.Cross == 0 {
		return 1 << 16
	}
	return o.Cross
}

func (o Options) random() int {
	if o.Random == 0 {
		return 1 << 14
	}
	return o.Random
}

// Hash names what a comparison proves something about: the row as the table
// has it, except for its meaning, which is a Go function. Of a matrix instruction
// that is also which lane holds what, as the catalogue has it.
func Hash(row *code.Row) string {
	h := sha256.New()
	fmt.Fprintln(h, row.Name, row.In, row.Out, row.Imm, row.Class, row.Space, row.Unit, row.Count, row.Ties, row.Commutes, row.NonZero, row.Since)
	fmt.Fprintf(h, "%s\n%s\n%s\n", row.PTX, row.C, row.Doc)
	if row.Class == code.Matrix || row.InPlace || row.Class == code.Warp || row.Collective {
		if a, err := arch.FindAtom(row.Name); err == nil {
			for _, o := range a.Operands {
				fmt.Fprintln(h, o.Name, o.Type, o.Layout)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// Machine runs one function.
type Machine interface {
	// Run launches f and changes the buffers in place.
	Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error
}

// Run probes the rows of the table on m, in table order. Differences and
// functions that fail are in the rows; the error is that of the context.
func Run(ctx context.Context, m Machine, o Options) ([]Row, error) {
	var rows []Row
	ops := code.Rows()
	if o.Proxy {
		ops = code.ProxyRows()
	}
	for _, op := range ops {
		if o.Only != nil && !o.Only(op.String()) {
			continue
		}
		r := Row{Name: op.String(), Hash: Hash(op.Row())}
		cases := Cases(op, o)
		if len(cases) == 0 {
			continue
		}
		for _, c := range cases {
			if err := ctx.Err(); err != nil {
				return rows, err
			}
			if o.Case != nil && !o.Case(c.Name) {
				continue
			}
			r.probe(ctx, m, c)
		}
		if r.NaNs = r.nans.n; r.NaNs > 0 {
			r.Notes = append(r.Notes, r.nans.String())
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// most is the number of differences of a row that are described.
const most = 5

func (r *Row) probe(ctx context.Context, m Machine, c Case) {
	bufs := make([][]byte, len(c.Bufs))
	for i, b := range c.Bufs {
		bufs[i] = bytes.Clone(b)
	}
	r.Cases++
	start := time.Now()
	err := m.Run(ctx, c.Func, c.Grid, bufs)
	r.Ms += float64(time.Since(start).Microseconds()) / 1000
	if err != nil {
		r.Failed++
		r.describe(c, err.Error())
		return
	}
	got := make([][]byte, len(c.Out))
	for i, o := range c.Out {
		got[i] = bufs[o.Buf]
	}
	want := c.Want()
	if c.Measure != nil {
		r.Notes = append(r.Notes, c.Name+": "+c.Measure(got, want))
		return
	}
	n := r.Differ
	first := ""
	for i, o := range c.Out {
		tried, differ, text := o.compare(got[i], want[i], &r.nans)
		r.Tried += tried
		r.Differ += differ
		if first == "" {
			first = text
		}
	}
	if r.Differ > n {
		r.describe(c, fmt.Sprintf("%d differ, such as %s", r.Differ-n, first))
	}
}

func (r *Row) describe(c Case, text string) {
	if len(r.First) < most {
		r.First = append(r.First, c.Name+": "+text)
	}
}

// element reads element k of size bytes.
func element(b []byte, size, k int) uint64 {
	b = b[k*size:]
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// put writes element k of size bytes.
func put(b []byte, size, k int, v uint64) {
	b = b[k*size:]
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

func (o Out) compare(got, want []byte, nans *nanTally) (tried, differ int, first string) {
	n := len(want) / o.Size
	mask := o.Mask
	if mask == 0 {
		mask = ^uint64(0)
	}
	at := func(b []byte) []uint64 {
		vals := make([]uint64, n)
		for k := range vals {
			vals[k] = element(b, o.Size, k) & mask
		}
		if o.Sorted {
			slices.Sort(vals)
		}
		return vals
	}
	g, w := at(got), at(want)
	var told []uint64 // examples give different values
	for k := range n {
		if g[k] == w[k] {
			continue
		}
		if o.within != nil && o.within(k, g[k], w[k]) {
			continue
		}
		if o.nan != nil && o.nan.to.IsNaN(g[k]) && o.nan.to.IsNaN(w[k]) {
			nans.count(*o.nan, o.operands(k), g[k])
			continue
		}
		differ++
		if len(told) == 4 || slices.Contains(told, g[k]) {
			continue
		}
		label := fmt.Sprintf("element %d", k)
		if o.Label != nil {
			label = o.Label(k)
		}
		if told = append(told, g[k]); len(told) > 1 {
			first += "; "
		}
		first += fmt.Sprintf("%s: got %#0*x, want %#0*x", label, 2*o.Size, g[k], 2*o.Size, w[k])
	}
	return n, differ, first
}
