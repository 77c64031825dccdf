package device

import (
	"os"

	"github.com/tilus-lab/tilus-lab/gpu/cache"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
)

// CacheEnv is the environment variable that names the directory in which machine code
// of programs is kept between processes; "off" keeps none. Without it, it is the
// user's cache directory.
const CacheEnv = "TILUS_LAB_CACHE"

// openModules is the store of machine code, nil where there is none.
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

// module loads PTX as machine code from the store, or has the driver make it. Machine
// code that the driver does not take is made again by it.
func (g *gpu) module(ptx string) (*cuda.Module, error) {
	if g.modules != nil {
		if cubin, _, err := g.cubin(ptx); err == nil {
			if m, err := g.ctx.Load(cubin, cuda.JIT{}); err == nil {
				return m, nil
			}
		}
	}
	return g.ctx.Load([]byte(ptx), cuda.JIT{})
}

// cubin is machine code of the store, made by the driver where it is not there.
func (g *gpu) cubin(ptx string) (data []byte, hit bool, err error) {
	key := cache.Key("cubin 2", ptx, g.real, g.info.Driver, g.info.Title)
	return g.modules.Make(key, func() ([]byte, error) { return g.ctx.Cubin([]byte(ptx)) })
}
