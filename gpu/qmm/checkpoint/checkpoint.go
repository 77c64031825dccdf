// Package checkpoint takes linear layers that others have quantised, from .safetensors and .gguf files, without rounding
// anything again: the [qmm.Weights] that it gives are exactly those that the format says. One number is rounded, since programs
// take it as f32: 1/weight_global_scale, by which compressed-tensors' NVFP4 multiplies.
//
// Formats are told from each other by the names, types and shapes of the arrays that a layer has; the table formats
// lists them, and [Formats] has their names. What is not certain is refused: the error says which file and layer, what was found there, and a way out.
// Scales of activations (input_scale and the like) are not read: x is multiplied as it is. A layer's bias is not of its weights: see [File.Bias].
package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// File is an open .safetensors file and what it has for layers.
type File struct {
	tensors store
	path    string
	index   string                   // that of the model whose file this may be, "" where none can be
	files   func() map[string]string // what it says: which file has an array
	config
	layers map[string]map[string]string // names of arrays, by what they are called in a layer
}

// store is where arrays are, as [array.Tensors] has them.
type store interface {
	Names() []string
	Head(name string) (typ string, shape []int, ok bool)
	Array(name string) (*array.Array, error)
	Part(name string, i int) (*array.Array, error)
	Close() error
}

// Split takes what names a layer off a text "FILE.safetensors:LAYER", "FILE.safetensors.index.json:LAYER" or "FILE.gguf:LAYER"; ok is false
// where it begins with no such file.
func Split(spec string) (path, name string, ok bool) {
	if path, name, ok = array.SplitTensors(spec); ok {
		return path, name, ok
	}
	if lower := strings.ToLower(spec); len(lower) == len(spec) {
		if strings.HasSuffix(lower, ggufSuffix) {
			return spec, "", true
		}
		if i := strings.Index(lower, ggufSuffix+":"); i >= 0 {
			return spec[:i+len(ggufSuffix)], spec[i+len(ggufSuffix)+1:], true
		}
	}
	return path, name, false
}

// Found is a quantised layer of a file.
type Found struct {
	Name    string     // as [File.Layer] takes it; of experts that are one array, without the expert's index
	Format  string     // the name of its format; of one that is nearly it where Err says so
	Experts int        // how many layers NAME[0], NAME[1], … there are; 0 for one layer NAME
	Kind    qmm.Linear // of the layer, or of the first expert
	Ordered bool       // its weights have an Order, as those of layers that are quantised with act-order
	Bias    string     // the type that the layer's bias is stored in, or the first expert's, "bf16"; "0" where all of it is 0; "" without one
	BiasErr error      // why [File.Bias] refuses it; the layer is read all the same
	Err     error      // why the layer is refused; what is read of weights only by [File.Layer] may refuse it too
}

// Open reads the header of a .safetensors or .gguf file, or those of the files that a .safetensors.index.json names, and whether GPTQ's zero points are stored less one from
// quantize_config.json or config.json in its directory, where there is one. Who asks for nothing more closes it.
func Open(path string) (*File, error) {
	if strings.HasSuffix(strings.ToLower(path), ggufSuffix) {
		g, err := openGGUF(path)
		if err != nil {
			return nil, err
		}
		return of(g, path, config{}), nil
	}
	t, err := array.OpenTensors(path)
	if err != nil {
		return nil, err
	}
	f := of(t, path, configured(filepath.Dir(path)))
	f.index = filepath.Join(filepath.Dir(path), indexFile)
	f.files = sync.OnceValue(f.readIndex)
	return f, nil
}

// Read is [Open] of size bytes of a .safetensors or .gguf file that are read from r, with the text of a quantize_config.json or config.json, or nil.
// Errors call them file.
func Read(r io.ReaderAt, size int64, file string, config []byte) (*File, error) {
	if isGGUF(r) {
		g, err := readGGUF(r, size, file)
		if err != nil {
			return nil, err
		}
		return of(g, file, configOf(nil)), nil
	}
	t, err := array.ReadTensors(r, size, file)
	if err != nil {
		return nil, err
	}
	return of(t, file, configOf(config)), nil
}

func of(t store, path string, c config) *File {
	f := &File{tensors: t, path: path, config: c, layers: map[string]map[string]string{}}
	for _, name := range t.Names() {
		layer, member := split(name)
		if f.layers[layer] == nil {
			f.layers[layer] = map[string]string{}
		}
		f.layers[layer][member] = name
	}
	return f
}

// split is the layer that an array belongs to, and what it is called there.
func split(name string) (layer, member string) {
	for _, m := range []string{"_blocks", "_scales"} {
		if layer, ok := strings.CutSuffix(name, m); ok {
			return layer, m
		}
	}
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)], name[i+1:]
}

// Close closes the file.
func (f *File) Close() error { return f.tensors.Close() }

// Layer reads one layer of what [Open] takes; see [File.Layer].
func Layer(path, name string) (*qmm.Weights, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Layer(name)
}

// Layer reads one layer, "model.layers.0.mlp.down_proj"; of experts that are one array one of them, "NAME[5]". The name
// may be "" where the file has one layer. Its weights are Valid; x and y are bf16 where scales are, and beside scales of 8 bits or one for
// all, which tell nothing of them, where its bias is; else f16. Those of layers that are quantised with act-order (desc_act), whose groups'
// inputs are no neighbours, have an Order. What the layer adds to each output is [File.Bias].
func (f *File) Layer(name string) (*qmm.Weights, error) {
	s, err := f.source(name)
	if err != nil {
		return nil, err
	}
	return s.weights()
}

// Plain finds weights that are none: where a text names an array of a file, "model.safetensors:NAME", that has codes of a quantised layer,
// whose scales are another array, the error says so and how to take the layer. Of any other text it is nil.
func Plain(spec string) error {
	path, name, ok := Split(spec)
	if !ok {
		return nil
	}
	f, err := Open(path)
	if err != nil {
		return nil // who reads the array says why
	}
	defer f.Close()
	if !f.coded(name) {
		return nil
	}
	layer, _ := split(name)
	if layer != "" {
		layer = ":" + layer
	}
	if strings.HasSuffix(strings.ToLower(path), ggufSuffix) {
		return fmt.Errorf("%s is blocks of a quantised layer; take the layer as it is stored: --checkpoint %s%s, in a cell lab.Checkpoint", spec, path, layer)
	}
	return fmt.Errorf("%s has codes of a quantised layer, without its scales; take the layer as it is stored: --checkpoint %s%s, in a cell lab.Checkpoint", spec, path, layer)
}

// coded reports whether an array has the codes of a layer: what its format is known by, beside another array of that, which may be in another of the model's files.
func (f *File) coded(name string) bool {
	layer, known := split(name)
	arrays := f.layers[layer]
	return slices.ContainsFunc(formats, func(fm format) bool {
		return fm.arrays[0].name == known && f.has(arrays, fm.arrays[0]) && (len(fm.arrays) == 1 || slices.ContainsFunc(fm.arrays[1:], func(m member) bool {
			return arrays[m.name] != "" || f.elsewhere(strings.TrimSuffix(name, known)+m.name) != ""
		}))
	})
}

// Format is the name of a layer's format, one of [Formats].
func (f *File) Format(name string) (string, error) {
	s, err := f.source(name)
	if err != nil {
		return "", err
	}
	return s.format.name, nil
}

// As is the same weights with another type of x and y, f16, which 0 is too, or bf16.
func As(w *qmm.Weights, act dtype.Type) (*qmm.Weights, error) {
	if w == nil {
		return nil, errors.New("checkpoint: no weights, but nil, to give another type of x and y; Layer reads some")
	}
	to := *w
	to.ActType = act
	l, err := to.Linear.Check()
	if err != nil {
		return nil, err
	}
	to.Linear = l
	if w.Zeros != nil { // whole numbers up to 256 both types hold
		to.Zeros = w.Zeros.Cast(l.ActType)
		for i := range w.Zeros.Len() {
			if is, was := to.Zeros.Type.Decode(to.Zeros.Code(i)), w.Zeros.Type.Decode(w.Zeros.Code(i)); is != was {
				return nil, fmt.Errorf("checkpoint: zero point %s is %v, and %s, the type that x and y are to have, would make it %v; leave them %s", shapeText([]int{i / w.N, i % w.N}), float32(was), l.ActType, float32(is), w.Zeros.Type)
			}
		}
	}
	return &to, to.Valid()
}

// Layers are the file's quantised layers, by name. Of each its header, scales and zero points are read; of .gguf files, which have scales
// between codes, the header.
func (f *File) Layers() []Found {
	var out []Found
	for _, name := range f.names() {
		found := Found{Name: name, Experts: f.experts(name)}
		first := name
		if found.Experts > 0 {
			first += "[0]"
		}
		s, err := f.source(first)
		if s != nil {
			found.Format = s.format.name
		}
		if err == nil {
			s.listing = true
			var w *qmm.Weights
			if w, err = s.weights(); err == nil {
				found.Kind, found.Ordered = w.Linear, w.Order != nil
				found.Bias, found.BiasErr = s.storedBias(w.N)
			}
		}
		found.Err = err
		out = append(out, found)
	}
	return out
}

// names are the layers that have what a format's first array is called and typed, or anything else that only
// quantised layers have.
func (f *File) names() (out []string) {
	for layer, arrays := range f.layers {
		quantised := slices.ContainsFunc(formats, func(fm format) bool { return f.has(arrays, fm.arrays[0]) }) || foreign(arrays) != ""
		if quantised {
			out = append(out, layer)
		}
	}
	slices.Sort(out)
	return out
}

// has reports whether a layer has an array of a format, of one of its types.
func (f *File) has(arrays map[string]string, m member) bool {
	typ, _, ok := f.tensors.Head(arrays[m.name])
	return ok && slices.Contains(m.types(), typ)
}

// experts is how many layers one array has; 0 for a layer of its own.
func (f *File) experts(layer string) int {
	for _, m := range []string{"_blocks", "blocks"} {
		if _, shape, ok := f.tensors.Head(f.layers[layer][m]); ok && len(shape) == 4 {
			return max(shape[0], 1)
		}
	}
	if typ, shape, ok := f.tensors.Head(f.layers[layer]["weight"]); ok && len(shape) == 3 && slices.Contains(strings.Fields(ggufNames(false)), typ) {
		return max(shape[0], 1)
	}
	return 0
}

var expertRE = regexp.MustCompile(`^(.+)\[([0-9]+)\]$`)

// source finds a layer, the only one where it has no name, and its format. Where no format is its own, the source beside the error has the nearest.
func (f *File) source(name string) (*source, error) {
	if name == "" {
		all := f.names()
		if len(all) == 0 {
			return nil, f.missing("", "")
		}
		if len(all) != 1 || f.experts(all[0]) > 0 {
			return nil, fmt.Errorf("checkpoint: %s has %d quantised layers, and none is named: write %s:LAYER%s", f.path, len(all), f.path, "; there are "+diag.Listed(all, mostNamed))
		}
		name = all[0]
	}
	layer, expert := name, -1
	if m := expertRE.FindStringSubmatch(name); f.layers[name] == nil && m != nil {
		i, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %s: %s: no layer has so many experts", f.path, name)
		}
		layer, expert = m[1], i
	}
	arrays := f.layers[layer]
	if arrays == nil {
		return nil, f.missing(name, layer)
	}
	count := f.experts(layer)
	s := &source{File: f, name: name, layer: layer, arrays: arrays, expert: expert}
	switch {
	case count > 0 && expert < 0:
		return nil, s.bad("it is %d experts: name one, %s[0] to %s[%d]", count, layer, layer, count-1)
	case count == 0 && expert >= 0:
		return nil, s.bad("%s is one layer, without experts; leave [%d] out", layer, expert)
	case expert >= count && count > 0:
		return nil, s.bad("there are the experts %s[0] to %s[%d]", layer, layer, count-1)
	}
	for _, fm := range formats {
		if s.is(fm) {
			s.format = fm
			return s, nil
		}
	}
	return s, s.none()
}

// missing is the error of a name that no layer has.
func (f *File) missing(name, layer string) error {
	all := f.names()
	if len(all) == 0 {
		return fmt.Errorf("checkpoint: %s has no quantised layers; quantise plain weights %s", f.path, f.byKind("NAME"))
	}
	help := "; there are " + diag.Listed(all, mostNamed)
	var of []string
	for _, n := range all { // a layer's name often lacks what model its layers are of, or is that of its array
		if strings.Contains(n, layer) || strings.HasPrefix(layer, n+".") || layer == n+"_blocks" || layer == n+"_scales" {
			of = append(of, n)
		}
	}
	if near := diag.Suggest(layer, all); near != "" {
		help = "; did you mean " + near + "?"
	} else if len(of) > 0 {
		help = "; did you mean " + diag.Listed(of, mostNamed) + "?"
	}
	return fmt.Errorf("checkpoint: %s has no layer %s%s", f.path, name, help)
}

// mostNamed is how many names an error lists.
const mostNamed = 6

// zeroFormat is how a checkpoint says that GPTQ's zero points are stored.
type zeroFormat int

const (
	unsaid    zeroFormat = iota
	lessOne              // "gptq", and where a configuration of GPTQ says nothing
	asTheyAre            // "gptq_v2"
	planar               // "gptq_p", whose codes of 3 bits are in another order
)

// maxConfig is how many bytes of a configuration are read.
const maxConfig = 4 << 20

// config is what configurations say.
type config struct {
	zeros zeroFormat
	block [2]int // outputs and inputs that share a scale; 0 where none says
	quark
	fault string // of a file that is there and is no configuration
}

// quark is what configurations of Quark say of weights, of all layers together.
type quark struct {
	six  struct{ e2m3, e3m2 bool } // types of six bits that there are
	e5m3 bool                      // there are scales of that type, which are bytes as those of e8m0
}

// configured is what the configurations in a directory say; of those that cannot be read it is what is wrong with the first.
func configured(dir string) (out config) {
	for _, name := range []string{"quantize_config.json", "config.json"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, maxConfig))
		file.Close()
		if err != nil {
			continue
		}
		c := configOf(text)
		if out.fault == "" && c.fault != "" {
			out.fault = fmt.Sprintf("%s beside the file cannot be read: %s; mend it", name, c.fault)
		}
		if out.zeros == unsaid {
			out.zeros = c.zeros
		}
		if out.block == [2]int{} {
			out.block = c.block
		}
		if out.quark == (quark{}) {
			out.quark = c.quark
		}
	}
	return out
}

// indexFile says which file of a model has which array.
const indexFile = "model.safetensors.index.json"

// maxIndex is how many bytes of it are read beside a file that is opened alone.
const maxIndex = 64 << 20

// elsewhere is the file of the model that has an array which this one lacks; "" where none says so.
func (f *File) elsewhere(name string) string {
	if f.files == nil {
		return ""
	}
	return f.files()[name]
}

// readIndex is what the index beside the file says; nothing where there is none, or it cannot be read.
func (f *File) readIndex() map[string]string {
	file, err := os.Open(f.index)
	if err != nil {
		return nil
	}
	defer file.Close()
	var of struct {
		Files map[string]string `json:"weight_map"`
	}
	if json.NewDecoder(io.LimitReader(file, maxIndex)).Decode(&of) != nil {
		return nil
	}
	return of.Files
}

// said is quantize_config.json, or a part of config.json.
type said struct {
	Bits       *float64 `json:"bits"`
	Method     string   `json:"quant_method"`
	Checkpoint string   `json:"checkpoint_format"`
	Format     string   `json:"format"`
	Block      []int    `json:"weight_block_size"`
	Global     any      `json:"global_quant_config"`
	Layers     any      `json:"layer_quant_config"`
	Types      any      `json:"layer_type_quant_config"`
	Groups     map[string]struct {
		Weights struct {
			Block []int `json:"block_structure"`
		} `json:"weights"`
	} `json:"config_groups"`
}

// configOf is what the text of a configuration says.
func configOf(text []byte) config {
	var c struct {
		said
		Of *said `json:"quantization_config"`
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return config{}
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return config{fault: err.Error()}
	}
	of := c.said
	if c.Of != nil {
		of = *c.Of
	}
	out := config{zeros: of.zeros(), block: of.blocks()}
	for _, part := range []any{of.Global, of.Layers, of.Types} {
		out.weights(part)
	}
	return out
}

// weights finds what a part of Quark's configuration says of weights: objects beneath "weight", or lists of these.
func (q *quark) weights(part any) {
	object, _ := part.(map[string]any)
	for key, in := range object {
		if key != "weight" {
			q.weights(in)
			continue
		}
		all, ok := in.([]any)
		if !ok {
			all = []any{in}
		}
		for _, one := range all {
			of, _ := one.(map[string]any)
			switch of["dtype"] {
			case "fp6_e2m3":
				q.six.e2m3 = true
			case "fp6_e3m2":
				q.six.e3m2 = true
			}
			q.e5m3 = q.e5m3 || of["scale_format"] == "e5m3"
		}
	}
}

// blocks are outputs and inputs that share a scale, if one size is said.
func (of said) blocks() (out [2]int) {
	all := [][]int{of.Block}
	for _, g := range of.Groups {
		all = append(all, g.Weights.Block)
	}
	for _, b := range all {
		if len(b) != 2 {
			continue
		}
		if out != [2]int{} && out != [2]int(b) {
			return [2]int{}
		}
		out = [2]int(b)
	}
	return out
}

func (of said) zeros() zeroFormat {
	said := of.Checkpoint
	if said == "" {
		said = of.Format
	}
	switch {
	case said == "gptq":
		return lessOne
	case said == "gptq_v2":
		return asTheyAre
	case said == "gptq_p":
		return planar
	case said == "" && of.Bits != nil && (of.Method == "gptq" || of.Method == ""): // AutoGPTQ names no format
		return lessOne
	}
	return unsaid
}
