package conform

import (
	"cmp"
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
	raw := in.Mask
	if len(raw) == 0 {
		raw = in.SEMask
	}
	mask, err := seMask(m, raw)
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
	if in.ACEs < 0 || in.ACEs > dispatch.MaxACEs {
		return nil, fmt.Errorf("%d ACEs; there are up to %d", in.ACEs, dispatch.MaxACEs)
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
	raw := in.LDS
	if len(in.BlockLDS) > 0 {
		raw = in.BlockLDS
	}
	lds, err := ints(raw)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Concat(vgprs, lds, in.BlockSizes, []int{in.SIMDs, in.MaxWaves, in.PerSIMD, in.Wave, in.SIMDVGPRs, in.Granule, in.LDSTotal, in.LDSGranule, in.Threads}) {
		if n < 0 || n > 1<<30 {
			return nil, fmt.Errorf("%d is no number of units, registers, bytes or threads", n)
		}
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
