package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// planKinds are the kinds about what is decided once layouts are known: places in
// shared memory, schedules to try, sizes that share a tuning record.
func planKinds() []Kind {
	return []Kind{
		question("ldmatrix_bank_degree", "bank conflicts of ldmatrix on a tile", ldmatrixDegree),
		question("smem_alloc", "addresses of tiles in shared memory", placeShared),
		question("span_space", "all schedules of a space", func(in struct{ Space json.RawMessage }) (map[string]any, error) {
			space, err := readSpace(in.Space)
			if err != nil {
				return nil, err
			}
			all, err := tune.Span(space)
			return map[string]any{"value": append([]tune.Schedule{}, all...)}, err // a space without schedules is [], not null
		}),
		question("tuning_key", "which sizes share a tuning record", func(in struct{ Value int64 }) (map[string]any, error) {
			k, err := tune.KeyOf(in.Value)
			if err != nil {
				return nil, err
			}
			return map[string]any{"bucket": k.Bucket, "divisibility_key": k.Divisor}, nil
		}),
	}
}

// placeShared runs ["a", name, bytes, alignment] and ["f", name].
func placeShared(in struct{ Ops [][]any }) (map[string]any, error) {
	var plan shared.Plan
	addresses := [][]any{}
	for _, op := range in.Ops {
		word := func(i int) string { s, _ := op[i].(string); return s }
		number := func(i int) int { n, _ := op[i].(float64); return int(n) }
		switch {
		case len(op) == 4 && word(0) == "a":
			at, err := plan.Alloc(word(1), number(2), number(3))
			if err != nil {
				return nil, err
			}
			addresses = append(addresses, []any{word(1), at})
		case len(op) == 2 && word(0) == "f":
			if err := plan.Free(word(1)); err != nil {
				return nil, err
			}
		default:
			return nil, notAnAnswer{fmt.Sprintf("%v is neither an allocation nor a release", op)}
		}
	}
	return map[string]any{"addresses": addresses, "peak": plan.Peak()}, nil
}

// readSpace reads {"m": [1, 2], "n, k": [[1, 2], [3, 4]]}, keeping the order of
// its keys.
func readSpace(raw json.RawMessage) ([]tune.Axis, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, notAnAnswer{"the space is no object"}
	}
	var space []tune.Axis
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var values []any
		if err := d.Decode(&values); err != nil {
			return nil, err
		}
		var a tune.Axis
		for _, name := range strings.Split(key.(string), ",") {
			a.Names = append(a.Names, strings.TrimSpace(name))
		}
		for _, v := range values {
			row := []any{v}
			if len(a.Names) > 1 {
				var ok bool
				if row, ok = v.([]any); !ok {
					return nil, errors.New("names chosen together need lists of values")
				}
			}
			a.Rows = append(a.Rows, row)
		}
		space = append(space, a)
	}
	return space, nil
}

// ldmatrixDegree is the worst number of rows that meet in one 16-byte group of
// banks when ldmatrix loads any 8 × 16-byte part of a tile.
func ldmatrixDegree(in struct {
	Layout string
	Shape  []int
	NBytes int
}) (map[string]any, error) {
	var s layout.Shared
	var err error
	text := "(" + strings.ReplaceAll(strings.Trim(fmt.Sprint(in.Shape), "[]"), " ", ", ") + ")"
	switch in.Layout {
	case "swizzled":
		s, err = layout.SharedRowMajorSwizzle(8*in.NBytes, in.Shape...)
	case "row_major":
		s, err = layout.ParseShared("shared_row_major" + text)
	case "column_major":
		s, err = layout.ParseShared("shared_column_major" + text)
	default:
		s, err = layout.ParseShared(in.Layout)
	}
	if err != nil {
		return nil, err
	}
	shape := s.Shape()
	if len(shape) != 2 || in.NBytes < 1 || in.NBytes > 16 || 16%in.NBytes != 0 || shape[0]%8 != 0 || shape[1]%(16/in.NBytes) != 0 {
		return nil, fmt.Errorf("a tile of %v elements of %d bytes has no 8 × 16-byte parts", shape, in.NBytes)
	}
	if s.Size() > maxMap {
		return nil, notAnAnswer{fmt.Sprintf("%d elements are more than the %d that a case may have", s.Size(), maxMap)}
	}
	worst := 0
	for row := 0; row < shape[0]; row += 8 {
		for column := 0; column < shape[1]; column += 16 / in.NBytes {
			addrs := make([]int, 8)
			for i := range addrs {
				addrs[i] = s.Offset(row+i, column) * in.NBytes
			}
			report, err := bank.Count(bank.Nvidia(), bank.Access{Kind: bank.LdMatrix, Width: 16, Addrs: addrs})
			if err != nil {
				return nil, err
			}
			worst = max(worst, report.Phases[0].Degree)
		}
	}
	return map[string]any{"max_rows_per_16B_bank_group": worst}, nil
}
