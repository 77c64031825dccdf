package main

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"
)

// jupyterDataDir is Jupyter's folder of this user. Source:
// jupyter_core.paths.jupyter_data_dir.
func jupyterDataDir(getenv func(string) string) string {
	if d := getenv("JUPYTER_DATA_DIR"); d != "" {
		return d
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Jupyter")
	case "windows":
		return filepath.Join(getenv("APPDATA"), "jupyter")
	}
	if d := getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "jupyter")
	}
	return filepath.Join(home, ".local", "share", "jupyter")
}

// jupyterRuntimeDir is where Jupyter servers of this user leave files about
// themselves. Source: jupyter_core.paths.jupyter_runtime_dir.
func jupyterRuntimeDir(getenv func(string) string) string {
	if d := getenv("JUPYTER_RUNTIME_DIR"); d != "" {
		return d
	}
	return filepath.Join(jupyterDataDir(getenv), "runtime")
}

// findJupyter returns the address at which a running Jupyter server shows a file,
// if one serves a folder above it.
func findJupyter(runtimeDir, file string) (address string, ok bool) {
	paths, err := filepath.Glob(filepath.Join(runtimeDir, "jpserver-*.json"))
	if err != nil {
		return "", false
	}
	sort.Strings(paths)
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil || len(raw) > 1<<16 {
			continue
		}
		var s struct {
			URL     string `json:"url"`
			Token   string `json:"token"`
			RootDir string `json:"root_dir"`
		}
		if json.Unmarshal(raw, &s) != nil {
			continue
		}
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" {
			continue
		}
		rel, err := filepath.Rel(s.RootDir, file)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		// A server that was killed leaves its file behind.
		conn, err := net.DialTimeout("tcp", u.Host, 300*time.Millisecond)
		if err != nil {
			continue
		}
		conn.Close()
		u.Path = strings.TrimSuffix(u.Path, "/") + "/lab/tree/" + filepath.ToSlash(rel)
		if s.Token != "" {
			u.RawQuery = url.Values{"token": {s.Token}}.Encode()
		}
		return u.String(), true
	}
	return "", false
}
