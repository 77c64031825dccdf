package dispatch

import (
	"cmp"
	"fmt"
	"strings"
)

// Policy is a generation of ROCm's runtime: which queue a new stream gets, and
// which packets get the barrier bit.
type Policy string

// The policies.
const (
	ROCm42   Policy = "4.2"
	ROCm6    Policy = "6.x"
	ROCm2026 Policy = "2026"
)

// Policies lists them, with what distinguishes each.
//
// Source: ROCclr of ROCm 4.2; ROCm/clr rocclr/device/rocm; rocm-systems pull request 9895.
func Policies() []struct {
	Policy Policy
	Doc    string
} {
	return []struct {
		Policy Policy
		Doc    string
	}{
		{ROCm42, "a thread of each queue makes packets; a new stream gets a new HSA queue until there are four, then the least used; every dispatch has the barrier bit"},
		{ROCm6, "the calling thread makes packets; a new stream gets a queue without users if there is one, else as 4.2; every dispatch has the barrier bit"},
		{ROCm2026, "as 6.x, ties go to the lowest queue; the barrier bit is left out where the stream does not need it"},
	}
}

// ParsePolicy reads a policy's name; "" is the newest, and "rocm_" may stand before it.
func ParsePolicy(s string) (Policy, error) {
	p := Policy(strings.TrimPrefix(strings.ToLower(s), "rocm_"))
	switch p {
	case "":
		return ROCm2026, nil
	case ROCm42, ROCm6, ROCm2026:
		return p, nil
	}
	return "", fmt.Errorf("dispatch: no policy %.40q; there are 4.2, 6.x and 2026", s)
}

// Priority of a stream; "" is normal.
type Priority string

// The priorities. Each has a pool of its own.
const (
	Low    Priority = "low"
	Normal Priority = "normal"
	High   Priority = "high"
)

// Priorities lists them.
func Priorities() []Priority { return []Priority{Low, Normal, High} }

// ParsePriority reads a priority; "" is normal.
func ParsePriority(s string) (Priority, error) {
	switch p := Priority(cmp.Or(s, string(Normal))); p {
	case Low, Normal, High:
		return p, nil
	}
	return "", fmt.Errorf("no priority %.40q; there are low, normal, high", s)
}

func (p Priority) rank() int {
	switch p {
	case Low:
		return 0
	case High:
		return 2
	}
	return 1
}

// MaxHWQueues is how many HSA queues the pool of a priority has, and MaxHWQueuesEnv
// the variable that changes it.
const (
	MaxHWQueues    = 4
	MaxHWQueuesEnv = "GPU_MAX_HW_QUEUES"
)

// PoolQueue is an HSA queue of a process.
type PoolQueue struct {
	ID       int // within its pool; -1 outside pools
	Priority Priority
	Users    int
	Why      string // why it is outside the pool; "" inside
}

// Pool is the HSA queues of a process on one device, and which streams use them.
type Pool struct {
	Policy  Policy
	Max     int // of a priority
	queues  map[Priority][]*PoolQueue
	outside []*PoolQueue
	streams map[string]*PoolQueue
}

// NewPool makes a pool; max 0 is [MaxHWQueues].
func NewPool(p Policy, max int) *Pool {
	return &Pool{Policy: p, Max: cmp.Or(max, MaxHWQueues), queues: map[Priority][]*PoolQueue{}, streams: map[string]*PoolQueue{}}
}

// Create binds a new stream to a queue, for good. A stream with a mask of compute
// units gets a queue of its own; cooperative launches share one queue for each device.
func (p *Pool) Create(stream string, priority Priority, masked, cooperative bool) (*PoolQueue, error) {
	priority = cmp.Or(priority, Normal)
	if p.streams[stream] != nil {
		return nil, fmt.Errorf("dispatch: stream %.40q exists", stream)
	}
	if _, err := ParsePriority(string(priority)); err != nil {
		return nil, fmt.Errorf("dispatch: stream %.40q: %w", stream, err)
	}
	q := p.choose(priority, masked, cooperative)
	q.Users++
	p.streams[stream] = q
	return q, nil
}

func (p *Pool) choose(priority Priority, masked, cooperative bool) *PoolQueue {
	if masked || cooperative {
		why := "its stream has a mask of compute units"
		if cooperative {
			why = "for cooperative launches"
			for _, q := range p.outside {
				if q.Why == why {
					return q
				}
			}
		}
		q := &PoolQueue{ID: -1, Priority: priority, Why: why}
		p.outside = append(p.outside, q)
		return q
	}
	pool := p.queues[priority]
	if p.Policy != ROCm42 {
		for _, q := range pool {
			if q.Users == 0 {
				return q
			}
		}
	}
	if len(pool) < p.Max {
		q := &PoolQueue{ID: len(pool), Priority: priority}
		p.queues[priority] = append(pool, q)
		return q
	}
	best := pool[0]
	for _, q := range pool {
		if q.Users < best.Users {
			best = q
		}
	}
	return best
}

// Destroy ends a stream. Its queue stays in the pool; one outside of it ends with
// its last user.
func (p *Pool) Destroy(stream string) error {
	q := p.streams[stream]
	if q == nil {
		return fmt.Errorf("dispatch: there is no stream %.40q", stream)
	}
	delete(p.streams, stream)
	q.Users--
	if q.ID < 0 && q.Users == 0 {
		for i, x := range p.outside {
			if x == q {
				p.outside = append(p.outside[:i], p.outside[i+1:]...)
				break
			}
		}
	}
	return nil
}

// Queue is the queue of a stream, or nil.
func (p *Pool) Queue(stream string) *PoolQueue { return p.streams[stream] }

// Streams are the streams that exist with the numbers of their queues.
func (p *Pool) Streams() map[string]int {
	out := map[string]int{}
	for s, q := range p.streams {
		out[s] = q.ID
	}
	return out
}

// Users counts the streams of each queue of a priority's pool.
func (p *Pool) Users(priority Priority) []int {
	out := []int{}
	for _, q := range p.queues[cmp.Or(priority, Normal)] {
		out = append(out, q.Users)
	}
	return out
}

// Outside counts the queues that are in no pool.
func (p *Pool) Outside() int { return len(p.outside) }

// BarrierBits says for packets of streams, in the order in which they enter one
// HSA queue, which get the barrier bit. Before 2026 all do. Now a packet needs it
// if its stream has a packet in this queue and no barrier packet came behind that
// one; a barrier packet that is that one itself does not help, as it waits only for
// what came before it.
func BarrierBits(p Policy, streams []string) []bool {
	out := make([]bool, len(streams))
	last := map[string]int{}
	barrier := -1
	for i, s := range streams {
		if p != ROCm2026 {
			out[i] = true
			continue
		}
		prev, ok := last[s]
		out[i] = ok && barrier <= prev
		if out[i] {
			barrier = i
		}
		last[s] = i
	}
	return out
}

// WaitPackets are the barrier packets that wait for signals: five each, all but the
// last without completion signal and scopes.
func WaitPackets(deps []uint64, completion uint64) []Packet {
	var out []Packet
	for len(deps) > MaxDeps {
		p := Packet{Header: NewHeader(BarrierAnd, true, NoScope, NoScope)}
		copy(p.Deps[:], deps)
		deps = deps[MaxDeps:]
		out = append(out, p)
	}
	p := Packet{Header: NewHeader(BarrierAnd, true, SystemScope, SystemScope), Completion: completion}
	copy(p.Deps[:], deps)
	return append(out, p)
}

// FinalMask is the mask of compute units that a stream's queue gets: the stream's
// and the global one together, or the global one where they share none. A stream
// without a mask has all bits. In WGP mode each bit becomes two.
func FinalMask(stream, global []uint32, wgp bool) []uint32 {
	out := make([]uint32, max(len(stream), len(global)))
	shared := false
	for i := range out {
		out[i] = word(stream, i) & word(global, i)
		shared = shared || out[i] != 0
	}
	if !shared {
		out = append([]uint32(nil), global...)
	}
	if !wgp {
		return out
	}
	double := make([]uint32, 2*len(out))
	for i := range 32 * len(out) {
		if out[i/32]>>(i%32)&1 != 0 {
			double[2*i/32] |= 3 << (2 * i % 32)
		}
	}
	return double
}

// word is an element of a mask; a nil mask has all bits.
func word(mask []uint32, i int) uint32 {
	switch {
	case mask == nil:
		return ^uint32(0)
	case i < len(mask):
		return mask[i]
	}
	return 0
}

// ParseMask reads a hexadecimal mask of compute units, words of lower bits first.
func ParseMask(s string) ([]uint32, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(s), "0x"), "0X")
	if digits == "" || len(digits) > 1024 {
		return nil, fmt.Errorf("dispatch: %.40q is no mask; write it as 0x… of at most 1024 digits", s)
	}
	out := make([]uint32, (len(digits)+7)/8)
	for i := range len(digits) {
		c := digits[len(digits)-1-i] | 0x20
		var d uint32
		switch {
		case c >= '0' && c <= '9':
			d = uint32(c - '0')
		case c >= 'a' && c <= 'f':
			d = uint32(c-'a') + 10
		default:
			return nil, fmt.Errorf("dispatch: %.40q is no mask: %q is no hexadecimal digit", s, digits[len(digits)-1-i])
		}
		out[i/8] |= d << (4 * (i % 8))
	}
	return out, nil
}

// FormatMask writes a mask with the digits of all its words.
func FormatMask(m []uint32) string {
	var b strings.Builder
	b.WriteString("0x")
	for i := len(m) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "%08x", m[i])
	}
	return b.String()
}
