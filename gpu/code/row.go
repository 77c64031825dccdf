package code

import (
	"fmt"
	"math"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Class says what an instruction may do besides giving results.
type Class uint8

// The classes.
const (
	Pure    Class = iota // results depend on inputs alone
	Special              // pure, reads a special register that never changes
	Load                 // reads memory
	Store                // writes memory
	Atomic               // reads and writes memory in one step
	Warp                 // exchanges values with the other lanes of the warp
	Barrier              // waits for, or orders memory with, other threads
	Matrix               // warp-wide matrix instruction; pure for the warp as a whole
	Async                // begins a copy from global to shared memory
	Proxy                // begins work of the asynchronous proxy: bulk and tensor copies, products of a warpgroup
	Control              // holds regions
)

// String is the class in lower case.
func (c Class) String() string {
	return [...]string{"pure", "special", "load", "store", "atomic", "warp", "barrier", "matrix", "async", "proxy", "control"}[c]
}

// Classes is the number of classes.
const Classes = int(Control) + 1

// Space is the memory that a row reads or writes.
type Space uint8

// The spaces.
const (
	NoSpace Space = iota
	Global
	Shared
)

// ImmKind says what an immediate number means and which values it may have.
type ImmKind uint8

// The kinds of immediates.
const (
	ImmBits        ImmKind = iota // the bits of a constant of the result's type
	ImmOffset                     // bytes added to an address, in 32 signed bits
	ImmAttr                       // a set of Attr
	ImmCmp                        // a Cmp
	ImmLut                        // truth table of three bits, 0 to 255
	ImmBit                        // bit position, 0 to 31
	ImmWidth                      // number of bits, 1 to 32
	ImmID                         // barrier number, 0 to 15
	ImmUnroll                     // copies of a loop's body: 1 keeps it as it is
	ImmLane                       // lane distance or mask, 0 to 31
	ImmGroups                     // groups of copies, 0 to 63
	ImmThreads                    // number of threads, whole warps
	ImmSelector                   // which lanes hold sparsity metadata, below Row.Selectors
	ImmSign                       // 1 or -1
	ImmFlag                       // 0 or 1
	ImmRegisters                  // registers of a thread, 24 to 256, a multiple of 8
	ImmWgmmaGroups                // groups of products, 0 to 7
)

// Cmp is a comparison. On floats every one but NE is false if an operand is
// NaN; NE is then true.
type Cmp int64

// The comparisons.
const (
	EQ Cmp = iota
	NE
	LT
	LE
	GT
	GE
)

// String is "eq", "ne", …
func (c Cmp) String() string { return [...]string{"eq", "ne", "lt", "le", "gt", "ge"}[c] }

// Attr is a set of hints and promises on a memory instruction. None of them
// changes what a right program computes.
type Attr int64

// The attributes. At most one of the L1 and one of the L2 ones may be given.
const (
	NC            Attr = 1 << iota // the bytes do not change while the function runs: read through the read-only path
	NoAllocate                     // .L1::no_allocate
	EvictFirst                     // .L1::evict_first
	EvictLast                      // .L1::evict_last
	L2Prefetch64                   // .L2::64B, loads and asynchronous copies only
	L2Prefetch128                  // .L2::128B, loads only
	L2Prefetch256                  // .L2::256B, loads only
)

var attrNames = []string{".nc", ".L1::no_allocate", ".L1::evict_first", ".L1::evict_last", ".L2::64B", ".L2::128B", ".L2::256B"}

// String is the attributes as PTX writes them.
func (a Attr) String() string {
	var b strings.Builder
	for i, n := range attrNames {
		if a>>i&1 != 0 {
			b.WriteString(n)
		}
	}
	return b.String()
}

// Arch is the compute capability, times ten, of the first machine that has a row.
type Arch int

// Tie says that a result and an input are one register on the machine.
type Tie struct{ Out, In int }

// Row is one instruction of the table.
//
// PTX and C are templates. {o0} is a result, {a0} an input that must be a
// register, {outs} all results in braces, {a0#} one that may be a constant instead, {a0#x} the same in
// hexadecimal, {a0#f} and {a0#d} as an f32 and f64 number, {i0} an immediate, {i0x} one in hexadecimal, {cmp}
// the comparison, {fcmp} the same for floats, {mem} the bracketed address with its
// offset and {attr} the attributes. In a PTX template of several
// instructions only the last one writes results, and after all inputs are read.
// An empty C template means inline PTX.
type Row struct {
	Name    string // as PTX, where PTX has one name for it
	In, Out []Type
	Imm     []ImmKind
	Class   Class
	// Space, Unit and Count describe the access of a memory row: Count units of
	// Unit bytes, aligned to their product.
	Space       Space
	Unit, Count int
	// Collective is set where all lanes of a warp make the access together, each
	// giving the address of one unit; such a row cannot be guarded.
	Collective bool
	// Relaxed is set where each word is one relaxed access, which other blocks may make at the same time.
	Relaxed   bool
	Selectors int // values of the ImmSelector
	Ties      []Tie
	// InPlace is set where ties are no wish but the machine's way: it changes the
	// register of each result. The inputs that are not tied stay in use meanwhile.
	InPlace bool
	// Through is set where an instruction has any number of b32 inputs behind those of
	// the row and gives each back as a result of the same place, tied.
	Through  bool
	Addr     []Address // the addresses, where class and space do not say them
	Commutes bool      // the first two inputs may be exchanged
	NonZero  bool      // the second input must not be 0; the machine then gives some number, the simulator an error
	// Meaning is the result of a pure row of one result; inputs and result are
	// zero above their types' bits, missing inputs are 0.
	Meaning func(imm []int64, a, b, c uint64) uint64
	// Bound says how far from the meaning a machine's result may lie; nil: nowhere.
	Bound  *Bound
	PTX, C string
	Since  Arch   // 0: sm_80
	Target string // the only architecture that has it; "": all from Since
	ISA    string // lowest PTX version that knows it, where that is above 8.0
	Doc    string
	Source string
}

// Needs is the name of the oldest target that has the instruction, or "" where the one called
// target, of a level, has it.
func (r Row) Needs(target string, level Arch) string {
	switch {
	case r.Target != "" && r.Target != target:
		return r.Target
	case r.Since > level:
		for _, a := range arch.All() {
			if a.Capability() >= int(r.Since) {
				return a.Name
			}
		}
		return fmt.Sprintf("sm_%d", r.Since)
	}
	return ""
}

// Bound is the error of an approximation of f32: relative, or absolute where that
// is more; for inputs beyond Domain (if it is not 0) there is none stated.
type Bound struct{ Rel, Abs, Domain float64 }

// Holds reports whether a machine's result for an input is close enough to the
// meaning, all as f32 codes. Of subnormal results the last four units may differ.
func (b *Bound) Holds(in, got, want uint64) bool {
	x, g, w := dtype.F32.Decode(in), dtype.F32.Decode(got), dtype.F32.Decode(want)
	if b.Domain != 0 && !(math.Abs(x) <= b.Domain) {
		return true
	}
	return got == want || g != g && w != w || math.Abs(g-w) <= max(b.Rel*math.Abs(w), b.Abs, 4*0x1p-149)
}

// Eval is the meaning with inputs and results as lists, or nil if the row has
// none.
func (r *Row) Eval(imm []int64, in []uint64) []uint64 {
	if r.Meaning == nil {
		return nil
	}
	var a [3]uint64
	copy(a[:], in)
	return []uint64{r.Meaning(imm, a[0], a[1], a[2])}
}

// Memory reports whether the row reads or writes memory.
func (r *Row) Memory() bool { return r.Class == Load || r.Class == Store || r.Class == Atomic }

// Address is an input of a row that is an address, and the immediate that is added.
type Address struct {
	In, Imm int
	Space   Space
}

// Addresses are the addresses of a row; callers leave the list as it is.
func (r *Row) Addresses() []Address {
	switch {
	case r.Addr != nil:
		return r.Addr
	case r.Memory():
		return memoryAddress[r.Space : r.Space+1]
	case r.Class == Async:
		return asyncAddresses
	}
	return nil
}

var (
	memoryAddress  = []Address{{Space: NoSpace}, {Space: Global}, {Space: Shared}} // by space
	asyncAddresses = []Address{{0, 0, Shared}, {1, 1, Global}}
)

// Bits is 64 for global, 32 for shared addresses.
func (s Space) Bits() int { return [...]int{0, 64, 32}[s] }

// Movable reports whether an instruction may be dropped when unused, merged with
// an equal one and computed earlier.
func (r *Row) Movable() bool { return r.Class == Pure || r.Class == Special }

// AddrBits is 64 for global, 32 for shared memory, 0 for rows without address.
func (r *Row) AddrBits() int { return r.Space.Bits() }

// Row is the op's row.
func (op Op) Row() *Row {
	if k := int(op) - int(firstProxy); k >= 0 && k < len(proxyRows) {
		return &proxyRows[k]
	}
	if int(op) >= len(rows) {
		return &rows[OpInvalid]
	}
	return &rows[op]
}

// String is the row's name.
func (op Op) String() string { return op.Row().Name }

// Rows is every op that has a row, in table order, but for [ProxyRows].
func Rows() []Op {
	ops := make([]Op, 0, len(rows))
	for op := OpInvalid + 1; int(op) < len(rows); op++ {
		ops = append(ops, op)
	}
	return ops
}

// Lookup is the op of that name.
func Lookup(name string) (Op, error) {
	for _, op := range Rows() {
		if rows[op].Name == name {
			return op, nil
		}
	}
	if op, ok := proxyNames[name]; ok {
		return op, nil
	}
	return OpInvalid, fmt.Errorf("code: no instruction %q", name)
}
