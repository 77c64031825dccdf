package device

import (
	"os"

	"github.com/tilus-lab/tilus-lab/gpu/cache"
)

// CacheEnv is the environment variable that names the directory in which code of programs is
// kept between processes (machine code is, by the driver); "off" keeps none. Without it, it is the
// user's cache directory.
const CacheEnv = "TILUS_LAB_CACHE"

// openModules is the store of code, nil where there is none.
func openModules() *cache.Dir {
	dir := os.Getenv(CacheEnv)
	if dir == "off" || os.Getenv("CUDA_CACHE_DISABLE") == "1" {
		return nil
	}
	d, err := cache.Open(dir, 0)
	if err != nil {
		return nil // a home that cannot be written is no reason not to run
	}
	return d
}
