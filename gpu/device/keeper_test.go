package device

import (
	"bytes"
	"encoding/gob"
	"reflect"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// message is v as a keeper and who asks it write it.
func message(t testing.TB, v any) []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// someArgs are arguments of which two share an array.
func someArgs() []ir.Arg {
	a := array.FromCodes(dtype.I4, []int{3, 1}, []uint64{1, 2, 15})
	return []ir.Arg{{Array: a}, {Int: -7}, {Array: array.New(dtype.F16, 0)}, {Float: 0.5}, {Array: a}}
}

// TestOrder: arguments come over as they are, shared arrays shared, and an order whose
// parts do not fit together is refused.
func TestOrder(t *testing.T) {
	var o order
	if err := gob.NewDecoder(bytes.NewReader(message(t, newOrder("p", someArgs())))).Decode(&o); err != nil {
		t.Fatal(err)
	}
	got, err := o.args()
	if err != nil || got[0].Array != got[4].Array || got[0].Array.At(2, 0) != -1 || got[1].Int != -7 || got[3].Float != 0.5 || got[2].Array.Len() != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for want, spoil := range map[string]func(o *order){
		"is array 3 of 2":         func(o *order) { o.Args[0].Array = 3 },
		"is array -1 of 2":        func(o *order) { o.Args[4].Array = -1 },
		"has 3 bytes; i4[3, 1]":   func(o *order) { o.Arrays[0].Data = make([]byte, 3) },
		"dimension -3 of [1, -3]": func(o *order) { o.Arrays[0].Shape = []int{1, -3} },
		"needs an element type":   func(o *order) { o.Arrays[1].Type = 0 },
	} {
		o := newOrder("p", someArgs())
		spoil(&o)
		if got, err := o.args(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v, %v", want, got, err)
		}
	}
}

// FuzzKeeper: whatever a keeper or who asks it reads is an error, or an order whose
// arguments can be used and written again. An order is read from the bytes, and made with
// the bytes as an array of some type and shape that an argument names.
func FuzzKeeper(f *testing.F) {
	f.Add(message(f, newOrder("program p<1>() {\n}\n", someArgs())), 1, 1, 1, uint8(dtype.I4))
	f.Add(message(f, order{Queue: &asked{Do: askWrite, ID: 1, Type: dtype.F16, Len: 2, Data: []byte{1, 2, 3, 4}, Calls: []called{{Program: "p", Args: []argument{{Array: 1}}}}}}), 0, 0, 0, uint8(0))
	f.Add(message(f, answer{Err: "no", Given: newOrder("", someArgs()), Blamed: []string{"p"}}), 2, -1, 1, uint8(255))
	f.Add([]byte{1, 2, 3, 4, 5, 6}, 1, 3, 1, uint8(dtype.F16))
	f.Add([]byte{1, 2, 0}, 1, 3, 2, uint8(dtype.I3))
	f.Add([]byte{}, -1, 0, 1<<62, uint8(dtype.F64))
	f.Fuzz(func(t *testing.T, data []byte, number, rows, cols int, kind uint8) {
		use := func(o order) {
			args, err := o.args()
			if err != nil {
				return
			}
			for _, a := range args {
				if a.Array != nil {
					a.Array.Codes()
				}
			}
			again, err := newOrder(o.Program, args).args()
			if err != nil || len(again) != len(args) {
				t.Fatalf("%v comes back as %v, %v", args, again, err)
			}
			for i := range args {
				if x, y := args[i], again[i]; x.Int != y.Int || !reflect.DeepEqual(x.Array, y.Array) {
					t.Fatalf("argument %d, %v, comes back as %v", i, x, y)
				}
			}
		}
		made := order{Arrays: []*array.Array{{Type: dtype.Type(kind), Shape: []int{rows, cols}, Data: data}}, Args: []argument{{Array: number, Int: int64(rows)}}}
		var o order
		if err := gob.NewDecoder(bytes.NewReader(message(t, made))).Decode(&o); err != nil {
			t.Fatal(err)
		}
		use(o)
		o = order{}
		if gob.NewDecoder(bytes.NewReader(data)).Decode(&o) == nil {
			use(o)
		}
		var a answer
		if gob.NewDecoder(bytes.NewReader(data)).Decode(&a) == nil {
			use(a.Given)
		}
	})
}
