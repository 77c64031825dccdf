package linear

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// constructor is a layout of Gluon, Triton's lower-level language, and the
// encoding that it stands for. Each parameter is its name in Python and in MLIR.
type constructor struct {
	encoding string
	params   [][2]string
}

// Parameters that most constructors end with.
var clusterParams = [][2]string{{"cga_layout", "CGALayout"}, {"ctas_per_cga", "CTAsPerCGA"}, {"cta_split_num", "CTASplitNum"}, {"cta_order", "CTAOrder"}}

// constructors are the layouts of Gluon.
//
// Source: triton-lang/triton, python/triton/experimental/gluon/language/_layouts.py.
var constructors = map[string]constructor{
	"BlockedLayout": {"blocked", append([][2]string{{"size_per_thread", "sizePerThread"}, {"threads_per_warp", "threadsPerWarp"},
		{"warps_per_cta", "warpsPerCTA"}, {"order", "order"}}, clusterParams...)},
	"SliceLayout":             {"slice", [][2]string{{"dim", "dim"}, {"parent", "parent"}}},
	"DotOperandLayout":        {"dot_op", [][2]string{{"operand_index", "opIdx"}, {"parent", "parent"}, {"k_width", "kWidth"}}},
	"NVMMADistributedLayout":  {"nvidia_mma", append([][2]string{{"version", "versionMajor"}, {"warps_per_cta", "warpsPerCTA"}, {"instr_shape", "instrShape"}}, clusterParams...)},
	"DistributedLinearLayout": {"linear", [][2]string{{"reg_bases", Register}, {"lane_bases", Lane}, {"warp_bases", Warp}, {"block_bases", Block}, {"shape", "shape"}}},
	"SwizzledSharedLayout": {"swizzled_shared", append([][2]string{{"vec", "vec"}, {"per_phase", "perPhase"}, {"max_phase", "maxPhase"},
		{"order", "order"}}, clusterParams...)},
	"NVMMASharedLayout": {"nvmma_shared", append([][2]string{{"swizzle_byte_width", "swizzlingByteWidth"}, {"element_bitwidth", "elementBitWidth"},
		{"rank", "rank"}, {"transposed", "transposed"}, {"fp4_padded", "fp4Padded"}}, clusterParams...)},
}

// Constructors names the layouts of Gluon that [ParseTriton] reads, in
// alphabetical order.
func Constructors() []string {
	var names []string
	for n := range constructors {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// atConstructor reports whether a call of a constructor stands here.
func (p *parser) atConstructor() bool {
	return p.tok.kind == 'w' && p.peekSign("(") && !strings.HasPrefix(p.word(), "#")
}

// construct reads a call such as BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]).
func (p *parser) construct() *attribute {
	p.enter()
	defer p.leave()
	at := p.tok
	word := p.name("a layout such as BlockedLayout")
	name := word[strings.LastIndexByte(word, '.')+1:]
	c, ok := constructors[name]
	if !ok {
		p.problem(at, eEncoding, diag.DidYouMean(name, Constructors()), "there is no layout %s", word)
	}
	p.next() // (
	a := &attribute{name: c.encoding, at: at}
	for i := 0; !p.is(")"); i++ {
		f := field{at: p.tok}
		if p.tok.kind == 'w' && p.peekSign("=") {
			key := p.word()
			k := slices.IndexFunc(c.params, func(q [2]string) bool { return q[0] == key })
			if k < 0 {
				var known []string
				for _, q := range c.params {
					known = append(known, q[0])
				}
				p.problem(p.tok, eEncoding, diag.DidYouMean(key, known), "%s has no parameter %s", name, key)
			}
			p.next()
			p.next()
			f.name = c.params[k][1]
		} else {
			if i >= len(c.params) {
				p.problem(p.tok, eEncoding, "", "%s has too many arguments", name)
			}
			f.name = c.params[i][1]
		}
		f.value = p.value(nil)
		switch x := f.v.(type) {
		case string: // Python's spelling
			f.v = strings.ToLower(x)
		case []value:
			if f.name == "versionMajor" {
				if len(x) == 0 {
					p.problem(f.value.at, eEncoding, "", "version is a list of two numbers")
				}
				f.v = x[0].v
			}
		}
		if _, twice := a.get(f.name); twice {
			p.problem(f.at, eEncoding, "", "an argument of %s is given twice", name)
		}
		if f.v != "none" {
			a.fields = append(a.fields, f)
		}
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect(")", "to close "+name+"(")
	return a
}
