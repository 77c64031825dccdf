package device

import (
	"os"
	"path/filepath"

	"github.com/tilus-lab/tilus-lab/gpu/cache"
)

// CacheEnv is the environment variable that names the directory in which code of programs is
// kept between processes (machine code is, by the driver); "off" keeps none. Without it, it is the
// user's cache directory.
const CacheEnv = "TILUS_LAB_CACHE"

// driverOff is the environment variable that has the driver keep no machine code, and so nothing kept here.
const driverOff = "CUDA_CACHE_DISABLE"

// openModules is the store of code, nil where there is none.
func openModules() *cache.Dir {
	kept := Stores()[0]
	if kept.Path == "" {
		return nil
	}
	d, err := cache.Open(kept.Path, 0)
	if err != nil {
		return nil // a home that cannot be written is no reason not to run
	}
	return d
}

// Store is a directory in which code is kept between processes.
type Store struct {
	What string // what is kept there
	Path string // "" where nothing is kept
	Off  string // why nothing is
	Env  string // the environment variable that names another directory
}

// Stores are where PTX is kept, by this package, and machine code, by the driver. Whether these directories can be written
// is not looked at; what cannot be kept is made anew by each process.
//
// Source: CUDA Programming Guide, environment variables of JIT compilation.
func Stores() []Store {
	ptx := Store{What: "PTX", Path: os.Getenv(CacheEnv), Env: CacheEnv}
	machine := Store{What: "machine code", Path: os.Getenv("CUDA_CACHE_PATH"), Env: "CUDA_CACHE_PATH"}
	if os.Getenv(driverOff) == "1" {
		ptx.Path, ptx.Off = "", driverOff+"=1"
		machine.Path, machine.Off = "", ptx.Off
		return []Store{ptx, machine}
	}
	var err error
	switch ptx.Path {
	case "off":
		ptx.Path, ptx.Off = "", CacheEnv+"=off"
	case "":
		if ptx.Path, err = cache.Default(); err != nil {
			ptx.Off = err.Error()
		}
	}
	if machine.Path == "" {
		if home, err := os.UserHomeDir(); err != nil {
			machine.Off = err.Error()
		} else {
			machine.Path = filepath.Join(home, ".nv", "ComputeCache")
		}
	}
	return []Store{ptx, machine}
}
