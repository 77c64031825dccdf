package pane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

// maxFound is how many instructions of the catalogue are listed at once.
const maxFound = 24

func cataloguePane() Pane {
	families := []string{"any"}
	for _, a := range arch.Atoms() {
		if !slices.Contains(families, a.Family) {
			families = append(families, a.Family)
		}
	}
	slices.Sort(families[1:])
	return Pane{
		Name:  "catalogue",
		Title: "Instructions",
		Doc:   "The matrix and copy instructions of NVIDIA and AMD: where each thread holds which element. Search by words, choose a row to draw it; its operands are linked.",
		Params: []Param{
			{Name: "q", Title: "Search", Kind: Text, Default: "m16n8 f16", Hint: "m16n8k16 f16, ldmatrix, mfma bf16", Doc: "Words that must all stand in an instruction's names, types or first architecture."},
			{Name: "v", Title: "Vendor", Kind: Choice, Default: "any", Choices: []string{"any", "nvidia", "amd"}, Doc: "Whose instructions."},
			{Name: "f", Title: "Family", Kind: Choice, Default: "any", Choices: families, Doc: "Kind of instruction."},
			{Name: "i", Title: "Instruction", Kind: Text, Default: "", Hint: "the first that is found", Doc: "The one that is drawn, by any of its names: PTX's, CuTe's or AMD's."},
			{Name: "w", Title: "Narrow", Kind: Choice, Default: "yes", Choices: []string{"yes", "no"}, Doc: "What vendor, family, architecture and type can still be, with how many instructions: choose one."},
			{Name: "o", Title: "From", Kind: Slider, Default: "0", Min: 0, Max: 800, Doc: "Where the list begins."},
		},
		Render: renderCatalogue,
	}
}

func renderCatalogue(v Values) (Result, error) {
	q := arch.Query{Words: v["q"]}
	if v["v"] != "any" {
		q.Vendor = v["v"]
	}
	if v["f"] != "any" {
		q.Family = v["f"]
	}
	found := arch.Search(q)
	chosen, err := arch.Atom{}, error(nil)
	switch {
	case strings.TrimSpace(v["i"]) != "":
		if chosen, err = arch.FindAtom(strings.TrimSpace(v["i"])); err != nil {
			return Result{}, located(err, "i", v["i"])
		}
	case len(found) > 0:
		chosen = found[0]
	default:
		return Result{}, diag.List{{Pos: at("q"), Code: "Pane.E24", Msg: fmt.Sprintf("no instruction has all of the words %.60q", v["q"]), Help: "use fewer words, any vendor and any family"}}
	}
	from, err := strconv.Atoi(v["o"])
	if err != nil {
		return Result{}, err
	}
	from = max(0, min(from, len(found)-1))
	shown := found[from:min(len(found), from+maxFound)]
	var rows [][]string
	marked := -1
	for i, a := range shown {
		size := "copy"
		if a.M > 0 {
			size = fmt.Sprintf("%d×%d×%d", a.M, a.N, a.K)
		}
		if a.Blocks > 1 {
			size = fmt.Sprintf("%s, %d blocks", size, a.Blocks)
		}
		rows = append(rows, []string{a.Name, a.Family, size, fmt.Sprintf("%d lanes", a.Lanes), a.Since, strings.SplitN(checkedBy(a)[0], ", by ", 2)[0]})
		if a.Name == chosen.Name {
			marked = i
		}
	}
	out := Result{}
	if len(rows) > 0 {
		list, err := layoutviz.Rows(fmt.Sprintf("%d to %d of %d", from+1, from+len(shown), len(found)), []string{"instruction", "family", "size", "", "since", "checked by"}, rows, marked, v.look())
		if err != nil {
			return Result{}, err
		}
		for j := range list.IDs {
			list.IDs[j].Keys = nil // a row is no element
		}
		out.Pictures = append(out.Pictures, Picture{Name: "found", Picture: list}.going(func(e layoutviz.Element) Values {
			n, _ := strconv.Atoi(strings.TrimPrefix(e.ID, "row"))
			return Values{"i": shown[n].Name}
		}))
	}
	if v["w"] == "yes" {
		pic, err := facets(q, v.look())
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append(out.Pictures, pic)
	}
	pic, err := layoutviz.Atom(chosen, v.look())
	if err != nil {
		return Result{}, located(err, "i", v["i"])
	}
	out.Pictures = append(out.Pictures, Picture{Name: chosen.Name, Picture: pic})
	out.Sentence = pic.Desc
	var b strings.Builder
	fmt.Fprintf(&b, "names    %s\nsince    %s", strings.Join(chosen.Names(), ", "), chosen.Since)
	if len(chosen.Archs) > 0 {
		fmt.Fprintf(&b, ", only on %s", strings.Join(chosen.Archs, ", "))
	}
	fmt.Fprintf(&b, "\nsource   %s\nchecked  %s\n", chosen.Source, strings.Join(checkedBy(chosen), "\n         "))
	if chosen.Note != "" {
		fmt.Fprintf(&b, "note     %s\n", chosen.Note)
	}
	for _, o := range chosen.Operands {
		fmt.Fprintf(&b, "%-8s %s%s %s", o.Name, o.Type, extents(o.Shape), o.Layout)
		if o.In != arch.InRegisters {
			fmt.Fprintf(&b, " (%s)", o.In)
		}
		if o.CuTe != "" {
			fmt.Fprintf(&b, "\n         CuTe %s", o.CuTe)
		}
		b.WriteString("\n")
	}
	out.Text = b.String()
	return out, nil
}

// maxFacet is how many values of a facet are listed.
const maxFacet = 8

// facets lists what the choices can still be; choosing one narrows the search.
func facets(q arch.Query, o layoutviz.Options) (Picture, error) {
	var rows [][]string
	var leads []Values
	for _, f := range arch.Facets(q) {
		name := f.Name
		for i, x := range f.Values {
			if i == maxFacet {
				rows, leads = append(rows, []string{"", fmt.Sprintf("and %d more", len(f.Values)-i), ""}), append(leads, nil)
				break
			}
			to := Values{"q": strings.TrimSpace(q.Words + " " + x.Value), "i": "", "o": "0"}
			switch f.Name {
			case "vendor":
				to = Values{"v": x.Value, "i": "", "o": "0"}
				if q.Vendor == x.Value {
					to["v"] = "any"
				}
			case "family":
				to = Values{"f": x.Value, "i": "", "o": "0"}
				if q.Family == x.Value {
					to["f"] = "any"
				}
			}
			rows, leads = append(rows, []string{name, x.Value, fmt.Sprint(x.N)}), append(leads, to)
			name = ""
		}
	}
	list, err := layoutviz.Rows("Narrow the search", []string{"", "value", "instructions"}, rows, -1, o)
	for j := range list.IDs {
		list.IDs[j].Keys = nil
	}
	return Picture{Name: "narrow", Picture: list}.going(func(e layoutviz.Element) Values {
		n, _ := strconv.Atoi(strings.TrimPrefix(e.ID, "row"))
		return leads[n]
	}), err
}

// checkedBy names what the layouts of an instruction were checked against: recorded
// facts, or tests of gpu/arch.
func checkedBy(a arch.Atom) []string {
	list := slices.Clone(facts.CasesOf(a.Name))
	for i, test := range a.OracleTests() {
		by := "its shapes"
		if o := a.Oracles(); i < len(o) {
			by = o[i]
		}
		list = append(list, fmt.Sprintf("%s, by %s", by, test))
	}
	return list
}
