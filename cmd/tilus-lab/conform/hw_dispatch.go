package conform

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	Packet, Object, Field string
	Type, Barrier         json.RawMessage
	Acquire, Release      json.RawMessage
	Header                json.RawMessage
	Headers, Values       []json.RawMessage
	Setup                 *int
	Workgroup             []int
	Grid                  []int
	Private, Group        uint32
	KernelObject          string `json:"kernel_object"`
	Kernarg               string
	Completion            string          `json:"completion_signal"`
	Deps                  json.RawMessage `json:"dep_signals"`
	DepSignal             json.RawMessage `json:"dep_signal"`
	Dependencies          json.RawMessage
	AgentType             uint16 `json:"agent_type"`
	ReturnAddress         string `json:"return_address"`
	Args                  []json.RawMessage
	Signal, Value         json.RawMessage
	Cond                  json.RawMessage
	QueueSize             int `json:"queue_size"`
	Packets               []orderPacket
	SignalValues          map[string]int64 `json:"signals"`

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
	BlockLDS   json.RawMessage `json:"block_lds"`
	SEMask     json.RawMessage `json:"se_mask"`
	LDSTotal   int             `json:"lds_bytes"`
	LDSGranule int             `json:"lds_granule"`
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
			if !reflect.DeepEqual(g[i], w[i]) && !sameHex("", g[i], w[i]) {
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
	if in.MaxHW < 0 {
		return nil, fmt.Errorf("%d hardware queues", in.MaxHW)
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
	// Masks are made before a scenario is checked.
	for _, n := range []int{m.SEs, m.CUs, m.Dies} {
		if n < 0 || n > dispatch.MaxSEs {
			return m, fmt.Errorf("%d engines, units or dies; there may be up to %d", n, dispatch.MaxSEs)
		}
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
	if in.NumXCC < 1 {
		return nil, fmt.Errorf("%d dies", in.NumXCC)
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

// mostQueues bounds the queues of a GPU, which are counted one by one.
const mostQueues = 1 << 16

func (in dispatchInput) hardware() (dispatch.Hardware, error) {
	for _, n := range []int{in.MECs, in.Pipes, in.PerPipe, in.HQDs, in.MaxProc} {
		if n < 0 || n > mostQueues {
			return dispatch.Hardware{}, fmt.Errorf("%d engines, pipes, queues or processes; there may be up to %d", n, mostQueues)
		}
	}
	h := dispatch.Hardware{MECs: in.MECs, Pipes: in.Pipes, QueuesPerPipe: in.PerPipe, MaxProcesses: in.MaxProc}
	if in.KernelQ != nil {
		h.Kernel = *in.KernelQ
		if h.Kernel == 0 {
			h.Kernel = -1
		}
	}
	if h.Total() > mostQueues {
		return h, fmt.Errorf("%d queues; there may be up to %d", h.Total(), mostQueues)
	}
	return h, nil
}

func kfdQueues(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	h, err := in.hardware()
	if err != nil {
		return nil, err
	}
	fit := 0
	for !h.Oversubscribed(0, (fit+1)*dispatch.MaxHWQueues, 0) {
		fit++
	}
	return map[string]any{"hqds_total": h.Total(), "hqds_for_user_queues": h.User(), "processes_with_4_queues_before_oversubscription": fit}, nil
}

func kfdRunlist(in dispatchInput, _ map[string]json.RawMessage) (map[string]any, error) {
	h, err := in.hardware()
	if err != nil {
		return nil, err
	}
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
