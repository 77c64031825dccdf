package template

// Filled takes defaults for zero fields and checks the others.
func (s Schedule) Filled(p *Plan) (Schedule, error) { return s.fill(p) }

// Workspace is the shape of part and the length of arrived, with Splits > 1, of a
// schedule without zero fields.
func (s Schedule) Workspace(p *Plan, m, n int) (part []int, arrived int) {
	outputs := p.Outputs() * s.Warps * s.Sides
	blocks := ceil(n, outputs)
	return []int{s.Splits, m, blocks * outputs}, blocks * ceil(m, s.Rows)
}

// Pick is the schedule of a product x[M, K]·w[N, K]ᵀ on a machine, for any form and
// size.
//
// Where a layer has fewer warps than the machine holds, k is split among so many
// blocks that its loads keep the memory busy: about four times as many bytes under way
// as the machine's rate needs in the time of a turn.
func Pick(p *Plan, m, n, k int, on Machine) Schedule {
	s := Schedule{Rows: 8}
	for s.Rows < m && s.Rows < 32 {
		s.Rows *= 2
	}
	if p.Tiles*s.Rows > 64 {
		s.Rows = 8
	}
	s, err := s.fill(p)
	if err != nil {
		return Schedule{}
	}
	tile := float64(p.PackedShape(1, 1)[2] * s.Depth) // bytes that a warp has under way
	tiles := ceil(n, p.Outputs()) * ceil(m, s.Rows)
	turns := ceil(ceil(k, Turn), s.Depth)
	need := 4 * on.Rate * on.Turn / tile // warps of a multiprocessor
	room := float64(min(on.Warps, 16*12/max(p.Tiles*s.Depth, 6)))
	have := float64(tiles) / float64(on.SMs)
	for s.Splits*2 <= MaxSplits && float64(s.Splits)*have < min(need, room)/1.5 && turns/(s.Splits*2) >= 2 {
		s.Splits *= 2
	}
	if s.Splits > 1 {
		for s.Warps < 4 && tiles/(s.Warps*2)*s.Splits >= on.SMs {
			s.Warps *= 2
		}
	}
	return s
}
