package conform

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
)

// dispatchKinds are the kinds about AMD's way from a launch to a compute unit.
func dispatchKinds() []Kind {
	ask := func(name, doc string, answer func(in dispatchInput, expect map[string]json.RawMessage) (map[string]any, error)) Kind {
		return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
			return "", checkDispatch(answer, input, expect)
		}}
	}
	return []Kind{
		ask("aql.layout", "places of the fields of a packet", aqlLayout),
		ask("aql.header", "types and scopes of packets, header values", aqlHeader),
		ask("aql.encode", "a packet to its 64 bytes and back", aqlEncode),
		ask("aql.protocol", "how a packet is published", aqlProtocol),
		ask("aql.order", "when packets of a queue start", aqlOrder),
		ask("rocm.queue_pool", "which HSA queue a stream gets", rocmPool),
		ask("rocm.queue_pool_rules", "limits of the queue pools", rocmPoolRules),
		ask("rocm.cu_mask", "a stream's mask with the global one", rocmMask),
		ask("rocm.barrier", "which packets get the barrier bit, how waits are split", rocmBarrier),
		ask("kfd.cu_mask", "bits of a mask to compute units", kfdMask),
		ask("kfd.cu_mask_rule", "bits of a mask to dies", kfdMaskRule),
		ask("kfd.queues", "how many hardware queues there are", kfdQueues),
		ask("kfd.runlist", "when a run list is oversubscribed", kfdRunlist),
		ask("dispatch.deal", "which shader engine a block goes to", dispatchDeal),
		ask("dispatch.makespan", "ticks of a kernel over the number of units", dispatchMakespan),
		ask("dispatch.rule", "slots of workload managers, flattened ids", dispatchRule),
		ask("dispatch.ace", "in which order an ACE takes packets", dispatchACE),
		ask("dispatch.events", "when blocks of several kernels start", dispatchEvents),
		ask("dispatch.progress", "which waits between blocks end", dispatchProgress),
		ask("cu.occupancy", "what a compute unit has room for", cuOccupancy),
	}
}

// dispatchInput is the union of the inputs of these kinds.
type dispatchInput struct {
	Packet, Object, Field  string
	Type, Barrier          json.RawMessage
	Acquire, Release       json.RawMessage
	Header                 json.RawMessage
	Headers, Values        []json.RawMessage
	Setup                  *int
	Workgroup              []int
	Grid                   []int
	Private, Group         uint32
	KernelObject           string `json:"kernel_object"`
	Kernarg                string
	Completion             string          `json:"completion_signal"`
	Deps                   json.RawMessage `json:"dep_signals"`
	DepSignal              json.RawMessage `json:"dep_signal"`
	Dependencies           json.RawMessage
	AgentType              uint16 `json:"agent_type"`
	ReturnAddress          string `json:"return_address"`
	Args                   []json.RawMessage
	Signal, Value, MaskStr json.RawMessage
	Cond                   json.RawMessage
	QueueSize              int `json:"queue_size"`
	Packets                []orderPacket
	SignalValues           map[string]int64 `json:"signals"`

	MaxHW      int `json:"max_hw_queues"`
	Ops        [][]json.RawMessage
	Streams    json.RawMessage
	Policy     string
	StreamMask *string  `json:"stream_mask"`
	GlobalMask *string  `json:"global_mask"`
	WGP        bool     `json:"wgp"`
	WGPMode    bool     `json:"wgp_mode"`
	Submission []string `json:"one_hw_queue_submission_order"`

	SEs       int             `json:"shader_engines"`
	SHs       int             `json:"sh_per_se"`
	CUs       int             `json:"cu_per_se"`
	CUsPerSH  int             `json:"cu_per_sh"`
	Active    [][]int         `json:"active_per_sh"`
	MaskHex   string          `json:"mask_hex"`
	NumXCC    int             `json:"num_xcc"`
	GFX       int             `json:"gfx"`
	Bits      []int           `json:"bits"`
	MECs      int             `json:"num_mec_used"`
	Pipes     int             `json:"pipes_per_mec"`
	PerPipe   int             `json:"queues_per_pipe"`
	KernelQ   *int            `json:"kernel_compute_queues"`
	MaxProc   int             `json:"max_proc_per_quantum"`
	HQDs      int             `json:"hqds"`
	Cases     json.RawMessage `json:"cases"`
	ACEs      int             `json:"aces"`
	ACE       int             `json:"ace"`
	Blocks    int             `json:"blocks"`
	Mask      json.RawMessage `json:"mask"`
	Masks     map[string]string
	Threads   int                 `json:"threads_per_block"`
	Ticks     int                 `json:"block_ticks"`
	CUThreads int                 `json:"cu_threads"`
	GridB     []int               `json:"grid_blocks"`
	BlockID   []int               `json:"block"`
	Queues    map[string][]string `json:"queues"`
	Barriers  int                 `json:"barrier_bits"`
	Kernels   []eventKernel
	Capacity  int `json:"cu_capacity_blocks"`
	Cutting   *bool
	Skip      bool

	VGPRs      json.RawMessage `json:"vgprs"`
	SIMDVGPRs  int             `json:"simd_vgprs"`
	Granule    int
	MaxWaves   int   `json:"max_waves"`
	SIMDs      int   `json:"simds"`
	PerSIMD    int   `json:"waves_per_simd"`
	Wave       int   `json:"wave"`
	BlockSizes []int `json:"block_threads"`
	LDS        json.RawMessage
	LDSTotal   int `json:"lds_bytes"`
	LDSGranule int `json:"lds_granule"`
}

type orderPacket struct {
	Type    string
	Name    string
	Dur     int
	Barrier json.RawMessage
	Deps    []string
	Signal  string
}

type eventKernel struct {
	Name    string
	Blocks  int
	Ticks   json.RawMessage // a number, or one for each block
	Times   []int
	Threads int
	ACE     int
	Mask    json.RawMessage `json:"se_mask"`
	Arrive  int
	VGPRs   int
	LDS     int
}

// dispatchProse are keys of these kinds that comment on the expectation.
var dispatchProse = []string{"story", "lesson", "rule", "note"}

func checkDispatch(answer func(dispatchInput, map[string]json.RawMessage) (map[string]any, error), input, expect json.RawMessage) error {
	var in dispatchInput
	if err := json.Unmarshal(input, &in); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(expect, &want); err != nil {
		return fmt.Errorf("expect is no object: %w", err)
	}
	got, err := answer(in, want)
	if err != nil {
		return err
	}
	return compare(got, expect, sameHex)
}

// sameHex compares hexadecimal numbers, also in lists, by what they mean.
func sameHex(_ string, got, want any) bool {
	switch g := got.(type) {
	case string:
		w, ok := want.(string)
		if !ok || !strings.HasPrefix(w, "0x") || !strings.HasPrefix(g, "0x") {
			return false
		}
		a, err1 := dispatch.ParseMask(g)
		b, err2 := dispatch.ParseMask(w)
		return err1 == nil && err2 == nil && strings.TrimLeft(dispatch.FormatMask(a)[2:], "0") == strings.TrimLeft(dispatch.FormatMask(b)[2:], "0")
	case []any:
		w, ok := want.([]any)
		if !ok || len(w) != len(g) {
			return false
		}
		for i := range g {
			if g[i] != w[i] && !sameHex("", g[i], w[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// number64 reads a number, decimal or as a string with 0x; absent is 0.
func number64(raw json.RawMessage) (uint64, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, nil
	}
	text := strings.Trim(string(raw), `"`)
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(n), nil
	}
	return strconv.ParseUint(text, 0, 64)
}

func hexNumber(s string) (uint64, error) { return number64(json.RawMessage(s)) }

func aqlLayout(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	name := strings.TrimSpace(strings.SplitN(cmp.Or(in.Packet, in.Object), "(", 2)[0])
	name = strings.TrimSpace(strings.SplitN(name, "/", 2)[0])
	s, err := dispatch.FindStructure(name)
	if err != nil {
		return nil, err
	}
	offsets := map[string]any{}
	out := map[string]any{"size": dispatch.PacketBytes, "alignment": dispatch.PacketBytes, "offsets": offsets}
	for _, f := range s.Fields {
		offsets[f.Name] = []int{f.Offset, f.Size}
		if f.Name == "grid_size_x" {
			out["grid_unit"] = f.Doc
		}
	}
	if strings.HasPrefix(name, "barrier") {
		null := map[string]string{}
		for word, t := range map[string]dispatch.Type{"and": dispatch.BarrierAnd, "or": dispatch.BarrierOr} {
			r, err := dispatch.Run(dispatch.Scenario{Queues: []dispatch.Queue{{Name: "q", Commands: []dispatch.Command{{Type: t, Name: word}}}}})
			if err != nil {
				return nil, err
			}
			null[word] = "satisfied"
			if r.Deadlock != nil {
				null[word] = "not satisfied"
			}
		}
		out["null_signal"] = null
	}
	return out, nil
}

// headerFacts are the parts of a header under the names that cases may use.
func headerFacts(h dispatch.Header) map[string]any {
	bit := 0
	if h.Barrier() {
		bit = 1
	}
	out := map[string]any{"header": fmt.Sprintf("%#x", uint16(h)), "type": h.Type().String(), "type_code": int(h.Type()), "barrier": bit}
	for name, s := range map[string]dispatch.Scope{"acquire": h.Acquire(), "release": h.Release()} {
		out[name], out[name+"_scope"], out[name+"_fence_scope"] = int(s), s.String(), int(s)
	}
	return out
}

// sameFacts compares one decoded header with what is expected of it, where numbers
// and names mean the same.
func sameFacts(h dispatch.Header, want map[string]any) error {
	for key, w := range want {
		ok := false
		switch {
		case key == "type":
			ok = w == h.Type().String() || w == float64(h.Type()) || w == map[dispatch.Type]string{dispatch.KernelDispatch: "kernel", dispatch.VendorSpecific: "vendor",
				dispatch.Invalid: "invalid", dispatch.BarrierAnd: "and", dispatch.BarrierOr: "or", dispatch.AgentDispatch: "agent"}[h.Type()]
		case key == "barrier":
			ok = w == h.Barrier() || w == headerFacts(h)["barrier"] || w == float64(headerFacts(h)["barrier"].(int))
		case strings.HasPrefix(key, "acquire"):
			ok = w == float64(h.Acquire()) || w == h.Acquire().String()
		case strings.HasPrefix(key, "release"):
			ok = w == float64(h.Release()) || w == h.Release().String()
		case slices.Contains(prose, key):
			ok = true
		default:
			return fmt.Errorf("%s of a header cannot be checked", key)
		}
		if !ok {
			return fmt.Errorf("%s of header %s is not %s", key, h, short(w))
		}
	}
	return nil
}

// header puts a header together from its parts.
func (in dispatchInput) header() (dispatch.Header, error) {
	var t dispatch.Type
	if n, err := number64(in.Type); err == nil {
		t = dispatch.Type(n)
	} else if err := t.UnmarshalText(bytes.Trim(in.Type, `"`)); err != nil {
		return 0, err
	}
	scope := func(raw json.RawMessage) dispatch.Scope {
		for s := range dispatch.SystemScope + 1 {
			if w := strings.Trim(string(raw), `"`); w == s.String() || w == strconv.Itoa(int(s)) {
				return s
			}
		}
		return dispatch.NoScope
	}
	return dispatch.NewHeader(t, string(in.Barrier) == "1" || string(in.Barrier) == "true", scope(in.Acquire), scope(in.Release)), nil
}

func aqlHeader(in dispatchInput, expect map[string]json.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	scopes := strings.Contains(in.Field, "scope") || strings.Contains(in.Field, "fence")
	for i, name := range dispatch.Types() {
		out[name] = i
	}
	if scopes {
		for s := range dispatch.SystemScope + 1 {
			out[s.String()] = int(s)
		}
	}
	for name, shape := range map[string][2]int{"type": {0, 8}, "barrier": {8, 1}, "acquire": {9, 2}, "release": {11, 2}} {
		out[name+"_bits"] = shape
	}
	list := append(slices.Clone(in.Headers), in.Values...)
	if len(in.Type) > 0 {
		h, err := in.header()
		if err != nil {
			return nil, err
		}
		list = append(list, json.RawMessage(strconv.Itoa(int(h))))
	}
	if len(in.Header) > 0 {
		list = append(list, in.Header)
	}
	var decoded []map[string]any
	for _, raw := range list {
		n, err := number64(raw)
		if err != nil || n > 1<<16-1 {
			return nil, fmt.Errorf("%s is no header", short(raw))
		}
		decoded = append(decoded, headerFacts(dispatch.Header(n)))
	}
	if len(decoded) == 1 {
		maps.Copy(out, decoded[0])
	}
	out["decoded"] = decoded
	// A key may be a header itself, and its value what it means.
	for key, raw := range expect {
		n, err := strconv.ParseUint(key, 0, 16)
		var want map[string]any
		if err != nil || json.Unmarshal(raw, &want) != nil {
			var each []any
			if json.Unmarshal(raw, &each) == nil && len(each) == len(list) && len(list) > 0 {
				for i, w := range each {
					facts, ok := w.(map[string]any)
					if !ok {
						facts = map[string]any{key: w}
					}
					h, err := number64(list[i])
					if err != nil {
						return nil, err
					}
					if err := sameFacts(dispatch.Header(h), facts); err != nil {
						return nil, err
					}
				}
				out[key] = each
				continue
			}
			if len(decoded) == 1 && (key == "type" || key == "barrier" || strings.HasPrefix(key, "acquire") || strings.HasPrefix(key, "release")) {
				var w any
				if err := json.Unmarshal(raw, &w); err != nil {
					return nil, err
				}
				h, err := number64(list[0])
				if err != nil {
					return nil, err
				}
				if err := sameFacts(dispatch.Header(h), map[string]any{key: w}); err != nil {
					return nil, err
				}
				out[key] = w
			}
			continue
		}
		if err := sameFacts(dispatch.Header(n), want); err != nil {
			return nil, err
		}
		out[key] = want
	}
	return out, nil
}

func aqlEncode(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	p, err := in.packet()
	if err != nil {
		return nil, err
	}
	raw, err := p.Encode()
	if err != nil {
		return nil, err
	}
	back, err := dispatch.Decode(raw[:])
	if err != nil || back != p {
		return nil, fmt.Errorf("the packet is read back as %+v, %w", back, err)
	}
	first := uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24
	out := map[string]any{"hex": hex.EncodeToString(raw[:]), "first_dword": fmt.Sprintf("%#x", first), "size": len(raw)}
	if p.Header.Type() == dispatch.KernelDispatch {
		n, total := p.Blocks()
		out["work_groups"], out["blocks"] = total, n
	}
	return out, nil
}

func (in dispatchInput) packet() (dispatch.Packet, error) {
	var failed error
	num := func(raw json.RawMessage) uint64 {
		n, err := number64(raw)
		failed = cmp.Or(failed, err)
		return n
	}
	str := func(s string) uint64 { return num(json.RawMessage(s)) }
	p := dispatch.Packet{Header: dispatch.Header(num(in.Header)), Completion: str(in.Completion)}
	switch p.Header.Type() {
	case dispatch.KernelDispatch:
		p.Dimensions = 1
		if in.Setup != nil {
			p.Dimensions = *in.Setup
		}
		if len(in.Workgroup) != 3 || len(in.Grid) != 3 {
			return p, errors.New("workgroup and grid have three sizes")
		}
		for i := range 3 {
			p.Workgroup[i], p.Grid[i] = uint16(in.Workgroup[i]), uint32(in.Grid[i])
		}
		p.Private, p.Group, p.KernelObject, p.Kernarg = in.Private, in.Group, str(in.KernelObject), str(in.Kernarg)
	case dispatch.BarrierAnd, dispatch.BarrierOr:
		var deps []json.RawMessage
		for _, raw := range []json.RawMessage{in.Deps, in.DepSignal, in.Dependencies} {
			if len(raw) > 0 {
				failed = cmp.Or(failed, json.Unmarshal(raw, &deps))
			}
		}
		if len(deps) > dispatch.MaxDeps {
			return p, fmt.Errorf("a barrier packet waits for %d signals; the most is %d", len(deps), dispatch.MaxDeps)
		}
		for i, d := range deps {
			p.Deps[i] = num(d)
		}
	case dispatch.AgentDispatch:
		p.AgentType, p.ReturnAddress = in.AgentType, str(in.ReturnAddress)
		for i, a := range in.Args {
			if i < len(p.Args) {
				p.Args[i] = num(a)
			}
		}
	case dispatch.VendorSpecific:
		p.Signal, p.Value, p.Mask = num(in.Signal), int64(num(in.Value)), int64(num(in.Mask))
		conds := []dispatch.Cond{dispatch.Equal, dispatch.NotEqual, dispatch.Less, dispatch.GreaterEqual}
		word := strings.ToLower(strings.Trim(string(in.Cond), `"`))
		p.Cond = dispatch.Cond(word)
		if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < len(conds) {
			p.Cond = conds[n]
		}
	}
	return p, failed
}

func aqlProtocol(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	r, err := dispatch.NewRing(in.QueueSize)
	if err != nil {
		return nil, err
	}
	word := "power of two"
	if _, err := dispatch.NewRing(in.QueueSize + 2); err == nil {
		word = "anything"
	}
	initial := "INVALID"
	for i := range in.QueueSize {
		b := r.Bytes(uint64(i))
		if dispatch.Type(b[0]) != dispatch.Invalid {
			initial = "not INVALID"
		}
	}
	return map[string]any{"order": dispatch.PublishOrder(), "slot": "index & (size-1)", "slot_of_16385": r.Slot(16385), "size_must_be": word, "initial_header_of_every_slot": initial}, nil
}

// command is a packet of unlimited resources: every kernel has one block.
func (p orderPacket) command(i int) (dispatch.Command, error) {
	c := dispatch.Command{Name: cmp.Or(p.Name, fmt.Sprintf("p%d", i)), Deps: p.Deps, Signal: p.Signal}
	c.Barrier = string(p.Barrier) == "1" || string(p.Barrier) == "true"
	switch p.Type {
	case "k", "kernel", "kernel_dispatch":
		c.Kernel = &dispatch.Kernel{Name: c.Name, Blocks: 1, Threads: 1, Ticks: p.Dur}
	case "and", "barrier_and":
		c.Type = dispatch.BarrierAnd
	case "or", "barrier_or":
		c.Type = dispatch.BarrierOr
	default:
		return c, fmt.Errorf("there is no packet type %.40q here", p.Type)
	}
	return c, nil
}

func aqlOrder(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	q := dispatch.Queue{Name: "q"}
	for i, p := range in.Packets {
		c, err := p.command(i)
		if err != nil {
			return nil, err
		}
		q.Commands = append(q.Commands, c)
	}
	r, err := dispatch.Run(dispatch.Scenario{Machine: dispatch.Machine{CUs: dispatch.MaxCUs}, Queues: []dispatch.Queue{q}, Signals: in.SignalValues})
	if err != nil {
		return nil, err
	}
	var start, finish []int
	for _, run := range r.Runs {
		start, finish = append(start, run.Start), append(finish, run.Finish)
	}
	return map[string]any{"start": start, "finish": finish, "deadlock": r.Deadlock != nil}, nil
}

// pool performs the operations under a policy.
func (in dispatchInput) pool(policy string) (map[string]any, error) {
	p, err := dispatch.ParsePolicy(policy)
	if err != nil {
		return nil, err
	}
	pool := dispatch.NewPool(p, in.MaxHW)
	var log [][]int
	queues := []int{}
	ops := in.Ops
	var n int
	var names []string
	switch {
	case len(in.Streams) == 0:
	case json.Unmarshal(in.Streams, &n) == nil:
		for i := range n {
			ops = append(ops, []json.RawMessage{json.RawMessage(`"create"`), json.RawMessage(fmt.Sprintf(`"s%d"`, i))})
		}
	case json.Unmarshal(in.Streams, &names) == nil:
		for _, s := range names {
			ops = append(ops, []json.RawMessage{json.RawMessage(`"create"`), json.RawMessage(strconv.Quote(s))})
		}
	default:
		return nil, fmt.Errorf("streams %s are neither a number nor names", short(in.Streams))
	}
	for _, op := range ops {
		words := make([]string, len(op))
		for i, raw := range op {
			words[i] = strings.Trim(string(raw), `"`)
		}
		if len(words) < 2 {
			return nil, fmt.Errorf("operation %v names no stream", words)
		}
		switch words[0] {
		case "create", "create_masked", "create_cooperative":
			priority, masked, coop := dispatch.Priority(""), words[0] == "create_masked", words[0] == "create_cooperative"
			for _, w := range words[2:] {
				switch {
				case slices.Contains(dispatch.Priorities(), dispatch.Priority(w)):
					priority = dispatch.Priority(w)
				case strings.Contains(w, "mask") || strings.HasPrefix(w, "0x"):
					masked = true
				case strings.Contains(w, "coop"):
					coop = true
				default:
					return nil, fmt.Errorf("%.40q of an operation is not known", w)
				}
			}
			q, err := pool.Create(words[1], priority, masked, coop)
			if err != nil {
				return nil, err
			}
			queues = append(queues, q.ID)
		case "destroy":
			if err := pool.Destroy(words[1]); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("there is no operation %.40q", words[0])
		}
		log = append(log, pool.Users(""))
	}
	return map[string]any{"stream_to_queue": pool.Streams(), "refcounts": pool.Users(""), "refcount_log": log, "queues": queues, "queue_of_stream": queues,
		"queues_outside_pool": pool.Outside(), "queues_by_priority": map[string][]int{"low": pool.Users(dispatch.Low), "normal": pool.Users(""), "high": pool.Users(dispatch.High)}}, nil
}

func rocmPool(in dispatchInput, expect map[string]json.RawMessage) (map[string]any, error) {
	out, err := in.pool(in.Policy)
	if err != nil {
		return nil, err
	}
	for key, raw := range expect {
		if !strings.HasPrefix(key, "rocm_") && key != "4.2" && key != "6.x" && key != "2026" {
			continue
		}
		got, err := in.pool(key)
		if err != nil {
			return nil, err
		}
		if err := compare(got, raw, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out[key] = raw
	}
	return out, nil
}

func rocmPoolRules(dispatchInput, map[string]json.RawMessage) (map[string]any, error) {
	// The sentences are answered by what the pool does.
	p := dispatch.NewPool(dispatch.ROCm6, 0)
	for i := range 20 {
		if _, err := p.Create(fmt.Sprint("s", i), "", false, false); err != nil {
			return nil, err
		}
	}
	out := map[string]any{"default_max": len(p.Users("")), "env": dispatch.MaxHWQueuesEnv, "one_pool_per_priority": dispatch.Priorities(), "queue_size_packets": dispatch.QueuePackets}
	before := p.Queue("s0")
	a, err1 := p.Create("m0", "", true, false)
	b, err2 := p.Create("m1", "", true, false)
	if err1 == nil && err2 == nil && a != b && p.Destroy("m0") == nil && p.Outside() == 1 {
		out["cu_masked_stream"] = "own queue, never shared, destroyed at refcount 0"
	}
	c, err1 := p.Create("c0", "", false, true)
	d, err2 := p.Create("c1", dispatch.High, false, true)
	if err1 == nil && err2 == nil && c == d && c.ID < 0 {
		out["cooperative_queue"] = "one per device, outside the pool"
	}
	if p.Destroy("s1") == nil && p.Queue("s0") == before {
		out["binding"] = "a stream is bound to one queue at creation"
	}
	return out, nil
}

func parseMask(s *string) ([]uint32, error) {
	if s == nil {
		return nil, nil
	}
	return dispatch.ParseMask(*s)
}

func rocmMask(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	s, err1 := parseMask(in.StreamMask)
	g, err2 := parseMask(in.GlobalMask)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	return map[string]any{"final_mask": dispatch.FormatMask(dispatch.FinalMask(s, g, in.WGP || in.WGPMode))}, nil
}

func rocmBarrier(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	bits := func(p dispatch.Policy) []int {
		var out []int
		for _, b := range dispatch.BarrierBits(p, in.Submission) {
			if b {
				out = append(out, 1)
			} else {
				out = append(out, 0)
			}
		}
		return out
	}
	out := map[string]any{"barrier_bit": bits(dispatch.ROCm2026), "legacy_barrier_bit": bits(dispatch.ROCm6)}
	var n int
	for _, raw := range []json.RawMessage{in.Dependencies, in.Deps} {
		if len(raw) == 0 || json.Unmarshal(raw, &n) != nil || n < 0 || n > 1<<16 {
			continue
		}
		var each []int
		var headers []string
		left := n
		list := dispatch.WaitPackets(make([]uint64, n), 1)
		for _, p := range list {
			each = append(each, min(left, dispatch.MaxDeps))
			left -= min(left, dispatch.MaxDeps)
			headers = append(headers, fmt.Sprintf("%#x", uint16(p.Header)))
		}
		out["packets"], out["barrier_packets"], out["deps_per_packet"], out["headers"] = len(list), len(list), each, headers
	}
	return out, nil
}

// machine is the GPU of an input.
func (in dispatchInput) machine() (dispatch.Machine, error) {
	m := dispatch.Machine{SEs: in.SEs, SHs: in.SHs, CUs: in.CUs, ACEs: in.ACEs, Dies: in.NumXCC}
	if in.CUsPerSH > 0 {
		m.CUs = in.CUsPerSH * max(1, in.SHs)
	}
	if in.CUThreads > 0 {
		if in.CUThreads%4 != 0 {
			return m, fmt.Errorf("%d work-items do not divide into 4 SIMDs", in.CUThreads)
		}
		m.CU = dispatch.CU{SIMDs: 4, Waves: max(1, in.CUThreads/256), Wave: 64}
		if m.CU.Threads() != in.CUThreads {
			m.CU = dispatch.CU{SIMDs: 1, Waves: in.CUThreads, Wave: 1}
		}
	}
	return m, nil
}

func kfdMask(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m, err := in.machine()
	if err != nil {
		return nil, err
	}
	words, err := dispatch.ParseMask(in.MaskHex)
	if err != nil {
		return nil, err
	}
	se, err := m.MapCUMask(words, dispatch.MapOptions{WGP: in.WGP || in.WGPMode || in.GFX >= 10, Active: in.Active})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range se {
		out = append(out, fmt.Sprintf("%#x", w))
	}
	mask := m.FromSEMask(se)
	total := 0
	for _, n := range mask.Count() {
		total += n
	}
	return map[string]any{"se_mask_hex": out, "cus_per_se": mask.Count(), "cus": total, "se_balanced_cus": mask.Balanced()}, nil
}

func kfdMaskRule(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m, err := in.machine()
	if err != nil {
		return nil, err
	}
	var dies []int
	for _, b := range in.Bits {
		if b < 0 || b >= 1<<12 {
			return nil, fmt.Errorf("bit %d is out of range", b)
		}
		// The map of the one bit must agree, as long as it reaches a unit.
		mask := make([]uint32, b/32+1)
		mask[b/32] = 1 << (b % 32)
		se, err := m.MapCUMask(mask, dispatch.MapOptions{})
		if err != nil {
			return nil, err
		}
		die := dispatch.DieOfBit(b, in.NumXCC)
		for i, w := range se {
			if w != 0 && i/(len(se)/in.NumXCC) != die {
				return nil, fmt.Errorf("bit %d enables a unit of die %d", b, i/(len(se)/in.NumXCC))
			}
		}
		dies = append(dies, die)
	}
	return map[string]any{"xcc_of_bit": dies}, nil
}

func (in dispatchInput) hardware() dispatch.Hardware {
	h := dispatch.Hardware{MECs: in.MECs, Pipes: in.Pipes, QueuesPerPipe: in.PerPipe, MaxProcesses: in.MaxProc}
	if in.KernelQ != nil {
		h.Kernel = *in.KernelQ
		if h.Kernel == 0 {
			h.Kernel = -1
		}
	}
	return h
}

func kfdQueues(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	h := in.hardware()
	fit := 0
	for !h.Oversubscribed(0, (fit+1)*dispatch.MaxHWQueues, 0) {
		fit++
	}
	return map[string]any{"hqds_total": h.Total(), "hqds_for_user_queues": h.User(), "processes_with_4_queues_before_oversubscription": fit}, nil
}

func kfdRunlist(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	h := in.hardware()
	if in.HQDs > 0 {
		h = dispatch.Hardware{MECs: 1, Pipes: 1, QueuesPerPipe: in.HQDs, Kernel: -1, MaxProcesses: in.MaxProc}
	}
	var cases [][]int
	if err := json.Unmarshal(in.Cases, &cases); err != nil {
		return nil, err
	}
	var over []bool
	for _, c := range cases {
		if len(c) < 2 {
			return nil, fmt.Errorf("%v is no pair of processes and queues", c)
		}
		gws := 0
		if len(c) > 2 {
			gws = c[2]
		}
		over = append(over, h.Oversubscribed(c[0], c[1], gws))
	}
	return map[string]any{"oversubscribed": over, "log": dispatch.OversubscribedLog}, nil
}

// seMask reads a mask of the machine: "all", a word for each engine, or the mask
// that a user sets.
func seMask(m dispatch.Machine, raw json.RawMessage) (dispatch.Mask, error) {
	var words []string
	var one string
	switch {
	case len(raw) == 0 || string(raw) == `"all"`:
		return nil, nil
	case json.Unmarshal(raw, &words) == nil:
		var out dispatch.Mask
		for _, w := range words {
			n, err := hexNumber(w)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	case json.Unmarshal(raw, &one) == nil:
		mask, err := dispatch.ParseMask(one)
		if err != nil {
			return nil, err
		}
		se, err := m.MapCUMask(mask, dispatch.MapOptions{})
		return m.FromSEMask(se), err
	}
	return nil, fmt.Errorf("mask %s is not known", short(raw))
}

func alone(m dispatch.Machine, k dispatch.Kernel, o dispatch.Options) (*dispatch.Result, error) {
	return dispatch.Run(dispatch.Scenario{Machine: m, Options: o, Queues: []dispatch.Queue{{Name: "q", Commands: []dispatch.Command{{Kernel: &k}}}}})
}

func dispatchDeal(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m, err := in.machine()
	if err != nil {
		return nil, err
	}
	mask, err := seMask(m, in.Mask)
	if err != nil {
		return nil, err
	}
	r, err := alone(m, dispatch.Kernel{Name: "k", Blocks: in.Blocks, Threads: cmp.Or(in.Threads, 64), Ticks: cmp.Or(in.Ticks, 1), Mask: mask}, dispatch.Options{})
	if err != nil {
		return nil, err
	}
	var se []int
	for _, b := range r.Runs[0].Blocks {
		se = append(se, int(b.SE))
	}
	return map[string]any{"se_of_block": se, "ticks": r.Ticks}, nil
}

var headline = regexp.MustCompile(`(\d+) CUs in one SE: (\d+) ticks; adding one CU of a second SE: (\d+) ticks`)

func dispatchMakespan(in dispatchInput, expect map[string]json.RawMessage) (map[string]any, error) {
	m, err := in.machine()
	if err != nil {
		return nil, err
	}
	k := dispatch.Kernel{Name: "k", Blocks: in.Blocks, Threads: cmp.Or(in.Threads, 1024), Ticks: cmp.Or(in.Ticks, 1)}
	out := map[string]any{}
	// both asks the simulation and the formula.
	both := func(mask dispatch.Mask) (int, error) {
		k.Mask = mask
		r, err := alone(m, k, dispatch.Options{Events: -1})
		if err != nil {
			return 0, err
		}
		if f, err := dispatch.Makespan(m, k, dispatch.Options{}); err != nil || f != r.Ticks {
			return 0, fmt.Errorf("simulated %d ticks, by the formula %d, %w", r.Ticks, f, err)
		}
		return r.Ticks, nil
	}
	if raw, ok := expect["ticks_by_cu_count"]; ok {
		var want map[string]map[string]any
		if err := json.Unmarshal(raw, &want); err != nil {
			return nil, err
		}
		byCount := map[string]map[string]any{}
		for key, row := range want {
			n, err := strconv.Atoi(key)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q is no number of units", key)
			}
			s, err := dispatch.StairAt(m, k, dispatch.Options{}, n)
			if err != nil {
				return nil, err
			}
			got := map[string]any{"packed": s.Packed, "distributed": s.Distributed, "no_order_rule_packed": s.Skip, "skip": s.Skip}
			byCount[key] = map[string]any{}
			for name := range row {
				if got[name] == nil {
					return nil, fmt.Errorf("%q of the ticks cannot be checked", name)
				}
				byCount[key][name] = got[name]
			}
		}
		out["ticks_by_cu_count"] = byCount
	}
	if raw, ok := expect["headline"]; ok {
		if n := headline.FindStringSubmatch(string(raw)); n != nil {
			cus, _ := strconv.Atoi(n[1]) // digits by the expression
			a, err1 := both(m.Packed(cus))
			b, err2 := both(m.Packed(cus + 1))
			if err := cmp.Or(err1, err2); err != nil {
				return nil, err
			}
			out["headline"] = fmt.Sprintf("%d CUs in one SE: %d ticks; adding one CU of a second SE: %d ticks", cus, a, b)
		}
	}
	if len(in.Mask) > 0 {
		mask, err := seMask(m, in.Mask)
		if err != nil {
			return nil, err
		}
		if out["ticks"], err = both(mask); err != nil {
			return nil, err
		}
	}
	if in.Masks != nil {
		ticks := map[string]int{}
		for name, text := range in.Masks {
			mask, err := seMask(m, json.RawMessage(strconv.Quote(text)))
			if err != nil {
				return nil, err
			}
			if ticks[name], err = both(mask); err != nil {
				return nil, err
			}
			out[name] = ticks[name]
		}
		out["ticks"], out["ticks_by_mask"] = ticks, ticks
	}
	return out, nil
}

func dispatchRule(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	if len(in.GridB) == 3 {
		block := in.BlockID
		if len(block) != 3 {
			return nil, errors.New("a block has three coordinates")
		}
		out["flattened_id"] = dispatch.FlatID([3]int(block), [3]int(in.GridB))
		return out, nil
	}
	// A machine that is full shows how many blocks each ACE can park where.
	m := dispatch.Machine{SEs: in.SEs, ACEs: in.ACEs, CUs: 1}
	s := dispatch.Scenario{Machine: m}
	for a := range in.ACEs {
		s.Queues = append(s.Queues, dispatch.Queue{Name: fmt.Sprint("q", a), ACE: a, Commands: []dispatch.Command{
			{Kernel: &dispatch.Kernel{Name: fmt.Sprint("k", a), Blocks: 10 * in.SEs, Threads: 2560, Ticks: 10}}}})
	}
	r, err := dispatch.Run(s)
	if err != nil {
		return nil, err
	}
	parked := map[string]map[string]int{}
	for _, e := range r.Events {
		if e.Step == "park" && e.Tick == 0 {
			if parked[e.Actor] == nil {
				parked[e.Actor] = map[string]int{}
			}
			parked[e.Actor][e.Kernel]++
		}
	}
	slots, most, owners := 0, 0, true
	for _, byKernel := range parked {
		slots = max(slots, len(byKernel))
		for _, n := range byKernel {
			most = max(most, n)
			owners = owners && n == 1
		}
	}
	out["slots_per_wlm"] = slots
	if owners && slots == in.ACEs {
		out["slot_owner"] = "one per ACE"
	}
	if most == 1 && len(parked) == in.SEs {
		out["blocks_a_kernel_can_park"] = "at most one per SE"
	}
	return out, nil
}

func dispatchACE(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	s := dispatch.Scenario{Machine: dispatch.Machine{CUs: dispatch.MaxCUs}}
	for _, name := range slices.Sorted(maps.Keys(in.Queues)) {
		q := dispatch.Queue{Name: name, ACE: in.ACE}
		for _, k := range in.Queues[name] {
			q.Commands = append(q.Commands, dispatch.Command{Barrier: in.Barriers != 0, Kernel: &dispatch.Kernel{Name: k, Blocks: 1, Threads: 64, Ticks: 1}})
		}
		s.Queues = append(s.Queues, q)
	}
	r, err := dispatch.Run(s)
	if err != nil {
		return nil, err
	}
	order := []string{}
	for _, e := range r.Events {
		if e.Step == "take" {
			order = append(order, e.Kernel)
		}
	}
	return map[string]any{"order": order}, nil
}

// events simulates the kernels of an input.
func (in dispatchInput) events(o dispatch.Options) (*dispatch.Result, error) {
	m, err := in.machine()
	if err != nil {
		return nil, err
	}
	s := dispatch.Scenario{Machine: m, Options: o}
	// Kernels of one ACE are taken in the order of arrival, then of creation.
	byACE := map[int][]eventKernel{}
	for _, k := range in.Kernels {
		byACE[k.ACE] = append(byACE[k.ACE], k)
	}
	for _, a := range slices.Sorted(maps.Keys(byACE)) {
		list := byACE[a]
		slices.SortStableFunc(list, func(x, y eventKernel) int { return x.Arrive - y.Arrive })
		q := dispatch.Queue{Name: fmt.Sprint("q", a), ACE: a}
		for _, x := range list {
			mask, err := seMask(m, x.Mask)
			if err != nil {
				return nil, err
			}
			k := &dispatch.Kernel{Name: x.Name, Blocks: x.Blocks, Threads: x.Threads, Mask: mask, Times: x.Times, VGPRs: x.VGPRs, LDS: x.LDS}
			if len(x.Ticks) > 0 && json.Unmarshal(x.Ticks, &k.Ticks) != nil {
				if err := json.Unmarshal(x.Ticks, &k.Times); err != nil {
					return nil, err
				}
			}
			q.Commands = append(q.Commands, dispatch.Command{Kernel: k, Arrive: x.Arrive})
		}
		s.Queues = append(s.Queues, q)
	}
	return dispatch.Run(s)
}

var startedBefore = regexp.MustCompile(`^(.*)_blocks_started_before_t(\d+)$`)

func dispatchEvents(in dispatchInput, expect map[string]json.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	usual := dispatch.Options{Skip: in.Skip, NoCut: in.Cutting != nil && !*in.Cutting}
	// measure answers a key about one kernel, such as victim_finish.
	measure := func(key string, o dispatch.Options) (any, error) {
		r, err := in.events(o)
		if err != nil {
			return nil, err
		}
		if key == "ticks" || key == "makespan" {
			return r.Ticks, nil
		}
		if m := startedBefore.FindStringSubmatch(key); m != nil {
			if run := r.Find(m[1]); run != nil {
				t, err := strconv.Atoi(m[2])
				if err != nil {
					return nil, err
				}
				list := []int{}
				for i, b := range run.Blocks {
					if b.Start >= 0 && int(b.Start) < t {
						list = append(list, i)
					}
				}
				return list, nil
			}
		}
		i := strings.LastIndexByte(key, '_')
		if i < 0 {
			return nil, nil
		}
		run := r.Find(key[:i])
		if run == nil {
			return nil, nil
		}
		switch key[i+1:] {
		case "finish", "end", "ends":
			return run.Finish, nil
		case "start":
			return run.Start, nil
		case "starts":
			var list []int
			for _, b := range run.Blocks {
				list = append(list, int(b.Start))
			}
			return list, nil
		case "finishes":
			var list []int
			for _, b := range run.Blocks {
				list = append(list, int(b.Finish))
			}
			return list, nil
		}
		return nil, nil
	}
	for key, raw := range expect {
		o, name := usual, key
		for _, v := range []struct {
			suffix string
			change func(*dispatch.Options)
		}{
			{"_if_dealer_could_skip", func(o *dispatch.Options) { o.Skip = true }}, {"_skip", func(o *dispatch.Options) { o.Skip = true }},
			{"_without_cutting", func(o *dispatch.Options) { o.NoCut = true }}, {"_no_cutting", func(o *dispatch.Options) { o.NoCut = true }},
			{"_no_cut", func(o *dispatch.Options) { o.NoCut = true }}, {"_with_cutting", func(o *dispatch.Options) { o.NoCut = false }}, {"_cutting", func(o *dispatch.Options) { o.NoCut = false }},
		} {
			if s, ok := strings.CutSuffix(name, v.suffix); ok {
				name = s
				v.change(&o)
				break
			}
		}
		// A variant may also be an object of measures.
		var nested map[string]json.RawMessage
		if json.Unmarshal(raw, &nested) == nil && nested != nil {
			switch strings.ReplaceAll(key, "-", "_") {
			case "cutting", "with_cutting", "cut":
				o.NoCut = false
			case "no_cutting", "without_cutting", "no_cut":
				o.NoCut = true
			case "skip", "dealer_may_skip":
				o.Skip = true
			default:
				continue
			}
			got := map[string]any{}
			for k := range nested {
				v, err := measure(k, o)
				if err != nil {
					return nil, err
				}
				if v == nil {
					return nil, fmt.Errorf("%s.%s cannot be checked", key, k)
				}
				got[k] = v
			}
			out[key] = got
			continue
		}
		v, err := measure(name, o)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[key] = v
		}
	}
	return out, nil
}

func dispatchProgress(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var cases []struct {
		Blocks int
		Waits  map[int][]int
	}
	if err := json.Unmarshal(in.Cases, &cases); err != nil {
		return nil, err
	}
	if in.Capacity < 1 || in.Capacity > 1<<10 {
		return nil, fmt.Errorf("a unit for %d blocks", in.Capacity)
	}
	m := dispatch.Machine{SEs: 1, CUs: 1, CU: dispatch.CU{SIMDs: 1, Waves: in.Capacity, Wave: 64}}
	out := []string{}
	for _, c := range cases {
		r, err := alone(m, dispatch.Kernel{Name: "k", Blocks: c.Blocks, Threads: 64, Ticks: 1, Waits: c.Waits}, dispatch.Options{})
		if err != nil {
			return nil, err
		}
		if r.Deadlock != nil {
			out = append(out, "deadlock")
		} else {
			out = append(out, "completes")
		}
	}
	return map[string]any{"outcome": out}, nil
}

// ints reads a number or a list of them.
func ints(raw json.RawMessage) ([]int, error) {
	if len(raw) == 0 {
		return []int{0}, nil
	}
	var n int
	if json.Unmarshal(raw, &n) == nil {
		return []int{n}, nil
	}
	var list []int
	err := json.Unmarshal(raw, &list)
	return list, err
}

func cuOccupancy(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	vgprs, err := ints(in.VGPRs)
	if err != nil {
		return nil, err
	}
	lds, err := ints(in.LDS)
	if err != nil {
		return nil, err
	}
	c := dispatch.CU{SIMDs: in.SIMDs, Waves: cmp.Or(in.MaxWaves, in.PerSIMD), Wave: in.Wave, VGPRs: in.SIMDVGPRs, VGPRGranule: in.Granule, LDS: in.LDSTotal, LDSGranule: in.LDSGranule}
	var perSIMD, byWaves, byLDS, blocks, waves []int
	for _, v := range vgprs {
		perSIMD = append(perSIMD, c.WavesPerSIMD(v))
	}
	for _, size := range cmpList(in.BlockSizes, []int{in.Threads}) {
		for _, v := range vgprs {
			for _, l := range lds {
				o := c.Occupancy(size, v, l)
				byWaves, byLDS, blocks, waves = append(byWaves, o.ByWaves), append(byLDS, o.ByLDS), append(blocks, o.Blocks), append(waves, o.Waves)
			}
		}
	}
	limit := c.Occupancy(2*cmp.Or(in.Wave, 64), 0, 0).ByGroups
	return map[string]any{"waves_per_simd": perSIMD, "threads_per_cu": c.Threads(), "blocks_by_waves": byWaves, "blocks_by_lds": byLDS, "blocks": blocks, "waves": waves, "blocks_limit_multiwave": limit}, nil
}

func cmpList(a, b []int) []int {
	if a != nil {
		return a
	}
	return b
}
