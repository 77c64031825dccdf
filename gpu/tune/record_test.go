package tune

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestRowsLimit: a file that is no record is refused before it fills memory.
func TestRowsLimit(t *testing.T) {
	for n, want := range map[int]string{maxRecord - 2: "", maxRecord - 1: "at most 16777216 bytes"} {
		_, err := readRows(strings.NewReader("[]" + strings.Repeat(" ", n)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v", n+2, err)
		}
	}
}

// FuzzReadRows: what reads as rows is written as a text that reads as the same rows.
func FuzzReadRows(f *testing.F) {
	f.Add([]byte(`[{"what": "timing", "name": "a", "median_us": 5e-1, "grid": [1, 2], "replays": 7, "sm_mhz": 1980}]`))
	f.Add([]byte(`[{"result": "\ud800", "ratio": -0.0}, null, {"grid": null}]`))
	f.Add([]byte(`{"what": "timing"}`))
	if raw, err := os.ReadFile(recordFile); err == nil {
		var rows []json.RawMessage
		if json.Unmarshal(raw, &rows) == nil && len(rows) > 0 {
			one, err := json.Marshal(rows[:1])
			if err != nil {
				f.Fatal(err)
			}
			f.Add(one)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := readRows(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, r := range rows {
			if r.Complete() && (r.MedianUs <= 0 || r.Name == "") {
				t.Fatalf("%+v counts as complete", r)
			}
		}
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > maxRecord {
			return
		}
		if back, err := readRows(bytes.NewReader(text)); err != nil || !reflect.DeepEqual(back, rows) {
			t.Fatalf("%+v reads back as %+v, %v", rows, back, err)
		}
	})
}
