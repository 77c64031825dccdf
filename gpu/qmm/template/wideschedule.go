package template

import "fmt"

// WideSchedule is how [Wide] cuts a product. Zero fields take defaults.
type WideSchedule struct {
	// Rows of x that a block multiplies: 8 to 256, a power of two; the most that fits the
	// registers, up to 64, by default. They are the columns of matrix instructions.
	Rows int
	// Consumers are the warpgroups that multiply, each with 64 outputs for each of the
	// plan's tiles; 2 by default, at most 2.
	Consumers int
	// Sides is how many times as many outputs a warpgroup multiplies with the same rows of
	// x: 1, the default, 2 or 4. While the product of one side runs, the weights of
	// the next are cast.
	Sides int
	// Parts is among how many warpgroups the tiles of a plan with several are dealt out, so
	// that sums of more rows of x fit the registers of each: 1, the default, as many as
	// Consumers, or a multiple, which are those of as many blocks. All of them read the same
	// weights, and cast what is theirs. It needs groups, and blocks that neither stay nor share
	// all turns.
	Parts int
	// Stages are how many turns of weights and x shared memory holds; 3 by default.
	Stages int
	// Cluster is how many blocks, of neighbouring outputs, bring x to each other: 1, the
	// default, 2 or 4.
	Cluster int
	// Splits is how many blocks share the k of the same outputs; 1 by default. Without
	// Persistent only.
	Splits int
	// Persistent has blocks go on to further tiles of the product: as many blocks as
	// parameter P says, a multiple of Cluster.
	Persistent bool
	// Blocks, if not 0, is how many blocks share the turns of all tiles evenly, whatever
	// tiles they belong to; sums that several blocks come to are added up by the last of
	// them. Without Persistent, with 1 split and a Cluster of 1.
	Blocks int
	// Fine makes products of one tile each, which go on from turn to turn: for groups of
	// multiples of 128, and an even number of tiles and sides together, or folded scales and neither Parts nor halves of the rows.
	Fine bool `json:",omitempty"`
	// Whole multiplies all rows of x by one product, where else two have half of them each.
	Whole bool `json:",omitempty"`
	// Once writes the turn down once where products hang over from turn to turn, for which drivers need less
	// time: else the last turn of a tile is there a second time. With it that turn begins products in vain, see
	// [wide.unused]. Blocks that stay or share all turns take it with Fine only, and folded scales never.
	Once bool `json:",omitempty"`
	// Joint, beside Splits of 2 to 8 and a Cluster of 1, makes the blocks of a split a cluster, as
	// [Schedule.Joint].
	Joint bool `json:",omitempty"`
	// Staged has results meet in shared memory and leave from there by rows of y, 16 bytes of a thread at a
	// time: matrix instructions give a thread results that lie in as many rows, and that it can only store
	// one by one. So programs have fewer instructions, and memory is written in whole pieces. Results of Parts always do.
	Staged bool `json:",omitempty"`
	// Folded multiplies operands with the scales of groups of whole turns, so that all k of an output have one sum, which leaves
	// registers for twice as many rows of x, and nothing is to do for each of them at the end of a group. It is for layers whose
	// weights the type of the activations holds as they are, with scales within the bounds of [Plan.Folding], and sums of at most
	// [MostFolded] k ([WideSchedule.OneSum]), beyond which products may be less exact than sums in f32.
	Folded bool `json:",omitempty"`
	// AddBias and AddResidual are as in [Schedule].
	AddBias, AddResidual bool
}

func (s WideSchedule) String() string {
	out := fmt.Sprintf("%d rows, %d×%d warpgroups, %d stages", s.Rows, s.Consumers, s.Sides, s.Stages)
	if s.Fine {
		out += ", by tiles"
	}
	if s.Whole {
		out += ", all rows at once"
	}
	if s.Once {
		out += ", one copy"
	}
	if s.Staged {
		out += ", results by rows"
	}
	if s.Folded {
		out += ", folded scales"
	}
	if s.Parts > 1 {
		out += fmt.Sprintf(", tiles in %d parts", s.Parts)
	}
	if s.Cluster > 1 {
		out += fmt.Sprintf(", clusters of %d", s.Cluster)
	}
	if s.Splits > 1 {
		out += fmt.Sprintf(", k/%d", s.Splits)
		if s.Joint {
			out += " by clusters"
		}
	}
	if s.Blocks > 0 {
		out += fmt.Sprintf(", %d blocks share all", s.Blocks)
	}
	return out
}

// Fits reports how many rows of x a block of [Wide] can multiply at most: sums of a
// group and of the output are in registers.
func (p *Plan) Fits() int { return p.Most(WideSchedule{}) }

// Most is how many rows of x a block of a schedule can multiply at most: fewer than
// [Plan.Fits] for many sides, and where shifted codes of many tiles leave few registers.
func (p *Plan) Most(s WideSchedule) int {
	p = p.ofWide(s)
	sets := max(1, s.Sides)
	if p.summed() > 0 {
		sets *= 2
	}
	rows := maxRows
	for rows > 8 && sets*p.own(s)*rows/2 > 128 {
		rows /= 2
	}
	if s.Persistent && p.Shifts() && p.Tiles >= 4 {
		rows /= 2
	}
	return max(8, rows)
}

// own is how many of a plan's tiles a warpgroup multiplies.
func (p *Plan) own(s WideSchedule) int { return max(1, p.Tiles/max(1, s.Parts)) }

// Shifts reports whether codes stand for values beside them when they are multiplied, so
// that sums of x are needed.
func (p *Plan) Shifts() bool { return p.Rest() || p.Bias > 0 && !p.LessBias }

// Sums reports whether programs of the schedule take sums of x.
func (s WideSchedule) Sums(p *Plan) bool { return p.ofWide(s).Shifts() }

// maxShared is what a block of Hopper may have, with room for barriers.
const maxShared = 227<<10 - 512

// Filled takes defaults for zero fields and checks the others.
func (s WideSchedule) Filled(p *Plan) (WideSchedule, error) {
	if s.Folded && p.Folding() == nil {
		return s, fmt.Errorf("template: folded scales for %s, scales of %s, groups of %d and activations of %s: they are of the type of the activations, without a factor, in groups of multiples of %d, no sums of x take zero points off, and casts leave no powers of two too far apart; leave Folded out", p.Weight, p.Scale, p.Group, p.Act, Turn)
	}
	p = p.ofWide(s)
	most := p.Most(s)
	if s.Consumers == 0 {
		s.Consumers = 2
	}
	for _, f := range []struct {
		name          string
		value         *int
		usual, lo, hi int
	}{
		{"rows", &s.Rows, min(64, most), 8, most}, {"consumers", &s.Consumers, 2, 1, 2}, {"parts", &s.Parts, 1, 1, p.Tiles}, {"sides", &s.Sides, 1, 1, 4}, {"stages", &s.Stages, max(3, s.leastStages(p)), s.leastStages(p), 8}, {"cluster", &s.Cluster, 1, 1, 4}, {"splits", &s.Splits, 1, 1, MaxSplits},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < f.lo || *f.value > f.hi {
			return s, fmt.Errorf("template: %s %d is not from %d to %d", f.name, *f.value, f.lo, f.hi)
		}
	}
	s.Staged = s.Staged || s.Parts > 1
	w := wide{decoder: &decoder{Plan: p, Schedule: Schedule{Warps: s.units(), Sides: s.Sides}}, s: s}
	switch {
	case s.Rows&(s.Rows-1)+s.Cluster&(s.Cluster-1)+s.Sides&(s.Sides-1) != 0 || s.Rows/s.Cluster < 8:
		return s, fmt.Errorf("template: %d rows, clusters of %d and %d sides: they are powers of two, and each block brings 8 rows at least", s.Rows, s.Cluster, s.Sides)
	case s.Blocks < 0 || s.Blocks > 4096 || s.Blocks > 0 && (s.Persistent || s.Splits > 1 || s.Cluster > 1):
		return s, fmt.Errorf("template: %d blocks share all turns: they are at most 4096, without clusters, splits and blocks that stay otherwise", s.Blocks)
	case s.Parts&(s.Parts-1) != 0 || s.Parts > 1 && (s.Parts%s.Consumers != 0 || p.Group == 0 || s.Persistent || s.Blocks > 0 || s.passes() > 1 && s.Cluster > 1):
		return s, fmt.Errorf("template: %d parts: they are as many as warpgroups, or a multiple without clusters, for weights with groups, and blocks that neither stay nor share all turns", s.Parts)
	case s.passes() > 1 && p.own(s) == 1 && s.Rows < 16:
		return s, fmt.Errorf("template: %d parts of %d rows: blocks of a part of the tiles store 16 rows at least; take 16, or %d parts", s.Parts, s.Rows, s.Consumers)
	case s.Stages < s.leastStages(p):
		return s, fmt.Errorf("template: %d stages: results of %d outputs take the place of x of %d", s.Stages, s.Outputs(p), s.leastStages(p))
	case s.Splits > 1 && s.Persistent:
		return s, fmt.Errorf("template: k is split between blocks that do not stay")
	case s.Joint && (s.Splits < 2 || s.Splits > MaxCluster || s.Cluster > 1):
		return s, fmt.Errorf("template: clusters of %d splits: they have 2 to %d, and bring no x to each other", s.Splits, MaxCluster)
	case s.Once && !p.repeats(s):
		return s, fmt.Errorf("template: one copy of the turn: programs by tiles take it, and blocks that neither stay nor share all turns, if products hang over into the next turn and scales are not folded")
	case s.Fine && p.fills(s) != nil:
		return s, p.fills(s)
	case s.Stages*w.bytes()+w.aside() > maxShared:
		return s, fmt.Errorf("template: %d stages of %d bytes and %d more do not fit shared memory", s.Stages, w.bytes(), w.aside())
	}
	return s, nil
}

// OneSum is how many of k inputs a block adds up in one sum with Folded, at most: those of its split.
func (s WideSchedule) OneSum(k int) int {
	return min(k, ceil(ceil(k, Turn), max(1, s.Splits))*Turn)
}

// Registers is how many each thread of a block begins with: an even share.
func (s WideSchedule) Registers() int { return min(248, 65536/(128*(s.Consumers+1))/8*8) }

// units is how many warps have weights of their own on each side.
func (s WideSchedule) units() int { return 4 * s.Consumers / max(1, min(s.Parts, s.Consumers)) }

// passes is among how many blocks the tiles of the same weights are dealt out.
func (s WideSchedule) passes() int { return max(1, s.Parts/max(1, s.Consumers)) }

// span is how many outputs the weights that a block reads are of.
func (s WideSchedule) span(p *Plan) int { return s.units() * s.Sides * p.Outputs() }

// Outputs of a block.
func (s WideSchedule) Outputs(p *Plan) int { return s.span(p) / s.passes() }

// Shares reports whether blocks add up what they came to by way of global memory, for which they need the
// [WideSchedule.Workspace].
func (s WideSchedule) Shares() bool { return s.Splits > 1 && !s.Joint || s.Blocks > 0 }

// Workspace is the shape of part, which holds sums of each split, or stretch, of each block
// as its threads have them, and how many counts arrived has.
func (s WideSchedule) Workspace(p *Plan, m, n int) (part []int, arrived int) {
	if s.Blocks > 0 {
		return []int{2 * s.Blocks, s.Rows * s.Outputs(p)}, ceil(n, s.Outputs(p)) * ceil(m, s.Rows)
	}
	blocks := ceil(n, s.span(p)*s.Cluster) * s.Cluster * s.passes() * ceil(m, s.Rows)
	return []int{s.Splits, blocks, s.Rows * s.Outputs(p)}, blocks
}
