package blocktrace

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
)

var recordTo = flag.String("record", "", "write the traces of the examples into this folder")

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o blocks.test ./gpu/blocktrace && ./blocks.test -test.run GPU -test.v -record gpu/model/recorded"

// TestGPUBlocks runs the examples on the attached GPU.
func TestGPUBlocks(t *testing.T) {
	for _, x := range recorded.Launches() {
		got, err := RunLaunch(0, x)
		if errors.Is(err, device.ErrNoGPU) {
			t.Skipf("no GPU here; %s", howTo)
		}
		if err != nil {
			t.Fatalf("%s: %v", x.Name, err)
		}
		list, _ := Kernels(x.Program, x.Micros)
		n := 0
		for _, k := range list {
			n += k.Blocks
		}
		blocks, sms := 0, map[string]int{}
		for _, e := range got.Events {
			if e.Kind != "block" {
				continue
			}
			blocks++
			sms[e.About["sm"]]++
			for _, k := range list {
				var b int
				fmt.Sscan(e.About["block"], &b)
				if stay := int64(k.Micros[b%len(k.Micros)]) * 1000; k.Name == e.About["kernel"] && (e.End-e.Start < stay || e.End-e.Start > stay+20_000) {
					t.Errorf("%s: block %d of %s stayed %d ns, not %d", x.Name, b, k.Name, e.End-e.Start, stay)
				}
			}
		}
		if blocks != n {
			t.Errorf("%s: %d of %d blocks", x.Name, blocks, n)
		}
		t.Logf("%s: %s, %s: %d blocks on %d SMs in %d ns", x.Name, got.Machine, got.Made, blocks, len(sms), got.End)
		if *recordTo != "" {
			f, err := os.Create(filepath.Join(*recordTo, x.Name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Write(f); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSimulated runs the kernel on the simulator, whose clock counts instructions.
func TestSimulated(t *testing.T) {
	const blocks = 5
	f, err := waiter("wait", 64, 1024)
	if err != nil {
		t.Fatal(err)
	}
	stamps, times := make([]byte, blocks*stampBytes), make([]byte, 4*blocks)
	for b := range blocks {
		binary.LittleEndian.PutUint32(times[4*b:], uint32(100*(b+1)))
	}
	if _, err := sim.Run(t.Context(), f, sim.Launch{Grid: [3]int{blocks, 1, 1}, Args: []sim.Arg{{Buffer: stamps}, {Buffer: times}}}, sim.Options{}); err != nil {
		t.Fatal(err)
	}
	for b := range blocks {
		at := stamps[b*stampBytes:]
		entry, exit := binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[8:])
		if stay := uint64(100 * (b + 1)); exit-entry < stay || exit-entry > stay+20 {
			t.Errorf("block %d is there from %d to %d, not for %d", b, entry, exit, stay)
		}
	}
}

func put(list ...[3]int64) []byte {
	var out []byte
	for _, s := range list {
		var b [stampBytes]byte
		binary.LittleEndian.PutUint64(b[:], uint64(s[0]))
		binary.LittleEndian.PutUint64(b[8:], uint64(s[1]))
		binary.LittleEndian.PutUint32(b[16:], uint32(s[2]))
		out = append(out, b[:]...)
	}
	return out
}

// TestTell holds causes to stamps whose order is known.
func TestTell(t *testing.T) {
	k := Kernel{Name: "k", Stream: "s", Blocks: 4, Threads: 32, Micros: []int{1}}
	got, err := Tell("t", "m", 3, []Kernel{k}, [][]byte{put([3]int64{100, 200, 0}, [3]int64{101, 150, 1}, [3]int64{152, 300, 1}, [3]int64{210, 260, 0})})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range got.Events {
		said = append(said, fmt.Sprintf("%s %d–%d because of %v", e.Text, e.Start, e.End, e.Causes))
	}
	want := []string{
		"k: 4 blocks of 32 threads in stream s, first entry to last exit 0–200 because of []",
		"block 0 of k runs on SM 0, which had room 0–100 because of [0]",
		"block 1 of k runs on SM 1, which had room 1–50 because of [0]",
		"block 2 of k runs on SM 1 in the room that block 1 of k left 52–200 because of [2]",
		"block 3 of k runs on SM 0 in the room that block 0 of k left 110–160 because of [1]",
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("it tells\n%s\nnot\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if len(got.Tracks) != 4 {
		t.Errorf("%d tracks for 3 SMs and a kernel", len(got.Tracks))
	}
	for _, bad := range [][][]byte{nil, {put([3]int64{1, 2, 0})}, {put([3]int64{0, 2, 0}, [3]int64{1, 2, 0}, [3]int64{1, 2, 0}, [3]int64{1, 2, 0})}} {
		if _, err := Tell("t", "m", 3, []Kernel{k}, bad); err == nil {
			t.Errorf("stamps %v are taken", bad)
		}
	}
}

func TestWithoutGPU(t *testing.T) {
	_, err := Run(0, "t", []Kernel{{Name: "k", Blocks: 1, Threads: 32, Micros: []int{1}}})
	if err != nil && !errors.Is(err, device.ErrNoGPU) {
		t.Error(err)
	}
	for _, bad := range [][]Kernel{nil, {{Name: "k", Blocks: 1, Threads: 2000, Micros: []int{1}}}, {{Name: "k", Blocks: 60000, Threads: 1, Micros: []int{99999}}}, {{Name: "k", Blocks: 1, Threads: 1}}} {
		if _, err := Run(0, "t", bad); err == nil || errors.Is(err, device.ErrNoGPU) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := Kernels(dispatch.Program{Launches: []dispatch.Launch{{Stream: "s", Kernel: dispatch.Kernel{Name: "k", Blocks: 1, Threads: 1, Ticks: 1, Mask: dispatch.Mask{1}}}}}, 1); err == nil {
		t.Error("a mask is taken")
	}
}
