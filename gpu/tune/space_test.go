package tune

import (
	"reflect"
	"testing"
)

func TestSpan(t *testing.T) {
	got, err := Span([]Axis{{[]string{"m"}, [][]any{{1}, {2}}}, {[]string{"n", "k"}, [][]any{{1, "a"}, {3, "b"}}}})
	want := []Schedule{{"m": 1, "n": 1, "k": "a"}, {"m": 1, "n": 3, "k": "b"}, {"m": 2, "n": 1, "k": "a"}, {"m": 2, "n": 3, "k": "b"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if got, err := Span(nil); err != nil || len(got) != 1 {
		t.Errorf("no axes: %v %v", got, err)
	}
	if got, err := Span([]Axis{{[]string{"m"}, nil}}); err != nil || len(got) != 0 {
		t.Errorf("no rows: %v %v", got, err)
	}
	many := make([][]any, 2048)
	for i := range many {
		many[i] = []any{i}
	}
	for _, space := range [][]Axis{
		{{[]string{"m"}, [][]any{{1}}}, {[]string{"m"}, [][]any{{1}}}},
		{{[]string{"m", "n"}, [][]any{{1}}}},
		{{nil, [][]any{{}}}},
		{{[]string{"m"}, many}, {[]string{"n"}, many}},
	} {
		if _, err := Span(space); err == nil {
			t.Errorf("%d axes are accepted", len(space))
		}
	}
}

// Buckets rise with the size, hold it, waste less than half, and are few.
func TestKeyOf(t *testing.T) {
	last, count := int64(0), 0
	for n := int64(0); n <= 1<<14; n++ {
		k, err := KeyOf(n)
		if err != nil || k.Divisor != 1 || k.Bucket < n || k.Bucket < last || 2*n < k.Bucket || n > 4 && 2*k.Bucket >= 3*n+4 {
			t.Fatalf("%d: %v %v", n, k, err)
		}
		if again, _ := KeyOf(k.Bucket); again.Bucket != k.Bucket {
			t.Fatalf("the bucket %d is in the bucket %d", k.Bucket, again.Bucket)
		}
		if k.Bucket != last {
			count++
		}
		last = k.Bucket
	}
	if count > 30 {
		t.Errorf("%d buckets", count)
	}
	for _, n := range []int64{-1, 1<<62 + 1} {
		if _, err := KeyOf(n); err == nil {
			t.Errorf("%d has a key", n)
		}
	}
}
